//! GitShow: one commit with its changes, or a file at a commit. Not here: comparing two commits (GitDiff).

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::GitDeps;
use super::blob::BlobCapture;
use super::captured_output::OutputCapture;
use super::diff_output::{DiffLimits, DiffQuery};
use super::display_text;
use super::repository::{GitRepository, git_error};
use super::resolve_revision::short_id;
use super::status::here;
use crate::acp::RawPath;
use crate::output::TextBudget;
use crate::output::number_format::{format_count, format_size};
use crate::output::text_budget::clip_to_budget;
use crate::tool::{
    DeclaredAccess, DefaultLocation, ErrorCode, ResultMeta, Tool, ToolContext, ToolEffect,
    ToolError, ToolReply,
};

/// The characters shown of a commit message.
const MAX_MESSAGE_CHARS: u64 = 4_000;
const MAX_CONTEXT: u64 = 1_000;
/// The characters of the budget reserved for a file's title.
const TITLE_CHARS: usize = 300;

/// Show a commit with message, files and diff; or with `path`, a file's content or a folder's list as that commit
/// has it.
///
/// A merge is compared with its first parent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GitShow {
    /// Commit, branch, tag, HEAD~2, HEAD:path.
    #[serde(rename = "ref", default = "head")]
    revision: String,
    /// A file or folder in that commit.
    #[serde(default = "here")]
    path: RawPath,
    /// Only files and line counts.
    #[serde(default)]
    stat_only: bool,
    /// Lines of context; 3 if absent.
    context_lines: Option<u64>,
    /// Characters; 30000 if absent.
    max_chars: Option<u64>,
}

fn head() -> String {
    "HEAD".to_owned()
}

impl Tool for GitShow {
    const NAME: &'static str = "GitShow";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("commit", "ref"),
        ("revision", "ref"),
        ("sha", "ref"),
        ("id", "ref"),
        ("hash", "ref"),
        ("file_path", "path"),
        ("repo_path", "path"),
        ("cwd", "path"),
        ("stat", "stat_only"),
        ("context", "context_lines"),
    ];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"ref":"HEAD~1"}"#,
        r#"{"ref":"v1.2","path":"src/main.rs"}"#,
        r#"{"ref":"3f2a91c","stat_only":true}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "30,000 characters an answer by default, 1,000 to 200,000; the whole is kept up to 256 MB",
        "4,000 characters of a message",
        "30 s a run of git",
    ];
    type Deps = GitDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::reading_paths([self.path.as_str()])
            .with_default_location(DefaultLocation::FirstWorkspace)
    }

    /// Splits `HEAD:src/main.rs` into commit and path.
    fn normalize(arguments: &mut Map<String, Value>) {
        let asked = arguments
            .get("ref")
            .and_then(Value::as_str)
            .and_then(|text| text.split_once(':'));
        let Some((revision, path)) =
            asked.map(|(revision, path)| (revision.to_owned(), path.to_owned()))
        else {
            return;
        };
        // `main@{10:00}` is a time.
        let is_whole = revision.matches('{').count() == revision.matches('}').count();
        if is_whole && !revision.is_empty() && !path.is_empty() && !arguments.contains_key("path") {
            arguments.insert("ref".to_owned(), Value::from(revision));
            arguments.insert("path".to_owned(), Value::from(path));
        }
    }

    async fn run(self, cx: &ToolContext, deps: &GitDeps) -> Result<ToolReply, ToolError> {
        let repository = GitRepository::open_repository(cx, deps, &self.path).await?;
        let id = repository.resolve_commit(cx, "ref", &self.revision).await?;
        match repository.pathspec() {
            None => self.show_commit(cx, deps, &repository, &id).await,
            Some(path) => self.show_path(cx, deps, &repository, &id, path).await,
        }
    }
}

impl GitShow {
    async fn show_commit(
        &self,
        cx: &ToolContext,
        deps: &GitDeps,
        repository: &GitRepository,
        id: &str,
    ) -> Result<ToolReply, ToolError> {
        let commit = CommitDetails::load_commit(cx, repository, id).await?;
        let comparison = DiffQuery {
            command: ["show", "--format=", "--diff-merges=first-parent", id]
                .map(str::to_owned)
                .to_vec(),
            path: None,
            context: self.context_lines.unwrap_or(3).min(MAX_CONTEXT),
            ignore_whitespace: false,
            // GitDiff for a single file needs a parent.
            again: commit.parents.first().map(|parent| {
                format!(
                    "GitDiff from=\"{}\" to=\"{}\"",
                    short_id(parent),
                    short_id(id)
                )
            }),
            number: 0,
        };
        let stat = comparison.read_stat(cx, repository).await?;
        let wanted = DiffLimits {
            budget: TextBudget::from_requested(self.max_chars),
            stat_only: self.stat_only,
            bare: false,
        };
        let title = commit.render_header(id);
        comparison
            .build_diff_reply(cx, deps, repository, (&title, stat), wanted)
            .await
    }

