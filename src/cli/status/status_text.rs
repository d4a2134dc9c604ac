//! The summary of the status for people: whether the runner is healthy, four lines, and what needs attention.

use std::path::Path;

use super::attention::describe_trouble;
use super::runner_status::{BackendStatus, RunnerStatus, Verdict};
use crate::cli::wiring::{SandboxOpening, describe_confinement};
use crate::cli::{console, display_time};
use punie_home::command_to_type;

/// The width of a label with the blanks around it.
const LABEL_WIDTH: usize = 15;
/// The narrowest column for a text.
const MIN_TEXT_WIDTH: usize = 30;
/// The column where the verdict begins.
const VERDICT_COLUMN: usize = 57;

/// Returns the summary, one string for each line. With a width, long texts are continued on further lines.
pub(super) fn summary_lines(
    status: &RunnerStatus,
    now_ms: i64,
    width: Option<usize>,
) -> Vec<String> {
    let mut rows = Rows::new(width);
    rows.lines.push(headline(status, now_ms));
    if !status.running {
        let (label, command) = next_command(&status.backend);
        rows.add(label, &command);
    }
    rows.add("Backend", &describe_backend(status, now_ms));
    rows.add("Workspaces", &describe_workspaces(status));
    for (path, why) in &status.workspaces.without_snapshots {
        let path = console::shorten_path(Path::new(path), status.user_home.as_deref());
        rows.add(
            "No undo",
            &format!("of what commands change in {path}: {why}"),
        );
    }
    rows.add("Commands", &describe_commands(status));
    rows.add("Now", &describe_work(status));
    if let Some(openings) = describe_openings(&status.openings) {
        rows.add("Opened", &openings);
    }
    for item in &status.attention {
        let text = match &item.command {
            Some(command) => format!("{}: {command}", item.text),
            None => item.text.clone(),
        };
        rows.add("Attention", &text);
    }
    rows.lines
}

/// Labelled rows of text.
pub(super) struct Rows {
    pub lines: Vec<String>,
    width: Option<usize>,
}

impl Rows {
    pub fn new(width: Option<usize>) -> Self {
        let lines = Vec::new();
        Self { lines, width }
    }

    /// Adds a row. Its text continues below itself where it is longer than a line.
    pub fn add(&mut self, label: &str, text: &str) {
        let room = self.width.map_or(usize::MAX, |width| {
            width.saturating_sub(LABEL_WIDTH).max(MIN_TEXT_WIDTH)
        });
        for (number, line) in wrap_text(text, room).into_iter().enumerate() {
            let label = if number == 0 { label } else { "" };
            self.lines
                .push(format!("  {label:<width$}{line}", width = LABEL_WIDTH - 2));
        }
    }
}

/// Breaks a text between words, and within a word that is longer than a line.
fn wrap_text(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > room {
            lines.push(String::new());
            used = 0;
        } else if used > 0 {
            lines.last_mut().expect("there is one").push(' ');
            used += 1;
        }
        for character in word.chars() {
            if used == room {
                lines.push(String::new());
                used = 0;
            }
            lines.last_mut().expect("there is one").push(character);
            used += 1;
        }
    }
    lines
}

fn headline(status: &RunnerStatus, now_ms: i64) -> String {
    let since = status
        .in_force
        .as_ref()
        .map(|in_force| display_time::format_coarse(now_ms.saturating_sub(in_force.started_at_ms)));
    let known: Vec<String> = status
        .pid
        .map(|pid| format!("pid {pid}"))
        .into_iter()
        .chain(since)
        .collect();
    let running = if known.is_empty() {
        "punie-runner is running".to_owned()
    } else {
        format!("punie-runner is running ({})", known.join(", "))
    };
    match status.verdict {
        Verdict::NotRunning => "punie-runner is not running".to_owned(),
        Verdict::Healthy => format!("{running:<VERDICT_COLUMN$}healthy"),
        Verdict::Attention => format!("{running:<VERDICT_COLUMN$}attention"),
    }
}

