//! A diff within a budget: the numbers of files and lines, the diff itself, and the list of omitted files. Not here:
//! the choice of revisions, and the parsing of git's output.

use std::fmt::Write as _;

use super::GitDeps;
use super::patch::{Patch, Taken};
use super::repository::{Repository, complaint, with_path};
use super::stat::Stat;
use super::whole::{Kept, Whole};
use crate::output::figures::{counted, size};
use crate::output::{Budget, Clipped};
use crate::tool::{Meta, Reply, ToolCx, ToolError};

/// The number of omitted files that are listed with the call that shows each.
const NAMED: usize = 50;
/// Characters reserved for the note about omitted files.
const WORDS: usize = 400;

/// A comparison in git's terms.
pub(super) struct Comparison {
    /// `diff` or `show`, with the commits.
    pub(super) command: Vec<String>,
    pub(super) path: Option<String>,
    pub(super) context: u64,
    pub(super) ignore_whitespace: bool,
    /// The call that shows one file of the diff, without its path: `GitDiff staged=true`.
    pub(super) again: Option<String>,
    /// The number of this output within its call, from 0.
    pub(super) number: u32,
}

/// Limits on the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) budget: Budget,
    /// Only count lines.
    pub(super) stat_only: bool,
    /// Return the diff without a heading, if it fits.
    pub(super) bare: bool,
}

