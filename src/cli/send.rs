//! `send`: sends a request to a device and prints the answer.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use super::caller_client::{CallerAnswer, CallerClient, CallerRequest, OutputPiece};
use super::console;
use super::context::{CliContext, command_runtime, describe_known_devices};
use super::exit::{CommandError, Exit};
use super::process_signals::Interrupts;
use super::table::short_id;
use super::tool_arguments::ToolCallArgs;
use crate::config::Config;
use punie_core::ids::{ConversationId, DeviceId, RequestId};
use punie_engine::backend::BackendError;
use punie_engine::runner::Clock;
use punie_home::{ApprovalQuestions, command_to_type, read_request_key, shell_word};
use punie_text::output::number_format::format_size;
use punie_text::redact::Secret;
use punie_tool::request::SignedRequest;

/// The time of waiting after which the request's id is named.
const SILENCE_LIMIT: Duration = Duration::from_secs(2);
/// The age in milliseconds from which on a question waits although nobody is asked here: the runner may refuse it before.
const UNHEARD_QUESTION_MS: i64 = 5_000;
/// The interval of checks for a question about the request.
const QUESTION_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub struct SendArgs {
    #[command(flatten)]
    call: ToolCallArgs,
    /// The conversation of the request; calls of one conversation run in order
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,
    /// How long to wait for the answer, also while the backend is away; 0 sends and returns
    #[arg(long, value_name = "SECS", default_value_t = 600.0)]
    wait: f64,
    /// Sign the request with the private key in this file (made by `keygen`)
    #[arg(long, value_name = "FILE")]
    sign_key: Option<PathBuf>,
    /// Show output on stderr while the command runs; the answer comes on stdout. A terminal shows it without this
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
    let (config, home) = context.caller_config()?;
    let caller = CliContext::caller_client(&config, &home)?;
    let key = args.sign_key.as_deref().map(load_sign_key).transpose()?;
    let streams = !context.is_json() && console::is_terminal();
    command_runtime()?.block_on(async {
        let device = context.resolve_device(&config, &home, &caller).await?;
        let schema = if args.call.needs_schema() {
            // Without it the arguments are texts, and the device says what is wrong with them.
            caller
                .tool_schema(&device, &args.call.tool)
                .await
                .ok()
                .flatten()
        } else {
            None
        };
        let mut ask = CallerRequest {
            id: RequestId::new(),
            tool: args.call.tool.clone(),
            args: args.call.read_arguments(schema.as_ref())?,
            conversation: args.conversation.clone(),
            session: None,
            progress: args.progress || streams,
            signed: None,
        };
        if let Some(key) = &key {
            sign_request(&mut ask, &device, key)?;
        }
        if wait.is_zero() {
            if let Err(error) = caller.append_request(&device, &ask).await {
                return Err(explain_unknown_device(error.into(), &config, &caller).await);
            }
            print_request_id(&ask, context.is_json());
            return Ok(Exit::Done);
        }
        let waiting = AnswerWait {
            caller: &caller,
            questions: ApprovalQuestions::in_home(&home),
            device: &device,
            ask: &ask,
            limit: wait,
            streams,
            is_stored: AtomicBool::new(false),
        };
        let (answer, shown) = match waiting.wait_or_interrupt().await {
            Ok(answered) => answered,
            Err(error) => {
                let error = explain_unknown_device(error, &config, &caller).await;
                return Err(error.context(format!("request {}", ask.id)));
            }
        };
        let Some(answer) = answer else {
            let text = format!(
                "no answer within {} s; the request stays: `{}` takes it back",
                args.wait,
                command_to_type(&format!("cancel {}", ask.id))
            );
            return Err(CommandError::with_exit(Exit::TimedOut, text));
        };
        if answer.outcome == "error" && !context.is_json() {
            console::print_stderr(&format!("request {}\n", ask.id));
        }
        Ok(if streams {
            print_rest(&shown, &answer)
        } else {
            print_answer(&ask.id, &ask.tool, &answer, context.is_json())
        })
    })
}

/// Names the devices that the backend knows, if it does not know the one that a request addresses.
async fn explain_unknown_device(
    error: anyhow::Error,
    config: &Config,
    caller: &CallerClient,
) -> anyhow::Error {
    let refusal = error.downcast_ref().and_then(BackendError::refusal_code);
    if refusal != Some("DEVICE_UNKNOWN") {
        return error;
    }
    match caller.list_known_devices().await {
        Ok(known) => error.context(describe_known_devices(config, &known)),
        Err(_) => error,
    }
}

