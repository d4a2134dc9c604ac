//! Describes a planned patch: one line per file, and for a dry run a unified diff.

use std::fmt::Write as _;

use memchr::memchr_iter;

use super::plan::{PlannedAction, PlannedChange};
use crate::file::unified_diff::write_hunks;
use punie_host::files::ByteSplice;

/// The most line numbers named per file.
const MAX_NAMED: usize = 12;

/// Writes one line per file, with its notes below.
pub(crate) fn summarize_changes(changes: &[PlannedChange]) -> String {
    let mut out = String::new();
    for change in changes {
        let shown = change.path.head_text();
        let (added, removed) = change.count_lines();
        let line = match &change.action {
            PlannedAction::Add { executable, .. } => {
                let mode = if *executable == Some(true) {
                    ", executable"
                } else {
                    ""
                };
                format!("A {shown} (+{added}{mode})")
            }
            PlannedAction::Delete => format!("D {shown} (-{removed})"),
            PlannedAction::Update {
                executable,
                move_to,
                edit,
            } => {
                let mode = match executable {
                    Some(true) => ", executable",
                    Some(false) => ", not executable",
                    None => "",
                };
                let lines = list_lines(&edit.text, &edit.splices);
                let (mark, to) = match move_to {
                    Some(to) => ('R', format!(" -> {}", to.head_text())),
                    None => ('M', String::new()),
                };
                format!("{mark} {shown}{to} (+{added} -{removed}{mode}){lines}")
            }
            PlannedAction::Unchanged(why) => format!("= {shown}: no change, {why}"),
        };
        let _ = writeln!(out, "{line}");
        for note in &change.notes {
            let _ = writeln!(out, "    {note}");
        }
    }
    out
}

/// Lists the changed lines of the new text.
fn list_lines(old: &[u8], splices: &[ByteSplice]) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut line = 1_usize;
    let mut at = 0;
    for splice in splices.iter().take(MAX_NAMED) {
        line += memchr_iter(b'\n', &old[at..splice.range.start]).count();
        lines.push(line.to_string());
        line += memchr_iter(b'\n', &splice.with).count();
        at = splice.range.end;
    }
    let more = splices.len() - lines.len();
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    match lines.as_slice() {
        [] => String::new(),
        [only] => format!(", line {only}"),
        lines => format!(", lines {}{more}", lines.join(", ")),
    }
}

/// Writes all changes as a unified diff.
pub(crate) fn diff_changes(changes: &[PlannedChange]) -> String {
    let mut out = String::new();
    for change in changes {
        let name = change.path.relative_path().display().to_string();
        match &change.action {
            PlannedAction::Unchanged(_) => {}
            PlannedAction::Add { content, .. } => {
                let _ = writeln!(out, "--- /dev/null\n+++ b/{name}");
                let splice = ByteSplice {
                    range: 0..0,
                    with: content.clone().into_bytes(),
                };
                write_hunks(&mut out, b"", &[splice]);
            }
            PlannedAction::Delete => {
                let _ = writeln!(out, "--- a/{name}\n+++ /dev/null");
                let text = change.loaded_bytes();
                let splice = ByteSplice {
                    range: 0..text.len(),
                    with: Vec::new(),
                };
                write_hunks(&mut out, text, &[splice]);
            }
            PlannedAction::Update {
                edit,
                move_to,
                executable,
            } => {
                let to = move_to
                    .as_ref()
                    .map(|to| to.relative_path().display().to_string());
                if let Some(to) = &to {
                    let _ = writeln!(out, "rename from {name}\nrename to {to}");
                }
                if let Some(executable) = executable {
                    let _ = writeln!(
                        out,
                        "new mode {}",
                        if *executable { "100755" } else { "100644" }
                    );
                }
                if !edit.splices.is_empty() {
                    let _ = writeln!(out, "--- a/{name}\n+++ b/{}", to.as_ref().unwrap_or(&name));
                    write_hunks(&mut out, edit.text.as_slice(), &edit.splices);
                }
            }
        }
    }
    out
}
