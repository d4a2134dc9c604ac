//! GitShow: one commit with its changes, or a file at a commit. Not here: comparing two commits (GitDiff).

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::GitDeps;
use super::blob::Blob;
use super::comparison::{Comparison, Wanted};
use super::names;
use super::repository::{Repository, complaint};
use super::revision::short;
use super::status::here;
use super::whole::Whole;
use crate::acp::RawPath;
use crate::output::Budget;
use crate::output::clip::clip;
use crate::output::figures::{counted, size};
use crate::tool::{Access, DefaultLocation, Effect, ErrorCode, Meta, Reply, Tool, ToolCx, ToolError};

/// The characters shown of a commit message.
const MESSAGE: u64 = 4_000;
const MOST_CONTEXT: u64 = 1_000;
/// The characters of the budget reserved for a file's title.
const TITLE: usize = 300;

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
    const EFFECT: Effect = Effect::Reads;
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
    type Output = Reply;

    fn access(&self) -> Access {
        Access::reads([self.path.as_str()]).or_default(DefaultLocation::FirstWorkspace)
    }

    /// Splits `HEAD:src/main.rs` into commit and path.
    fn normalize(arguments: &mut Map<String, Value>) {
        let asked = arguments.get("ref").and_then(Value::as_str).and_then(|text| text.split_once(':'));
        let Some((revision, path)) = asked.map(|(revision, path)| (revision.to_owned(), path.to_owned()))
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

    async fn run(self, cx: &ToolCx, deps: &GitDeps) -> Result<Reply, ToolError> {
        let repository = Repository::open(cx, deps, &self.path).await?;
        let id = repository.commit(cx, "ref", &self.revision).await?;
        match repository.pathspec() {
            None => self.commit(cx, deps, &repository, &id).await,
            Some(path) => self.at(cx, deps, &repository, &id, path).await,
        }
    }
}

impl GitShow {
    async fn commit(
        &self,
        cx: &ToolCx,
        deps: &GitDeps,
        repository: &Repository,
        id: &str,
    ) -> Result<Reply, ToolError> {
        let commit = Commit::read(cx, repository, id).await?;
        let comparison = Comparison {
            command: ["show", "--format=", "--diff-merges=first-parent", id].map(str::to_owned).to_vec(),
            path: None,
            context: self.context_lines.unwrap_or(3).min(MOST_CONTEXT),
            ignore_whitespace: false,
            // GitDiff for a single file needs a parent.
            again: commit
                .parents
                .first()
                .map(|parent| format!("GitDiff from=\"{}\" to=\"{}\"", short(parent), short(id))),
            number: 0,
        };
        let stat = comparison.stat(cx, repository).await?;
        let wanted = Wanted { budget: Budget::chars(self.max_chars), stat_only: self.stat_only, bare: false };
        let title = commit.render(id);
        comparison.answer(cx, deps, repository, (&title, stat), wanted).await
    }

    /// Shows a path at the commit.
    async fn at(
        &self,
        cx: &ToolCx,
        deps: &GitDeps,
        repository: &Repository,
        id: &str,
        path: &str,
    ) -> Result<Reply, ToolError> {
        let answer = repository
            .ask(cx, &["ls-tree", "-z", "-l", "--full-tree", "--end-of-options", id], Some(path))
            .await?;
        let shown = format!("{} at {}", names::path(path.as_bytes()), short(id));
        let Some(entry) = answer.output.split(|byte| *byte == 0).find_map(TreeEntry::read) else {
            return Err(ToolError::not_found(format!(
                "{} is not in commit {}. GitLog with this path lists the commits that touch it.",
                repository.part.shown,
                short(id)
            )));
        };
        match (entry.kind.as_str(), entry.mode.as_str()) {
            ("tree", _) => self.folder(cx, repository, &shown, &entry.id).await,
            ("commit", _) => {
                Ok(Reply::text(format!("{shown}: a submodule, at its commit {}.", short(&entry.id))))
            }
            (_, mode) => {
                let is_link = mode == "120000";
                self.file(cx, deps, repository, (&shown, &entry, is_link)).await
            }
        }
    }

