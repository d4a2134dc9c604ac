//! The form of a log line on a terminal: the local time, the level if it is a warning or an error, and a sentence.

use std::fmt::{self, Write as _};

use anstyle::{AnsiColor, Effects, Style};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

use super::{display_time, table};
use punie_engine::runner::Clock;
use punie_text::output::hidden_characters::escape_hidden_characters;

/// The fields that say why: they follow the sentence without their name.
const CAUSE_FIELDS: &[&str] = &["error", "cause", "why", "reason"];

/// Formats log lines for a person.
pub struct TerminalLogLine;

impl<S, N> FormatEvent<S, N> for TerminalLogLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut sentence = LogSentence::default();
        event.record(&mut sentence);
        let time = display_time::format_clock(Clock::system().now_ms());
        let (dim, strong) = if writer.has_ansi_escapes() {
            (
                Style::new().effects(Effects::DIMMED),
                level_style(*event.metadata().level()),
            )
        } else {
            (Style::new(), Style::new())
        };
        let level = level_label(*event.metadata().level());
        writeln!(
            writer,
            "{dim}{time}{dim:#}  {strong}{level}{strong:#}{sentence}"
        )
    }
}

fn level_label(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error: ",
        Level::WARN => "warning: ",
        Level::INFO => "",
        Level::DEBUG => "debug: ",
        Level::TRACE => "trace: ",
    }
}

fn level_style(level: Level) -> Style {
    let color = match level {
        Level::ERROR => AnsiColor::Red,
        Level::WARN => AnsiColor::Yellow,
        _ => return Style::new(),
    };
    Style::new().fg_color(Some(color.into()))
}

/// The message of an event, its cause, and its other fields.
#[derive(Default)]
struct LogSentence {
    message: String,
    causes: Vec<String>,
    details: Vec<String>,
}

impl fmt::Display for LogSentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.message.clone();
        if !self.details.is_empty() {
            let _ = write!(text, " ({})", self.details.join(", "));
        }
        for cause in &self.causes {
            let _ = write!(text, ": {cause}");
        }
        f.write_str(&escape_hidden_characters(&text.replace('\n', " ")))
    }
}

impl LogSentence {
    fn add_field(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            name if CAUSE_FIELDS.contains(&name) => self.causes.push(value),
            "request.id" => self
                .details
                .push(format!("request {}", table::short_id(&value))),
            name => {
                let name = name.strip_suffix(".name").unwrap_or(name);
                let name = name.replace(['.', '_'], " ");
                self.details.push(format!("{name}: {value}"));
            }
        }
    }
}

impl Visit for LogSentence {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_field(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add_field(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::fmt::MakeWriter;
    use tracing_subscriber::prelude::*;

    use super::*;

    #[derive(Clone, Default)]
    struct Shown(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Shown {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(text);
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Shown {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    /// Returns what a terminal shows of these events, without the times.
    fn shown_lines(is_colored: bool, log: impl FnOnce()) -> Vec<String> {
        let shown = Shown::default();
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(shown.clone())
            .with_ansi(is_colored)
            .event_format(TerminalLogLine);
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, log);
        let text = String::from_utf8(shown.0.lock().clone()).expect("text");
        text.lines()
            .map(|line| line.split_once("  ").expect("a time").1.to_owned())
            .collect()
    }

    #[test]
    fn a_person_reads_a_sentence() {
        let lines = shown_lines(false, || {
            tracing::info!(settings = "policy.ask", "config.toml has changed");
            let id = "01a206c4-c5e3-73d0-948e-bf22665ce19f";
            tracing::warn!(request.id = %id, tool.name = "Bash", error = %"gone\naway\u{1b}[2J", "no answer");
            tracing::error!(retry_ms = 250, "it failed");
        });
        assert_eq!(
            lines,
            [
                "config.toml has changed (settings: policy.ask)",
                "warning: no answer (request 665ce19f, tool: Bash): gone away\\u{1b}[2J",
                "error: it failed (retry ms: 250)",
            ]
        );
    }

    #[test]
    fn only_the_time_and_the_level_have_colours() {
        let lines = shown_lines(true, || tracing::warn!("no answer"));
        assert_eq!(lines, ["\u{1b}[33mwarning: \u{1b}[0mno answer"]);
    }
}
