//! Logging to stderr and, for a runner in the background, also to files of the home. Masks secrets and escapes terminal
//! control characters.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use serde_json::{Map, Value};
use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterExt as _, dynamic_filter_fn, filter_fn};
use tracing_subscriber::prelude::*;
use tracing_subscriber::{fmt, reload};

use super::log_file::RotatingLog;
use super::terminal_log_line::TerminalLogLine;
use super::wrapped_text::wrap_lines;
use super::{console, prompt_line};
use crate::config::{ColorChoice, Log, LogFile as Wanted, LogFormat, LogLevel};
use punie_engine::runner::ANSWERED_TARGET;
use punie_text::output::hidden_characters::escape_hidden_characters;
use punie_text::redact::{self, Redactor};

/// Starts logging at the level and in the form of `log`, also to files in `folder` if given. A terminal gets the form
/// `on_terminal`. A second start in one process changes nothing.
pub fn start_logging(
    log: &Log,
    on_terminal: LogFormat,
    color: ColorChoice,
    folder: Option<PathBuf>,
) {
    let is_terminal = io::stderr().is_terminal();
    let format = if is_terminal { on_terminal } else { log.format };
    let colored = match color {
        _ if format == LogFormat::Json => false,
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => is_terminal,
    };
    let shown = fmt::layer()
        .with_writer(move || MaskingWriter {
            to: StderrLog { format },
            format,
            colored,
        })
        .with_ansi(colored);
    let shown = match format {
        LogFormat::Json => shown.json().with_current_span(false).boxed(),
        LogFormat::Text if is_terminal => shown.event_format(TerminalLogLine).boxed(),
        LogFormat::Text => shown.with_target(false).boxed(),
    };
    let shown = shown.with_filter(live_filter(log.level).and(dynamic_filter_fn(|meta, _| {
        meta.target() != ANSWERED_TARGET || !HIDES_ANSWERED.load(Ordering::Relaxed)
    })));
    let kept = folder.map(|folder| {
        let kept = fmt::layer()
            .with_writer(Mutex::new(MaskingWriter {
                to: RotatingLog::for_folder(folder),
                format: log.format,
                colored: false,
            }))
            .with_ansi(false);
        let kept = match log.format {
            LogFormat::Json => kept.json().with_current_span(false).boxed(),
            LogFormat::Text => kept.with_target(false).boxed(),
        };
        kept.with_filter(live_filter(log.level))
    });
    // In tests, another subscriber is already installed.
    let _ = tracing_subscriber::registry()
        .with(shown)
        .with(kept)
        .with(filter_fn(is_shown_in_logs))
        .try_init();
}

/// Returns false for the SDK of MCP, which logs what servers say, as it is.
fn is_shown_in_logs(meta: &Metadata<'_>) -> bool {
    !meta.target().starts_with("rmcp")
}

/// Changes the level of the log of this process.
pub fn set_log_level(level: LogLevel) {
    for set in LEVEL_SETTERS.lock().iter() {
        set(level.filter());
    }
}

/// The functions that change the level of this process's logs.
static LEVEL_SETTERS: parking_lot::Mutex<Vec<LevelSetter>> = parking_lot::const_mutex(Vec::new());

/// Changes the level of one log.
type LevelSetter = Box<dyn Fn(LevelFilter) + Send>;

/// Creates a filter whose level can be changed.
fn live_filter<S: 'static>(level: LogLevel) -> reload::Layer<LevelFilter, S> {
    let (filter, handle) = reload::Layer::new(level.filter());
    LEVEL_SETTERS.lock().push(Box::new(move |level| {
        // It fails where another subscriber was installed before.
        let _ = handle.reload(level);
    }));
    filter
}

/// Leaves the log line about finished calls out on stderr from now on, because a line for people stands there. The log
/// in the home keeps it.
pub fn hide_answered_calls() {
    HIDES_ANSWERED.store(true, Ordering::Relaxed);
}

/// True if stderr shows lines for people in place of the log lines about finished calls.
static HIDES_ANSWERED: AtomicBool = AtomicBool::new(false);

/// Returns whether a runner writes its log to files.
pub fn logs_to_file(wanted: Wanted) -> bool {
    match wanted {
        Wanted::Always => true,
        Wanted::Never => false,
        Wanted::Auto => !io::stderr().is_terminal(),
    }
}

/// Also masks the values of this redactor in the log from now on. The last one counts: a process has one home, and
/// each of its runners reads the secrets anew.
pub fn mask_with(redactor: &Redactor) {
    *LOG_REDACTOR.write() = Some(redactor.clone());
}

/// The redactor of this process.
static LOG_REDACTOR: RwLock<Option<Redactor>> = parking_lot::const_rwlock(None);

/// The log on stderr. On a terminal its lines stand above a prompt, and are wrapped unless they are JSON.
struct StderrLog {
    format: LogFormat,
}

