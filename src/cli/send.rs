//! `send`: sends a request to a device and prints the answer.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::caller::{Answer, Ask, Piece};
use super::context::{Context, runtime};
use super::exit::{Exit, Stop};
use super::print;
use crate::config::WorkspaceRule;
use crate::home::read_request_key;
use crate::ids::{ConversationId, DeviceId, RequestId};
use crate::output::figures::size;
use crate::redact::Secret;
use crate::request::Signed;
use crate::runner::Clock;

/// A tool and its arguments, as `send` and `call` take them.
#[derive(Debug, Args)]
pub struct ToolCall {
    /// The tool, such as Read
    pub tool: String,
    /// Its arguments as a JSON object; - reads them from standard input
    #[arg(value_name = "JSON", default_value = "{}")]
    arguments: String,
}

impl ToolCall {
    /// Returns the arguments as text. The device checks them.
    pub fn args(&self) -> anyhow::Result<String> {
        if self.arguments != "-" {
            return Ok(self.arguments.clone());
        }
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|cause| Stop::with(Exit::Usage, format!("standard input: {cause}")))?;
        Ok(text)
    }
}

#[derive(Debug, Args)]
pub struct SendArgs {
    #[command(flatten)]
    call: ToolCall,
    /// The conversation that the request belongs to
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,
    /// How long to wait for the answer; 0 sends and returns
    #[arg(long, value_name = "SECS", default_value_t = 600.0)]
    wait: f64,
    /// Sign the request with the private key in this file, which `keygen` has made
    #[arg(long, value_name = "FILE")]
    sign_key: Option<PathBuf>,
    /// Show on stderr what a command prints while it runs; the answer comes on stdout as always
    #[arg(long)]
    progress: bool,
}

/// Sends a request and waits for its answer.
pub fn send(args: &SendArgs, context: &Context) -> anyhow::Result<Exit> {
    let wait = Duration::try_from_secs_f64(args.wait)
        .map_err(|_| Stop::with(Exit::Usage, format!("--wait {} is not a number of seconds", args.wait)))?;
    let config = context.config(WorkspaceRule::NotNeeded)?;
    let home = Context::home(&config)?;
    let caller = Context::caller(&config, &home)?;
    let key = args.sign_key.as_deref().map(sign_key).transpose()?;
    let mut ask = Ask {
        id: RequestId::new(),
        tool: args.call.tool.clone(),
        args: args.call.args()?,
        conversation: args.conversation.clone(),
        progress: args.progress,
        signed: None,
    };
    runtime()?.block_on(async {
        let device = context.device(&config, &home, &caller).await?;
        if let Some(key) = &key {
            sign(&mut ask, &device, key)?;
        }
        caller.append(&device, &ask).await?;
        if wait.is_zero() {
            sent(&ask, context.json());
            return Ok(Exit::Done);
        }
        let mut piece_by_piece = show_piece;
        let watching: Option<&mut (dyn FnMut(&Piece) + Send)> =
            if args.progress { Some(&mut piece_by_piece) } else { None };
        if let Some(answer) = caller.watch(&ask.id, wait, watching).await? {
            return Ok(show(&ask.id, &ask.tool, &answer, context.json()));
        }
        let text = format!(
            "no answer within {} s; the request stays: `punie-runner cancel {}` takes it back",
            args.wait, ask.id
        );
        Err(Stop::with(Exit::TimedOut, text))
    })
}

fn sign_key(path: &Path) -> anyhow::Result<Secret<[u8; 32]>> {
    read_request_key(path)?.ok_or_else(|| {
        let text = format!("there is no {}; `punie-runner keygen` makes one", path.display());
        Stop::with(Exit::Config, text)
    })
}

fn sign(ask: &mut Ask, device: &DeviceId, key: &Secret<[u8; 32]>) -> anyhow::Result<()> {
    let conversation = ask.conversation.clone().map(ConversationId::parse).transpose()?;
    let issued_at_ms = Clock::system().now_ms();
    let signed = Signed {
        request: &ask.id,
        device,
        tool: &ask.tool,
        args: &ask.args,
        issued_at_ms,
        deadline_ms: None,
        conversation: conversation.as_ref(),
        agent_type: None,
    };
    let signature = signed.sign(key.expose());
    ask.signed = Some((issued_at_ms, signature));
    Ok(())
}

/// Prints progress unchanged: on a terminal it looks as if the command ran here.
fn show_piece(piece: &Piece) {
    if piece.omitted_bytes > 0 {
        print::aside(&format!("\n[{} more before this]\n", size(piece.omitted_bytes)));
    }
    print::aside(&piece.text);
}

fn sent(ask: &Ask, as_json: bool) {
    if as_json {
        print::json(&json!({"requestId": ask.id.as_str(), "toolName": ask.tool}));
    } else {
        print::line(ask.id.as_str());
    }
}

/// Prints an answer; an error of the tool makes the command fail.
pub fn show(id: &RequestId, tool: &str, answer: &Answer, as_json: bool) -> Exit {
    if as_json {
        let mut shown = json!({"requestId": id.as_str(), "toolName": tool, "outcome": answer.outcome});
        for key in ["result", "error", "meta"] {
            if let Some(value) = answer.payload.get(key).filter(|value| !value.is_null()) {
                shown[key] = Value::clone(value);
            }
        }
        print::json(&shown);
    } else {
        print::line(&answer.text());
    }
    if answer.outcome == "ok" { Exit::Done } else { Exit::Failed }
}
