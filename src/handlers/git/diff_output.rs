//! A diff within a budget: the numbers of files and lines, the diff itself, and the list of omitted files.

use std::fmt::Write as _;

use super::captured_output::{CapturedOutput, OutputCapture};
use super::diff_stat::DiffStat;
use super::patch_capture::{PatchCapture, PatchContent};
use super::repository::{GitRepository, append_pathspec};
use punie_text::output::number_format::{format_count, format_size};
use punie_text::output::path_text::path_text_from_bytes;
use punie_text::output::{ClippedText, TextBudget};
use punie_tool::{ToolError, ToolReply};

/// The number of omitted files that are listed with the call that shows each.
const MAX_NAMED_FILES: usize = 50;
/// Characters reserved for the note about omitted files.
const NOTE_CHARS: usize = 400;

/// The lines of context around a change, unless the call asks for others.
const DEFAULT_CONTEXT: u64 = 3;
const MAX_CONTEXT: u64 = 1_000;

/// A comparison in git's terms, and the limits of its answer.
#[derive(Debug, Default)]
pub(super) struct DiffQuery {
    /// `diff` or `show`, with the commits.
    pub(super) command: Vec<String>,
    pub(super) path: Option<String>,
    /// The lines of context that the call asks for.
    pub(super) context: Option<u64>,
    pub(super) ignore_whitespace: bool,
    /// The call that shows one file of the diff, without its path: `GitDiff staged=true`.
    pub(super) again: Option<String>,
    /// The number of this output within its call, from 0.
    pub(super) number: u32,
    pub(super) budget: TextBudget,
    /// Only count lines.
    pub(super) stat_only: bool,
    /// Return the diff without a heading, if it fits.
    pub(super) bare: bool,
}

impl DiffQuery {
    /// Returns a comparison with git's default options, and the call that shows one file of it.
    pub(super) fn with_command(command: &[&str], again: &str) -> Self {
        Self {
            command: command.iter().copied().map(str::to_owned).collect(),
            again: Some(again.to_owned()),
            ..Self::default()
        }
    }

    /// Returns the comparison of a commit with its first parent.
    pub(super) fn for_commit(id: &str) -> Self {
        Self {
            again: None,
            ..Self::with_command(&["show", "--format=", "--diff-merges=first-parent", id], "")
        }
    }

    /// Builds the arguments of every comparison. They disable external programs, colours and the scan of submodule
    /// files.
    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
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
        repository: &GitRepository,
    ) -> Result<DiffStat, ToolError> {
        let more = ["--raw", "--numstat", "-z", "--abbrev=10"];
        let answer = repository.git.run_checked(&self.arguments(&more)).await?;
        Ok(DiffStat::parse(&answer.output, answer.cut))
    }

    /// Builds the answer under a title. Without differences it is the title alone.
    pub(super) async fn build_reply(
        &self,
        repository: &GitRepository,
        title: &str,
        stat: DiffStat,
    ) -> Result<ToolReply, ToolError> {
        let room = self.budget.max_chars();
        let summary = format!("{title}: {}\n", stat.format_summary());
        let mut reply = if stat.files.is_empty() || self.stat_only {
            let left = room.saturating_sub(summary.chars().count() + NOTE_CHARS);
            ToolReply::from_text(summary + &stat.format_list(left))
        } else {
            let list = if stat.files.len() > 1 {
                stat.format_list(room / 4)
            } else {
                String::new()
            };
            let head = format!("{summary}{list}\n");
            let left = room.saturating_sub(head.chars().count() + NOTE_CHARS);
            self.collect(repository, stat, head, left.max(500))
                .await?
                .compose_reply(self, repository)
        };
        let mut warnings = repository.comparison_warnings();
        warnings.append(&mut reply.meta.warnings);
        reply.meta.warnings = warnings;
        Ok(reply.with_budget(self.budget))
    }

    async fn collect(
        &self,
        repository: &GitRepository,
        stat: DiffStat,
        head: String,
        room: usize,
    ) -> Result<CollectedDiff, ToolError> {
        let lines = self.context.unwrap_or(DEFAULT_CONTEXT).min(MAX_CONTEXT);
        let unified = format!("-U{lines}");
        let capture = OutputCapture::new(&repository.git, room, self.number);
        // A quarter is reserved for the note about omitted files.
        let patch = PatchCapture::new(capture, room / 4 * 3, room);
        let arguments = self.arguments(&["--patch", &unified]);
        let patch = repository.git.run_into_sink(&arguments, patch).await?;
        let (content, whole, ends) = patch.finish();
        Ok(CollectedDiff {
            stat,
            head,
            room,
            content,
            whole,
            ends,
        })
    }
}