impl Write for StderrLog {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(lines);
        let wrapped = match self.format {
            LogFormat::Json => text,
            LogFormat::Text => wrap_lines(&text, console::stderr_width()),
        };
        prompt_line::write_above_prompt(&mut io::stderr(), wrapped.as_bytes())?;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// A writer that masks known values and lookalike credentials and escapes terminal control characters. It receives
/// whole lines, one at a time.
struct MaskingWriter<W> {
    to: W,
    format: LogFormat,
    /// The line has colour escapes; the logged values were already escaped.
    colored: bool,
}

/// Escapes terminal control characters except the colours.
fn escape_except_colors(line: &str) -> String {
    let parts: Vec<_> = line.split('\x1b').map(escape_hidden_characters).collect();
    parts.join("\x1b")
}

/// Masks known values and lookalike credentials.
fn mask_text(text: &str) -> String {
    let known = LOG_REDACTOR.read();
    let known = known
        .as_ref()
        .map_or(Cow::Borrowed(text), |known| known.mask(text).0);
    redact::mask_log_line(&known).into_owned()
}

/// Masks each string of a JSON line by itself, so that a mask cannot break the JSON, and moves the message beside the
/// time and the level, where programs that collect logs expect it.
fn mask_json_line(line: &str) -> String {
    let Ok(mut event) = serde_json::from_str::<Map<String, Value>>(line) else {
        return escape_hidden_characters(&mask_text(line)).into_owned();
    };
    let fields = event.get_mut("fields").and_then(Value::as_object_mut);
    if let Some(message) = fields.and_then(|fields| fields.shift_remove("message")) {
        event.insert("message".to_owned(), message);
    }
    event.values_mut().for_each(mask_strings);
    format!("{}\n", console::json_line(&event))
}

fn mask_strings(value: &mut Value) {
    match value {
        Value::String(text) => *text = mask_text(text),
        Value::Array(values) => values.iter_mut().for_each(mask_strings),
        Value::Object(values) => values.values_mut().for_each(mask_strings),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl<W: Write> Write for MaskingWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let plain = match self.format {
            LogFormat::Json => mask_json_line(&text),
            LogFormat::Text if self.colored => escape_except_colors(&mask_text(&text)),
            LogFormat::Text => escape_hidden_characters(&mask_text(&text)).into_owned(),
        };
        self.to.write_all(plain.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_credential_in_a_line_is_masked() {
        let mut out = MaskingWriter {
            to: Vec::new(),
            format: LogFormat::Text,
            colored: false,
        };
        let token = format!("ghp_{}", "a1B2".repeat(9));
        writeln!(out, "the backend said: bad token {token}").expect("a vector takes it");
        let line = String::from_utf8(out.to).expect("text");
        assert!(
            !line.contains(&token) && line.contains("[REDACTED:"),
            "{line}"
        );
    }

    #[test]
    fn what_steers_a_terminal_is_escaped_and_our_own_colours_are_not() {
        for (colored, expected) in [
            (false, "\\u{1b}[2mx\\u{202e}y\\u{9b}z\n"),
            (true, "\u{1b}[2mx\\u{202e}y\\u{9b}z\n"),
        ] {
            let mut out = MaskingWriter {
                to: Vec::new(),
                format: LogFormat::Text,
                colored,
            };
            out.write_all("\u{1b}[2mx\u{202e}y\u{9b}z\n".as_bytes())
                .expect("a vector takes it");
            assert_eq!(String::from_utf8(out.to).expect("text"), expected);
        }
    }

    #[test]
    fn a_value_that_is_known_is_masked_in_a_line() {
        mask_with(&Redactor::new([redact::Secret::new(
            "no-pattern-of-any-kind".to_owned(),
        )]));
        let mut out = MaskingWriter {
            to: Vec::new(),
            format: LogFormat::Text,
            colored: false,
        };
        writeln!(out, "the backend said: no-pattern-of-any-kind").expect("a vector takes it");
        assert_eq!(out.to, b"the backend said: [REDACTED:secret]\n");
    }

    #[test]
    fn a_json_line_is_masked_string_by_string_and_stays_json() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let line = json!({
            "level": "WARN",
            "fields": { "message": format!("bad \"{token}\"\u{202e}\n"), "tries": 3 },
            "spans": [{ "of": token }],
        });
        let masked = mask_json_line(&format!("{line}\n"));
        assert!(
            masked.contains("\\u202e") && masked.ends_with("}\n"),
            "{masked}"
        );
        let expected = json!({
            "level": "WARN",
            "fields": { "tries": 3 },
            "spans": [{ "of": "[REDACTED:github]" }],
            "message": "bad \"[REDACTED:github]\"\u{202e}\n",
        });
        assert_eq!(
            serde_json::from_str::<Value>(&masked).expect("JSON"),
            expected
        );
        assert_eq!(mask_json_line(&token), "[REDACTED:github]");
    }
}