    /// Shows a path at the commit.
    async fn show_path(
        &self,
        cx: &ToolContext,
        deps: &GitDeps,
        repository: &GitRepository,
        id: &str,
        path: &str,
    ) -> Result<ToolReply, ToolError> {
        let answer = repository
            .run_on_path(
                cx,
                &["ls-tree", "-z", "-l", "--full-tree", "--end-of-options", id],
                Some(path),
            )
            .await?;
        let shown = format!(
            "{} at {}",
            display_text::path(path.as_bytes()),
            short_id(id)
        );
        let Some(entry) = answer
            .output
            .split(|byte| *byte == 0)
            .find_map(TreeEntry::parse_record)
        else {
            return Err(ToolError::not_found(format!(
                "{} is not in commit {}. GitLog with this path lists the commits that touch it.",
                repository.requested.shown,
                short_id(id)
            )));
        };
        match (entry.kind.as_str(), entry.mode.as_str()) {
            ("tree", _) => self.show_folder(cx, repository, &shown, &entry.id).await,
            ("commit", _) => Ok(ToolReply::from_text(format!(
                "{shown}: a submodule, at its commit {}.",
                short_id(&entry.id)
            ))),
            (_, mode) => {
                let is_link = mode == "120000";
                self.show_file(cx, deps, repository, (&shown, &entry, is_link))
                    .await
            }
        }
    }

    async fn show_file(
        &self,
        cx: &ToolContext,
        deps: &GitDeps,
        repository: &GitRepository,
        (shown, entry, is_link): (&str, &TreeEntry, bool),
    ) -> Result<ToolReply, ToolError> {
        let budget = TextBudget::from_requested(self.max_chars);
        let room =
            TextBudget::from_requested(Some(budget.max_chars().saturating_sub(TITLE_CHARS) as u64));
        let blob = BlobCapture::new(OutputCapture::new(cx, deps, room.max_chars(), 0), room);
        let (answer, mut blob) = repository
            .git
            .run_into_sink(cx, &["cat-file", "blob", &entry.id], blob)
            .await?;
        let bytes = entry.size.unwrap_or(0);
        if blob.is_binary {
            return Err(ToolError::new(
                ErrorCode::NotText,
                format!(
                    "{shown} is not text ({}). GitLog with its path lists its commits.",
                    format_size(bytes)
                ),
            ));
        }
        if !answer.is_success() {
            return Err(git_error(&answer));
        }
        let (lines, ends, kept) = blob.finish();
        let mut meta = ResultMeta {
            lossy_chars: Some(blob.lossy_count()).filter(|n| *n > 0),
            control_chars: Some(blob.controls).filter(|n| *n > 0),
            redactions: Some(kept.redactions).filter(|n| *n > 0),
            ..ResultMeta::default()
        };
        meta.warnings.extend(kept.cut_short);
        let what = if is_link { ", a symbolic link to:" } else { "" };
        let title = format!(
            "{shown} ({}, {}){what}\n",
            format_size(bytes),
            format_count(lines, "line")
        );
        if bytes == 0 {
            return Ok(ToolReply::from_text(format!("{shown}: an empty file.")).with_budget(budget));
        }
        if let Some(text) = kept.text {
            let text = title + &String::from_utf8_lossy(&text);
            return Ok(ToolReply::from_text(text)
                .with_meta(meta)
                .with_budget(budget));
        }
        meta.truncated = true;
        meta.omitted_bytes = Some(ends.omitted_bytes);
        meta.handle = kept.handle;
        Ok(ToolReply::from_fitted_text(title + &ends.text)
            .with_meta(meta)
            .with_budget(budget))
    }