/// The wait for the answer to a request that is to be sent.
struct AnswerWait<'a> {
    caller: &'a CallerClient,
    /// The questions of the runner of this home. Those about another runner's requests are not here.
    questions: ApprovalQuestions,
    device: &'a DeviceId,
    ask: &'a CallerRequest,
    limit: Duration,
    /// Output goes to stdout as it comes.
    streams: bool,
    /// The backend has confirmed the request.
    is_stored: AtomicBool,
}

impl AnswerWait<'_> {
    /// Sends the request and waits. The first Ctrl-C cancels it, the second one leaves. Names the request's id if it
    /// takes long. Returns also the output that was shown.
    async fn wait_or_interrupt(&self) -> anyhow::Result<(Option<CallerAnswer>, String)> {
        let mut interrupts = Interrupts::listen()?;
        let mut answering = std::pin::pin!(self.send_and_wait());
        let mut silence = std::pin::pin!(tokio::time::sleep(SILENCE_LIMIT));
        let mut checks = tokio::time::interval(QUESTION_INTERVAL);
        let (mut is_named, mut is_cancelled, mut is_asked) = (false, false, false);
        loop {
            tokio::select! {
                answered = &mut answering => return Ok(answered?),
                () = &mut silence, if !is_named => {
                    is_named = true;
                    let text = format!("request {}: waiting; Ctrl-C cancels it\n", self.ask.id);
                    console::print_stderr(&text);
                }
                _ = checks.tick(), if !is_asked => is_asked = self.tell_of_question(),
                () = interrupts.next_press() => {
                    if is_cancelled {
                        break;
                    }
                    is_cancelled = true;
                    tokio::select! {
                        cancelled = self.caller.cancel_request(&self.ask.id) => {
                            self.check_confirmed(&cancelled)?;
                            self.print_cancelled(&cancelled);
                        }
                        () = interrupts.next_press() => break,
                    }
                }
            }
        }
        Err(CommandError::with_exit(
            Exit::Failed,
            "left without its answer",
        ))
    }

    /// Says how to answer the question about the request. Returns false if there is none in this home.
    fn tell_of_question(&self) -> bool {
        let Some(question) = self.questions.find_about(&self.ask.id) else {
            return false;
        };
        let is_new = Clock::system().now_ms() < question.asked_at_ms + UNHEARD_QUESTION_MS;
        if is_new && !self.questions.has_approver() {
            return false;
        }
        let id = short_id(self.ask.id.as_str());
        console::print_stderr(&match question.input {
            None => format!(
                "request {id}: waiting for your approval\nTo answer: {} (or deny; show prints it all).\n",
                command_to_type(&format!("approvals allow {id}"))
            ),
            Some(_) => format!(
                "request {id} asks you something\nTo answer: {}\n",
                command_to_type("questions")
            ),
        });
        true
    }

    /// Ends the command if the backend has not confirmed the request: it must not be sent again.
    fn check_confirmed(&self, cancelled: &Result<String, BackendError>) -> anyhow::Result<()> {
        let is_known = matches!(
            cancelled.as_ref().map(String::as_str),
            Ok("cancelling" | "finished")
        );
        if is_known || self.is_stored.load(Ordering::Relaxed) {
            return Ok(());
        }
        let text = format!(
            "the backend did not confirm the request, and it is not sent again. If it arrived all the same, this \
             cancels it: {}",
            command_to_type(&format!("cancel {}", self.ask.id))
        );
        Err(CommandError::with_exit(Exit::Unreachable, text))
    }

    fn print_cancelled(&self, cancelled: &Result<String, BackendError>) {
        let id = short_id(self.ask.id.as_str());
        console::print_stderr(&match cancelled.as_ref().map(String::as_str) {
            Ok("cancelling") => format!("cancelled {id}\n"),
            Ok("finished") => format!("{id} has finished already\n"),
            Ok(_) => format!("{id} has not reached the backend yet; Ctrl-C again leaves\n"),
            Err(error) => format!("{id} cannot be cancelled: {error}; Ctrl-C again leaves\n"),
        });
    }

    async fn send_and_wait(&self) -> Result<(Option<CallerAnswer>, String), BackendError> {
        let begun = Instant::now();
        self.caller
            .append_within(self.device, self.ask, self.limit)
            .await?;
        self.is_stored.store(true, Ordering::Relaxed);
        let mut shown = String::new();
        let mut show = |piece: &OutputPiece| {
            let text = progress_text(piece);
            if self.streams {
                console::print_text(&text);
                shown.push_str(&text);
            } else {
                console::print_stderr_unwrapped(&text);
            }
        };
        let show: Option<&mut (dyn FnMut(&OutputPiece) + Send)> = if self.ask.progress {
            Some(&mut show)
        } else {
            None
        };
        let left = self.limit.saturating_sub(begun.elapsed());
        let answer = self
            .caller
            .watch_for_answer(&self.ask.id, left, show)
            .await?;
        Ok((answer, shown))
    }
}

