//! A diff within a budget: the numbers of files and lines, the diff itself, and the list of omitted files. Not here:
//! the choice of revisions, and the parsing of git's output.

use std::fmt::Write as _;

use super::GitDeps;
use super::captured_output::{CapturedOutput, OutputCapture};
use super::diff_stat::DiffStat;
use super::patch_capture::{PatchCapture, PatchContent};
use super::repository::{GitRepository, append_pathspec, git_error};
use crate::output::number_format::{format_count, format_size};
use crate::output::{ClippedText, TextBudget};
use crate::tool::{ResultMeta, ToolContext, ToolError, ToolReply};

/// The number of omitted files that are listed with the call that shows each.
const MAX_NAMED_FILES: usize = 50;
/// Characters reserved for the note about omitted files.
const NOTE_CHARS: usize = 400;

/// A comparison in git's terms.
pub(super) struct DiffQuery {
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
pub(super) struct DiffLimits {
    pub(super) budget: TextBudget,
    /// Only count lines.
    pub(super) stat_only: bool,
    /// Return the diff without a heading, if it fits.
    pub(super) bare: bool,
}

impl DiffQuery {
    /// Builds the arguments of every comparison. They disable external programs, colours and the scan of submodule
    /// files.
    fn diff_arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let (verb, revisions) = self
            .command
            .split_first()
            .expect("a comparison has a command");
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
        append_pathspec(&arguments, self.path.as_deref())
    }

    /// Returns the files that differ, with their line counts.
    pub(super) async fn read_stat(
        &self,
        cx: &ToolContext,
        repository: &GitRepository,
    ) -> Result<DiffStat, ToolError> {
        let more = ["--raw", "--numstat", "-z", "--abbrev=10"];
        let answer = repository.git.run(cx, &self.diff_arguments(&more)).await?;
        if !answer.is_success() {
            return Err(git_error(&answer));
        }
        Ok(DiffStat::parse_stat(&answer.output, answer.cut))
    }

    /// Builds the answer under a title. Without differences it is the title alone.
    pub(super) async fn build_diff_reply(
        &self,
        cx: &ToolContext,
        deps: &GitDeps,
        repository: &GitRepository,
        (title, stat): (&str, DiffStat),
        wanted: DiffLimits,
    ) -> Result<ToolReply, ToolError> {
        let meta = ResultMeta {
            warnings: repository.notes.clone(),
            ..ResultMeta::default()
        };
        let room = wanted.budget.max_chars();
        let summary = format!("{title}: {}\n", stat.format_summary());
        if stat.files.is_empty() || wanted.stat_only {
            let text = format!(
                "{summary}{}",
                stat.format_list(room.saturating_sub(summary.chars().count() + NOTE_CHARS))
            );
            return Ok(ToolReply::from_text(text)
                .with_meta(meta)
                .with_budget(wanted.budget));
        }
        let list = if stat.files.len() > 1 {
            stat.format_list(room / 4)
        } else {
            String::new()
        };
        let head = format!("{summary}{list}\n");
        let room = room
            .saturating_sub(head.chars().count() + NOTE_CHARS)
            .max(500);
        let context = format!("-U{}", self.context);
        // A quarter is reserved for the note about omitted files.
        let patch = PatchCapture::new(
            OutputCapture::new(cx, deps, room, self.number),
            room / 4 * 3,
            room,
        );
        let (answer, patch) = repository
            .git
            .run_into_sink(cx, &self.diff_arguments(&["--patch", &context]), patch)
            .await?;
        if !answer.is_success() {
            return Err(git_error(&answer));
        }
        let (taken, kept, ends) = patch.finish();
        let read = CollectedDiff {
            stat,
            head,
            room,
            wanted,
            taken,
            kept,
            ends,
        };
        Ok(self.compose_reply(deps, repository, &read, meta))
    }