impl Comparison {
    /// Builds the arguments of every comparison. They disable external programs, colours and the scan of submodule
    /// files.
    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let (verb, revisions) = self.command.split_first().expect("a comparison has a command");
        let mut arguments = vec![verb.as_str()];
        arguments.extend([
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--ignore-submodules=dirty",
            "--no-relative",
            "--src-prefix=a/",
            "--dst-prefix=b/",
            "--find-renames",
        ]);
        if self.ignore_whitespace {
            arguments.push("--ignore-all-space");
        }
        arguments.extend(more);
        arguments.extend(revisions.iter().map(String::as_str));
        with_path(&arguments, self.path.as_deref())
    }

    /// Returns the files that differ, with their line counts.
    pub(super) async fn stat(&self, cx: &ToolCx, repository: &Repository) -> Result<Stat, ToolError> {
        let more = ["--raw", "--numstat", "-z", "--abbrev=10"];
        let answer = repository.git.run(cx, &self.arguments(&more)).await?;
        if !answer.worked() {
            return Err(complaint(&answer));
        }
        Ok(Stat::read(&answer.output, answer.cut))
    }

    /// Builds the answer under a title. Without differences it is the title alone.
    pub(super) async fn answer(
        &self,
        cx: &ToolCx,
        deps: &GitDeps,
        repository: &Repository,
        (title, stat): (&str, Stat),
        wanted: Wanted,
    ) -> Result<Reply, ToolError> {
        let meta = Meta { warnings: repository.notes.clone(), ..Meta::default() };
        let room = wanted.budget.max_chars();
        let summary = format!("{title}: {}\n", stat.summary());
        if stat.files.is_empty() || wanted.stat_only {
            let text =
                format!("{summary}{}", stat.list(room.saturating_sub(summary.chars().count() + WORDS)));
            return Ok(Reply::text(text).with_meta(meta).with_budget(wanted.budget));
        }
        let list = if stat.files.len() > 1 { stat.list(room / 4) } else { String::new() };
        let head = format!("{summary}{list}\n");
        let room = room.saturating_sub(head.chars().count() + WORDS).max(500);
        let context = format!("-U{}", self.context);
        // A quarter is reserved for the note about omitted files.
        let patch = Patch::new(Whole::new(cx, deps, room, self.number), room / 4 * 3, room);
        let (answer, patch) = repository.git.pour(cx, &self.arguments(&["--patch", &context]), patch).await?;
        if !answer.worked() {
            return Err(complaint(&answer));
        }
        let (taken, kept, ends) = patch.end();
        let read = Read { stat, head, room, wanted, taken, kept, ends };
        Ok(self.compose(deps, repository, &read, meta))
    }

    fn compose(&self, deps: &GitDeps, repository: &Repository, read: &Read, mut meta: Meta) -> Reply {
        let Read { taken, kept, ends, .. } = read;
        meta.redactions = (kept.redactions > 0).then_some(kept.redactions);
        meta.lossy_chars = (taken.lossy > 0).then_some(taken.lossy);
        meta.control_chars = (taken.controls > 0).then_some(taken.controls);
        if kept.text.is_some() && (taken.left_out_count == 0 || ends.omitted_lines == 0) {
            // The diff fits without that note.
            let shown = if taken.left_out_count == 0 { &taken.text } else { &ends.text };
            let text = if read.wanted.bare { shown.to_owned() } else { format!("{}{shown}", read.head) };
            return Reply::text(text).with_meta(meta).with_budget(read.wanted.budget);
        }
        meta.handle.clone_from(&kept.handle);
        meta.truncated = true;
        meta.omitted_bytes = Some(kept.bytes.saturating_sub(taken.text.len() as u64));
        meta.warnings.extend(kept.cut_short.iter().cloned());
        let alone = taken.shown + taken.left_out_count == 1;
        let body = if alone && taken.left_out_count == 1 {
            meta.omitted_bytes = Some(ends.omitted_bytes);
            format!(
                "[The diff of this file is too long for one answer ({}).]\n{}",
                size(kept.bytes),
                ends.text
            )
        } else {
            let note = self.left_out(deps, repository, read);
            format!("{note}{}", taken.text)
        };
        Reply::fitted(format!("{}{body}", read.head)).with_meta(meta).with_budget(read.wanted.budget)
    }

    /// Lists the omitted files, each with the call that shows it.
    fn left_out(&self, deps: &GitDeps, repository: &Repository, read: &Read) -> String {
        let Read { taken, kept, .. } = read;
        let mut note = format!("[The whole diff ({}) is too long for one answer.", size(kept.bytes));
        if taken.left_out_count == 0 {
            note.push_str(" Long lines are cut.");
        } else {
            let files = counted(taken.left_out_count as u64, "file");
            let _ = write!(note, " {files} of {} had no room:", taken.left_out_count + taken.shown);
        }
        let mut used = 0;
        for path in taken.left_out.iter().take(NAMED) {
            let figures =
                read.stat.of(path).map_or_else(String::new, |file| format!(" ({})", file.figures()));
            let line = match (&self.again, call_path(deps, repository, path)) {
                (Some(again), Some(path)) => format!("\n  {again} path={path}{figures}"),
                _ => format!("\n  {}{figures}", super::names::path(path)),
            };
            used += line.chars().count();
            // The rest of the budget belongs to the diff.
            if used + WORDS > read.room / 4 {
                break;
            }
            note.push_str(&line);
        }
        let named = note.matches("\n  ").count();
        if named < taken.left_out_count {
            let _ = write!(note, "\n  and {} more", taken.left_out_count - named);
        }
        match &kept.handle {
            Some(handle) => {
                let _ = writeln!(note, "\nReadOutput handle=\"{handle}\" has all of it.]\n");
            }
            None => note.push_str("]\n\n"),
        }
        note
    }
}

/// The parts of an answer.
struct Read {
    stat: Stat,
    head: String,
    room: usize,
    wanted: Wanted,
    taken: Taken,
    kept: Kept,
    ends: Clipped,
}

/// Formats a repository path as a JSON argument for a call, or returns `None` if it is not valid UTF-8.
pub(super) fn call_path(deps: &GitDeps, repository: &Repository, path: &[u8]) -> Option<String> {
    let path = repository.top.join(std::str::from_utf8(path).ok()?);
    let path = path.strip_prefix(deps.workspace.first()).unwrap_or(&path);
    serde_json::to_string(path.to_str()?).ok()
}