/// Prints the part of an answer that was not shown while the call ran.
fn print_rest(shown: &str, answer: &CallerAnswer) -> Exit {
    let text = answer.text();
    let rest = unshown_part(shown, &text);
    if !shown.is_empty() && !shown.ends_with('\n') && !rest.starts_with('\n') {
        console::print_line("");
    }
    let rest = if shown.ends_with('\n') {
        rest.trim_start_matches('\n')
    } else {
        rest
    };
    if !rest.is_empty() {
        print_answer_text(answer, rest);
    }
    answer.print_notes();
    answer_exit(answer)
}

/// Returns the part of an answer behind the output that was shown. A long answer has only the beginning and the end of
/// the output: then it is the part behind that end, or all of it if the end is not found.
fn unshown_part<'t>(shown: &str, answer: &'t str) -> &'t str {
    const TAIL: usize = 200;
    let shown = shown.trim_end();
    if let Some(rest) = answer.strip_prefix(shown) {
        return rest;
    }
    let tail = shown.char_indices().rev().nth(TAIL - 1);
    let found = tail.and_then(|(at, _)| Some(answer.rfind(&shown[at..])? + shown.len() - at));
    found.map_or(answer, |end| &answer[end..])
}

fn load_sign_key(path: &Path) -> anyhow::Result<Secret<[u8; 32]>> {
    read_request_key(path)?.ok_or_else(|| {
        let text = format!(
            "there is no {}; `{}` makes one",
            path.display(),
            command_to_type(&format!(
                "keygen {}",
                shell_word(&path.display().to_string())
            ))
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
    let issued_at_ms = Clock::system().now_ms();
    let signed = SignedRequest {
        request: &ask.id,
        device,
        tool: &ask.tool,
        args: &ask.args,
        issued_at_ms,
        deadline_ms: None,
        conversation: conversation.as_ref(),
        agent_type: None,
        session: None,
    };
    let signature = signed.sign_with_seed(key.expose());
    ask.signed = Some((issued_at_ms, signature));
    Ok(())
}

/// Returns the text of a piece unchanged: on a terminal it looks as if the command ran here.
fn progress_text(piece: &OutputPiece) -> String {
    if piece.omitted_bytes == 0 {
        return piece.text.clone();
    }
    let omitted = format_size(piece.omitted_bytes);
    format!("\n[{omitted} more before this]\n{}", piece.text)
}

fn print_request_id(ask: &CallerRequest, as_json: bool) {
    if as_json {
        console::print_json(&json!({"requestId": ask.id.as_str(), "toolName": ask.tool}));
    } else {
        console::print_line(ask.id.as_str());
    }
}

/// Prints the text of an answer: an error is sentences, anything else output.
fn print_answer_text(answer: &CallerAnswer, text: &str) {
    match answer.outcome.as_str() {
        "error" => console::print_line(text),
        _ => console::print_unwrapped(text),
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
        print_answer_text(answer, &answer.text());
        answer.print_notes();
    }
    answer_exit(answer)
}

fn answer_exit(answer: &CallerAnswer) -> Exit {
    match answer.outcome.as_str() {
        "ok" => Exit::Done,
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_was_shown_is_not_shown_again() {
        for (shown, answer, rest) in [
            ("", "all of it", "all of it"),
            (
                "one\ntwo\n",
                "one\ntwo\n\n[exit code 1]",
                "\n\n[exit code 1]",
            ),
            (
                "ok\nok\n",
                "ok\nok\nok\n[exit code 0]",
                "\nok\n[exit code 0]",
            ),
            ("something else", "the answer", "the answer"),
        ] {
            assert_eq!(unshown_part(shown, answer), rest);
        }
        let lines: Vec<String> = (0..2_000).map(|n| format!("line {n}\n")).collect();
        let long = lines.concat();
        let clipped = format!(
            "line 0\n[much]\n{}\n[exit code 0]",
            &long[long.len() - 900..]
        );
        assert_eq!(unshown_part(&long, &clipped), "\n\n[exit code 0]");
    }
}