    fn compose_reply(
        &self,
        deps: &GitDeps,
        repository: &GitRepository,
        read: &CollectedDiff,
        mut meta: ResultMeta,
    ) -> ToolReply {
        let CollectedDiff {
            taken, kept, ends, ..
        } = read;
        meta.redactions = (kept.redactions > 0).then_some(kept.redactions);
        meta.lossy_chars = (taken.lossy > 0).then_some(taken.lossy);
        meta.control_chars = (taken.controls > 0).then_some(taken.controls);
        if kept.text.is_some() && (taken.omitted_count == 0 || ends.omitted_lines == 0) {
            // The diff fits without that note.
            let shown = if taken.omitted_count == 0 {
                &taken.text
            } else {
                &ends.text
            };
            let text = if read.wanted.bare {
                shown.to_owned()
            } else {
                format!("{}{shown}", read.head)
            };
            return ToolReply::from_text(text)
                .with_meta(meta)
                .with_budget(read.wanted.budget);
        }
        meta.handle.clone_from(&kept.handle);
        meta.truncated = true;
        meta.omitted_bytes = Some(kept.bytes.saturating_sub(taken.text.len() as u64));
        meta.warnings.extend(kept.cut_short.iter().cloned());
        let alone = taken.shown + taken.omitted_count == 1;
        let body = if alone && taken.omitted_count == 1 {
            meta.omitted_bytes = Some(ends.omitted_bytes);
            format!(
                "[The diff of this file is too long for one answer ({}).]\n{}",
                format_size(kept.bytes),
                ends.text
            )
        } else {
            let note = self.format_omitted_files(deps, repository, read);
            format!("{note}{}", taken.text)
        };
        ToolReply::from_fitted_text(format!("{}{body}", read.head))
            .with_meta(meta)
            .with_budget(read.wanted.budget)
    }

    /// Lists the omitted files, each with the call that shows it.
    fn format_omitted_files(
        &self,
        deps: &GitDeps,
        repository: &GitRepository,
        read: &CollectedDiff,
    ) -> String {
        let CollectedDiff { taken, kept, .. } = read;
        let mut note = format!(
            "[The whole diff ({}) is too long for one answer.",
            format_size(kept.bytes)
        );
        if taken.omitted_count == 0 {
            note.push_str(" Long lines are cut.");
        } else {
            let files = format_count(taken.omitted_count as u64, "file");
            let _ = write!(
                note,
                " {files} of {} had no room:",
                taken.omitted_count + taken.shown
            );
        }
        let mut used = 0;
        for path in taken.omitted_paths.iter().take(MAX_NAMED_FILES) {
            let figures = read
                .stat
                .find_file(path)
                .map_or_else(String::new, |file| format!(" ({})", file.format_counts()));
            let line = match (&self.again, json_call_path(deps, repository, path)) {
                (Some(again), Some(path)) => format!("\n  {again} path={path}{figures}"),
                _ => format!("\n  {}{figures}", super::display_text::path(path)),
            };
            used += line.chars().count();
            // The rest of the budget belongs to the diff.
            if used + NOTE_CHARS > read.room / 4 {
                break;
            }
            note.push_str(&line);
        }
        let named = note.matches("\n  ").count();
        if named < taken.omitted_count {
            let _ = write!(note, "\n  and {} more", taken.omitted_count - named);
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
struct CollectedDiff {
    stat: DiffStat,
    head: String,
    room: usize,
    wanted: DiffLimits,
    taken: PatchContent,
    kept: CapturedOutput,
    ends: ClippedText,
}

/// Formats a repository path as a JSON argument for a call, or returns `None` if it is not valid UTF-8.
pub(super) fn json_call_path(
    deps: &GitDeps,
    repository: &GitRepository,
    path: &[u8],
) -> Option<String> {
    let path = repository.top.join(std::str::from_utf8(path).ok()?);
    let path = path
        .strip_prefix(deps.workspace.first_root())
        .unwrap_or(&path);
    serde_json::to_string(path.to_str()?).ok()
}