    async fn show_folder(
        &self,
        cx: &ToolContext,
        repository: &GitRepository,
        shown: &str,
        tree: &str,
    ) -> Result<ToolReply, ToolError> {
        let answer = repository
            .git
            .run(cx, &["ls-tree", "-z", "-l", "--end-of-options", tree])
            .await?;
        if !answer.is_success() {
            return Err(git_error(&answer));
        }
        let entries: Vec<TreeEntry> = answer
            .output
            .split(|byte| *byte == 0)
            .filter_map(TreeEntry::parse_record)
            .collect();
        let cut = if answer.cut {
            " (the first of more)"
        } else {
            ""
        };
        let mut text = format!(
            "{shown}: a folder with {}{cut}\n",
            format_count(entries.len() as u64, "name")
        );
        for entry in &entries {
            let _ = match (entry.kind.as_str(), entry.size) {
                ("tree", _) => writeln!(text, "  {}/", entry.name),
                ("commit", _) => writeln!(
                    text,
                    "  {} (submodule at {})",
                    entry.name,
                    short_id(&entry.id)
                ),
                (_, bytes) => writeln!(
                    text,
                    "  {} ({})",
                    entry.name,
                    format_size(bytes.unwrap_or(0))
                ),
            };
        }
        Ok(ToolReply::from_text(text).with_budget(TextBudget::from_requested(self.max_chars)))
    }
}

/// One entry of a folder.
struct TreeEntry {
    mode: String,
    kind: String,
    id: String,
    size: Option<u64>,
    name: String,
}

impl TreeEntry {
    /// Parses `100644 blob 3f2a      12`, a tab and a name.
    fn parse_record(record: &[u8]) -> Option<Self> {
        let tab = record.iter().position(|byte| *byte == b'\t')?;
        let head = String::from_utf8_lossy(&record[..tab]);
        let mut fields = head.split_whitespace();
        Some(Self {
            mode: fields.next()?.to_owned(),
            kind: fields.next()?.to_owned(),
            id: fields.next()?.to_owned(),
            size: fields.next().and_then(|text| text.parse().ok()),
            name: display_text::path(&record[tab + 1..]),
        })
    }
}

/// The description of a commit without its changes.
struct CommitDetails {
    parents: Vec<String>,
    author: String,
    committer: String,
    refs: String,
    message: String,
}

impl CommitDetails {
    async fn load_commit(
        cx: &ToolContext,
        repository: &GitRepository,
        id: &str,
    ) -> Result<Self, ToolError> {
        let format = "--format=%P%x00%an <%ae>, %ad%x00%cn <%ce>, %cd%x00%D%x00%B";
        let date = "--date=format:%Y-%m-%d %H:%M %z";
        let arguments = [
            "log",
            "-z",
            "--max-count=1",
            "--no-color",
            format,
            date,
            "--end-of-options",
            id,
            "--",
        ];
        let answer = repository.git.run(cx, &arguments).await?;
        if !answer.is_success() {
            return Err(git_error(&answer));
        }
        let text = answer.stdout_text();
        let fields: Vec<&str> = text.split('\0').collect();
        let field = |at: usize| fields.get(at).copied().unwrap_or_default();
        Ok(Self {
            parents: field(0).split_whitespace().map(str::to_owned).collect(),
            author: display_text::escape_line(field(1)),
            committer: display_text::escape_line(field(2)),
            refs: display_text::escape_line(field(3)),
            // Masked now, because the message is cut later.
            message: display_text::escape_block(&cx.secret_boundaries.mask_text(field(4).trim())),
        })
    }

    fn render_header(&self, id: &str) -> String {
        let mut text = format!("commit {id}");
        if !self.refs.is_empty() {
            let _ = write!(text, " ({})", self.refs);
        }
        let _ = write!(text, "\nAuthor: {}", self.author);
        if self.committer != self.author {
            let _ = write!(text, "\nCommitter: {}", self.committer);
        }
        let parents: Vec<&str> = self.parents.iter().map(|parent| short_id(parent)).collect();
        let _ = match parents.as_slice() {
            [] => write!(text, "\nThe first commit: it has no parent."),
            [one] => write!(text, "\nParent: {one}"),
            [first, ..] => write!(
                text,
                "\nMerge of {}; changes against {first}.",
                parents.join(", ")
            ),
        };
        let message = clip_to_budget(
            &self.message,
            TextBudget::from_requested(Some(MAX_MESSAGE_CHARS)),
            None,
        )
        .text;
        let indented: Vec<String> = message.lines().map(|line| format!("    {line}")).collect();
        let _ = write!(text, "\n\n{}\n\nChanges", indented.join("\n"));
        text
    }
}