    async fn file(
        &self,
        cx: &ToolCx,
        deps: &GitDeps,
        repository: &Repository,
        (shown, entry, is_link): (&str, &TreeEntry, bool),
    ) -> Result<Reply, ToolError> {
        let budget = Budget::chars(self.max_chars);
        let room = Budget::chars(Some(budget.max_chars().saturating_sub(TITLE) as u64));
        let blob = Blob::new(Whole::new(cx, deps, room.max_chars(), 0), room);
        let (answer, mut blob) = repository.git.pour(cx, &["cat-file", "blob", &entry.id], blob).await?;
        let bytes = entry.size.unwrap_or(0);
        if blob.is_binary {
            return Err(ToolError::new(
                ErrorCode::NotText,
                format!("{shown} is not text ({}). GitLog with its path lists its commits.", size(bytes)),
            ));
        }
        if !answer.worked() {
            return Err(complaint(&answer));
        }
        let (lines, ends, kept) = blob.end();
        let mut meta = Meta {
            lossy_chars: Some(blob.lossy()).filter(|n| *n > 0),
            control_chars: Some(blob.controls).filter(|n| *n > 0),
            redactions: Some(kept.redactions).filter(|n| *n > 0),
            ..Meta::default()
        };
        meta.warnings.extend(kept.cut_short);
        let what = if is_link { ", a symbolic link to:" } else { "" };
        let title = format!("{shown} ({}, {}){what}\n", size(bytes), counted(lines, "line"));
        if bytes == 0 {
            return Ok(Reply::text(format!("{shown}: an empty file.")).with_budget(budget));
        }
        if let Some(text) = kept.text {
            let text = title + &String::from_utf8_lossy(&text);
            return Ok(Reply::text(text).with_meta(meta).with_budget(budget));
        }
        meta.truncated = true;
        meta.omitted_bytes = Some(ends.omitted_bytes);
        meta.handle = kept.handle;
        Ok(Reply::fitted(title + &ends.text).with_meta(meta).with_budget(budget))
    }

    async fn folder(
        &self,
        cx: &ToolCx,
        repository: &Repository,
        shown: &str,
        tree: &str,
    ) -> Result<Reply, ToolError> {
        let answer = repository.git.run(cx, &["ls-tree", "-z", "-l", "--end-of-options", tree]).await?;
        if !answer.worked() {
            return Err(complaint(&answer));
        }
        let entries: Vec<TreeEntry> =
            answer.output.split(|byte| *byte == 0).filter_map(TreeEntry::read).collect();
        let cut = if answer.cut { " (the first of more)" } else { "" };
        let mut text = format!("{shown}: a folder with {}{cut}\n", counted(entries.len() as u64, "name"));
        for entry in &entries {
            let _ = match (entry.kind.as_str(), entry.size) {
                ("tree", _) => writeln!(text, "  {}/", entry.name),
                ("commit", _) => writeln!(text, "  {} (submodule at {})", entry.name, short(&entry.id)),
                (_, bytes) => writeln!(text, "  {} ({})", entry.name, size(bytes.unwrap_or(0))),
            };
        }
        Ok(Reply::text(text).with_budget(Budget::chars(self.max_chars)))
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
    fn read(record: &[u8]) -> Option<Self> {
        let tab = record.iter().position(|byte| *byte == b'\t')?;
        let head = String::from_utf8_lossy(&record[..tab]);
        let mut fields = head.split_whitespace();
        Some(Self {
            mode: fields.next()?.to_owned(),
            kind: fields.next()?.to_owned(),
            id: fields.next()?.to_owned(),
            size: fields.next().and_then(|text| text.parse().ok()),
            name: names::path(&record[tab + 1..]),
        })
    }
}

/// The description of a commit without its changes.
struct Commit {
    parents: Vec<String>,
    author: String,
    committer: String,
    refs: String,
    message: String,
}

impl Commit {
    async fn read(cx: &ToolCx, repository: &Repository, id: &str) -> Result<Self, ToolError> {
        let format = "--format=%P%x00%an <%ae>, %ad%x00%cn <%ce>, %cd%x00%D%x00%B";
        let date = "--date=format:%Y-%m-%d %H:%M %z";
        let arguments =
            ["log", "-z", "--max-count=1", "--no-color", format, date, "--end-of-options", id, "--"];
        let answer = repository.git.run(cx, &arguments).await?;
        if !answer.worked() {
            return Err(complaint(&answer));
        }
        let text = answer.text();
        let fields: Vec<&str> = text.split('\0').collect();
        let field = |at: usize| fields.get(at).copied().unwrap_or_default();
        Ok(Self {
            parents: field(0).split_whitespace().map(str::to_owned).collect(),
            author: names::line(field(1)),
            committer: names::line(field(2)),
            refs: names::line(field(3)),
            // Masked now, because the message is cut later.
            message: names::block(&cx.uncut.masked_text(field(4).trim())),
        })
    }

    fn render(&self, id: &str) -> String {
        let mut text = format!("commit {id}");
        if !self.refs.is_empty() {
            let _ = write!(text, " ({})", self.refs);
        }
        let _ = write!(text, "\nAuthor: {}", self.author);
        if self.committer != self.author {
            let _ = write!(text, "\nCommitter: {}", self.committer);
        }
        let parents: Vec<&str> = self.parents.iter().map(|parent| short(parent)).collect();
        let _ = match parents.as_slice() {
            [] => write!(text, "\nThe first commit: it has no parent."),
            [one] => write!(text, "\nParent: {one}"),
            [first, ..] => write!(text, "\nMerge of {}; changes against {first}.", parents.join(", ")),
        };
        let message = clip(&self.message, Budget::chars(Some(MESSAGE)), None).text;
        let indented: Vec<String> = message.lines().map(|line| format!("    {line}")).collect();
        let _ = write!(text, "\n\n{}\n\nChanges", indented.join("\n"));
        text
    }
}