/// Returns the command after which a runner runs, with its label.
fn next_command(backend: &BackendStatus) -> (&'static str, String) {
    match (&backend.url, backend.paired) {
        (None, _) => (
            "Start it",
            format!(
                "{} (a backend and a runner for the folder you are in)",
                command_to_type("dev")
            ),
        ),
        (Some(_), Some(false)) => (
            "Pair it",
            format!(
                "{} (the backend shows the code)",
                command_to_type("pair CODE")
            ),
        ),
        (Some(_), _) => ("Start it", command_to_type("")),
    }
}

fn describe_backend(status: &RunnerStatus, now_ms: i64) -> String {
    let backend = &status.backend;
    let Some(url) = &backend.url else {
        let pair = command_to_type("--backend-url URL pair CODE");
        return format!("not configured: {pair}");
    };
    let state = match backend.trouble.as_deref() {
        Some(trouble) => describe_trouble(trouble).to_owned(),
        None if status.running => match backend.last_contact_ms {
            Some(at) => format!(
                "connected, last contact {}",
                display_time::format_age(at, now_ms)
            ),
            None => "it answers; no contact yet".to_owned(),
        },
        None if backend.embedded => "it runs in this home".to_owned(),
        None => "it answers".to_owned(),
    };
    let unpaired = if backend.paired == Some(false) {
        "; this device is not paired with it"
    } else {
        ""
    };
    format!("{url}  {state}{unpaired}")
}

fn describe_workspaces(status: &RunnerStatus) -> String {
    if status.workspaces.all.is_empty() {
        return "none is named; on a terminal the runner takes the folder it starts in".to_owned();
    }
    let home = status.user_home.as_deref();
    let shown: Vec<String> = status
        .workspaces
        .all
        .iter()
        .map(|path| {
            let shown = console::shorten_path(Path::new(path), home);
            if status.workspaces.missing.contains_key(path) {
                format!("{shown} (missing)")
            } else {
                shown
            }
        })
        .collect();
    shown.join(", ")
}

/// Describes the confinement of commands in words.
pub(super) fn describe_commands(status: &RunnerStatus) -> String {
    if status.policy.broken.is_some() || !status.can_execute.exec {
        return "refused (see below)".to_owned();
    }
    describe_confinement(&status.confinement, &status.network)
}

/// Counts the calls that wait or run, and the answers that are not delivered.
fn describe_work(status: &RunnerStatus) -> String {
    let oldest = |age: Option<i64>| {
        age.map_or_else(String::new, |age| {
            format!(" (oldest {})", display_time::format_coarse(age))
        })
    };
    let waiting = &status.waiting;
    let outbox = &status.outbox;
    let running = status.in_flight.saturating_sub(waiting.count);
    let cut_off = match status.cut_off {
        0 => String::new(),
        count => format!(", {count} cut off (the next start answers)"),
    };
    let shells = match status.shells.len() {
        0 => String::new(),
        1 => ", 1 shell in the background".to_owned(),
        count => format!(", {count} shells in the background"),
    };
    format!(
        "{} waiting{}, {running} running{cut_off}, {} undelivered{}{shells}",
        waiting.count,
        oldest(waiting.oldest_ms),
        outbox.pending,
        oldest(outbox.oldest_ms),
    )
}

/// Names the settings by which commands may do more than by default; the details have their meaning.
fn describe_openings(openings: &[SandboxOpening]) -> Option<String> {
    let set: Vec<String> = openings
        .iter()
        .filter(|opening| opening.setting != "level")
        .map(|opening| {
            format!(
                "{} {}",
                opening.setting,
                console::cell_text(&opening.value, 60)
            )
        })
        .collect();
    (!set.is_empty()).then(|| format!("by your settings: {} (status -v explains)", set.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_continued_below_itself() {
        let mut rows = Rows::new(Some(50));
        rows.add("Attention", "one two three four five six seven eight");
        rows.add("Now", &"x".repeat(40));
        assert_eq!(
            rows.lines,
            [
                "  Attention    one two three four five six seven",
                "               eight",
                &format!("  Now          {}", "x".repeat(35)),
                "               xxxxx",
            ]
        );
        let mut rows = Rows::new(None);
        rows.add("Attention", &"word ".repeat(50));
        assert_eq!(rows.lines.len(), 1, "a pipe gets whole lines");
    }
}
