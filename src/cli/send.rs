//! `send`: sends a request to a device and prints the answer.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::caller_client::{CallerAnswer, CallerRequest, OutputPiece};
use super::console;
use super::context::{CliContext, command_runtime};
use super::exit::{CommandError, Exit};
use crate::config::WorkspaceRule;
use crate::home::read_request_key;
use crate::ids::{ConversationId, DeviceId, RequestId};
use crate::output::number_format::format_size;
use crate::redact::Secret;
use crate::request::SignedRequest;
use crate::runner::Clock;

/// A tool and its arguments, as `send` and `call` take them.
#[derive(Debug, Args)]
pub struct ToolCallArgs {
    /// The tool's name, such as Read
    pub tool: String,
    /// The tool's arguments as a JSON object; -: read them from standard input
    #[arg(value_name = "JSON", default_value = "{}")]
    arguments: String,
}

impl ToolCallArgs {
    /// Returns the arguments as text. The device checks them.
    pub fn read_arguments(&self) -> anyhow::Result<String> {
        if self.arguments != "-" {
            return Ok(self.arguments.clone());
        }
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|cause| {
                CommandError::with_exit(Exit::Usage, format!("standard input: {cause}"))
            })?;
        Ok(text)
    }
}

#[derive(Debug, Args)]
pub struct SendArgs {
    #[command(flatten)]
    call: ToolCallArgs,
    /// The conversation of the request; calls of one conversation run in order
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,
    /// Seconds to wait for the answer; 0: send and return
    #[arg(long, value_name = "SECS", default_value_t = 600.0)]
    wait: f64,
    /// Sign the request with the private key in this file (made by `keygen`)
    #[arg(long, value_name = "FILE")]
    sign_key: Option<PathBuf>,
    /// Show on stderr what the command prints while it runs
    #[arg(long)]
    progress: bool,
}

/// Sends a request and waits for its answer.
pub fn run_send(args: &SendArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let wait = Duration::try_from_secs_f64(args.wait).map_err(|_| {
        CommandError::with_exit(
            Exit::Usage,
            format!("--wait {} is not a number of seconds", args.wait),
        )
    })?;
    let (config, home) = context.config_and_home(WorkspaceRule::NotNeeded)?;
    let caller = CliContext::caller_client(&config, &home)?;
    let key = args.sign_key.as_deref().map(load_sign_key).transpose()?;
    let mut ask = CallerRequest {
        id: RequestId::new(),
        tool: args.call.tool.clone(),
        args: args.call.read_arguments()?,
        conversation: args.conversation.clone(),
        progress: args.progress,
        signed: None,
    };
    command_runtime()?.block_on(async {
        let device = context.resolve_device(&config, &home, &caller).await?;
        if let Some(key) = &key {
            sign_request(&mut ask, &device, key)?;
        }
        caller.append_request(&device, &ask).await?;
        if wait.is_zero() {
            print_request_id(&ask, context.is_json());
            return Ok(Exit::Done);
        }
        let mut piece_by_piece = print_progress;
        let watching: Option<&mut (dyn FnMut(&OutputPiece) + Send)> = if args.progress {
            Some(&mut piece_by_piece)
        } else {
            None
        };
        if let Some(answer) = caller.watch_for_answer(&ask.id, wait, watching).await? {
            return Ok(print_answer(&ask.id, &ask.tool, &answer, context.is_json()));
        }
        let text = format!(
            "no answer within {} s; the request stays: `punie-runner cancel {}` takes it back",
            args.wait, ask.id
        );
        Err(CommandError::with_exit(Exit::TimedOut, text))
    })
}

fn load_sign_key(path: &Path) -> anyhow::Result<Secret<[u8; 32]>> {
    read_request_key(path)?.ok_or_else(|| {
        let text = format!(
            "there is no {}; `punie-runner keygen` makes one",
            path.display()
        );
        CommandError::with_exit(Exit::Config, text)
    })
}

fn sign_request(
    ask: &mut CallerRequest,
    device: &DeviceId,
    key: &Secret<[u8; 32]>,
) -> anyhow::Result<()> {
    let conversation = ask
        .conversation
        .clone()
        .map(ConversationId::parse)
        .transpose()?;
    let issued_at_ms = Clock::system_clock().now_ms();
    let signed = SignedRequest {
        request: &ask.id,
        device,
        tool: &ask.tool,
        args: &ask.args,
        issued_at_ms,
        deadline_ms: None,
        conversation: conversation.as_ref(),
        agent_type: None,
    };
    let signature = signed.sign_with_seed(key.expose());
    ask.signed = Some((issued_at_ms, signature));
    Ok(())
}

/// Prints progress unchanged: on a terminal it looks as if the command ran here.
fn print_progress(piece: &OutputPiece) {
    if piece.omitted_bytes > 0 {
        console::print_stderr(&format!(
            "\n[{} more before this]\n",
            format_size(piece.omitted_bytes)
        ));
    }
    console::print_stderr(&piece.text);
}

fn print_request_id(ask: &CallerRequest, as_json: bool) {
    if as_json {
        console::print_json(&json!({"requestId": ask.id.as_str(), "toolName": ask.tool}));
    } else {
        console::print_line(ask.id.as_str());
    }
}

/// Prints an answer; an error of the tool makes the command fail.
pub fn print_answer(id: &RequestId, tool: &str, answer: &CallerAnswer, as_json: bool) -> Exit {
    if as_json {
        let mut shown =
            json!({"requestId": id.as_str(), "toolName": tool, "outcome": answer.outcome});
        for key in ["result", "error", "meta"] {
            if let Some(value) = answer.payload.get(key).filter(|value| !value.is_null()) {
                shown[key] = Value::clone(value);
            }
        }
        console::print_json(&shown);
    } else {
        console::print_line(&answer.answer_text());
    }
    if answer.outcome == "ok" {
        Exit::Done
    } else {
        Exit::Failed
    }
}