/// The parts of an answer.
struct CollectedDiff {
    stat: DiffStat,
    head: String,
    room: usize,
    content: PatchContent,
    whole: CapturedOutput,
    ends: ClippedText,
}

impl CollectedDiff {
    fn compose_reply(&self, query: &DiffQuery, repository: &GitRepository) -> ToolReply {
        let Self {
            head,
            content,
            whole,
            ends,
            ..
        } = self;
        let mut meta = whole.text_meta(content.controls);
        if whole.text.is_some() && (content.omitted_count == 0 || ends.omitted_lines == 0) {
            // The diff fits without that note.
            let shown = if content.omitted_count == 0 {
                &content.text
            } else {
                &ends.text
            };
            let head = if query.bare { "" } else { head };
            return ToolReply::from_text(format!("{head}{shown}")).with_meta(meta);
        }
        meta.handle.clone_from(&whole.handle);
        meta.truncated = true;
        meta.warnings.extend(whole.cut_short.clone());
        let body = if content.shown == 0 && content.omitted_count == 1 {
            meta.omitted_bytes = Some(ends.omitted_bytes);
            format!(
                "[The diff of this file is too long for one answer ({}).]\n{}",
                format_size(whole.bytes),
                ends.text
            )
        } else {
            meta.omitted_bytes = Some(whole.bytes.saturating_sub(content.text.len() as u64));
            self.format_omitted_files(query, repository) + &content.text
        };
        ToolReply::from_fitted_text(format!("{head}{body}")).with_meta(meta)
    }

    /// Lists the omitted files, each with the call that shows it.
    fn format_omitted_files(&self, query: &DiffQuery, repository: &GitRepository) -> String {
        let Self { content, whole, .. } = self;
        let mut note = format!(
            "[The whole diff ({}) is too long for one answer.",
            format_size(whole.bytes)
        );
        if content.omitted_count == 0 {
            note.push_str(" Long lines are cut.");
        } else {
            let files = format_count(content.omitted_count as u64, "file");
            let _ = write!(
                note,
                " {files} of {} had no room:",
                content.omitted_count + content.shown
            );
        }
        let mut used = 0;
        for path in content.omitted_paths.iter().take(MAX_NAMED_FILES) {
            let figures = self
                .stat
                .find_file(path)
                .map_or_else(String::new, |file| format!(" ({})", file.format_counts()));
            let line = match (&query.again, json_call_path(repository, path)) {
                (Some(again), Some(path)) => format!("\n  {again} path={path}{figures}"),
                _ => format!("\n  {}{figures}", path_text_from_bytes(path)),
            };
            used += line.chars().count();
            // The rest of the budget belongs to the diff.
            if used + NOTE_CHARS > self.room / 4 {
                break;
            }
            note.push_str(&line);
        }
        let named = note.matches("\n  ").count();
        if named < content.omitted_count {
            let _ = write!(note, "\n  and {} more", content.omitted_count - named);
        }
        match &whole.handle {
            Some(handle) => {
                let _ = writeln!(note, "\nReadOutput handle=\"{handle}\" has all of it.]\n");
            }
            None => note.push_str("]\n\n"),
        }
        note
    }
}

/// Formats a repository path as a JSON argument for a call, or returns `None` if it is not valid UTF-8.
fn json_call_path(repository: &GitRepository, path: &[u8]) -> Option<String> {
    let path = repository.top.join(std::str::from_utf8(path).ok()?);
    let first_root = repository.git.deps.workspace.first_root();
    let path = path.strip_prefix(first_root).unwrap_or(&path);
    serde_json::to_string(path.to_str()?).ok()
}
