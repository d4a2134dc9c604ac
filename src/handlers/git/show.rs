//! GitShow: one commit with its changes, or a file at a commit.

use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::GitDeps;
use super::blob::BlobCapture;
use super::captured_output::OutputCapture;
use super::commit_details::CommitDetails;
use super::diff_output::DiffQuery;
use super::repository::GitRepository;
use super::requested_path::{here, path_in_folder, read_access};
use super::resolve_revision::short_id;
use super::tree_entry::TreeEntry;
use punie_host::RawPath;
use punie_text::output::TextBudget;
use punie_text::output::number_format::{format_count, format_size};
use punie_text::output::path_text::path_text_from_bytes;
use punie_tool::{DeclaredAccess, ErrorCode, Tool, ToolContext, ToolEffect, ToolError, ToolReply};

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
    const ALIASES: &'static [(&'static str, &'static str)] = &[("id", "ref")];
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
        read_access([&self.path])
    }

    /// Splits `HEAD:src/main.rs` into commit and path, which is one in the folder that `path` names.
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
        if is_whole && !revision.is_empty() && !path.is_empty() {
            let given = arguments.get("path").and_then(Value::as_str).unwrap_or(".");
            let path = if Path::new(given).ends_with(&path) {
                given.to_owned()
            } else {
                path_in_folder(given, &path)
            };
            arguments.insert("ref".to_owned(), Value::from(revision));
            arguments.insert("path".to_owned(), Value::from(path));
        }
    }

    async fn run(self, cx: &ToolContext, deps: &GitDeps) -> Result<ToolReply, ToolError> {
        let repository = GitRepository::open(cx, deps, &self.path).await?;
        let id = repository.resolve_commit("ref", &self.revision).await?;
        match repository.pathspec() {
            None => self.show_commit(&repository, &id).await,
            Some(path) => self.show_path(&repository, &id, path).await,
        }
    }
}

impl GitShow {
    async fn show_commit(
        &self,
        repository: &GitRepository,
        id: &str,
    ) -> Result<ToolReply, ToolError> {
        let commit = CommitDetails::load(repository, id).await?;
        let comparison = DiffQuery {
            context: self.context_lines,
            // GitDiff for a single file needs a parent.
            again: commit.parents.first().map(|parent| {
                format!(
                    "GitDiff from=\"{}\" to=\"{}\"",
                    short_id(parent),
                    short_id(id)
                )
            }),
            budget: TextBudget::from_requested(self.max_chars),
            stat_only: self.stat_only,
            ..DiffQuery::for_commit(id)
        };
        let stat = comparison.read_stat(repository).await?;
        let title = commit.render_header(id);
        comparison.build_reply(repository, &title, stat).await
    }

    /// Shows a path at the commit.
    async fn show_path(
        &self,
        repository: &GitRepository,
        id: &str,
        path: &str,
    ) -> Result<ToolReply, ToolError> {
        let answer = repository
            .run_on_path(
                &["ls-tree", "-z", "-l", "--full-tree", "--end-of-options", id],
                Some(path),
            )
            .await?;
        let shown = format!(
            "{} at {}",
            path_text_from_bytes(path.as_bytes()),
            short_id(id)
        );
        let Some(entry) = answer.nul_records().find_map(TreeEntry::parse_record) else {
            return Err(ToolError::not_found(format!(
                "{} is not in commit {}. GitLog with this path lists the commits that touch it.",
                repository.requested.shown,
                short_id(id)
            )));
        };
        match (entry.kind.as_str(), entry.mode.as_str()) {
            ("tree", _) => self.show_folder(repository, &shown, &entry.id).await,
            ("commit", _) => Ok(ToolReply::from_text(format!(
                "{shown}: a submodule, at its commit {}.",
                short_id(&entry.id)
            ))),
            (_, mode) => {
                let remark = if mode == "120000" {
                    ", a symbolic link to:"
                } else {
                    ""
                };
                self.show_file(repository, &shown, &entry, remark).await
            }
        }
    }

    async fn show_file(
        &self,
        repository: &GitRepository,
        shown: &str,
        entry: &TreeEntry,
        remark: &str,
    ) -> Result<ToolReply, ToolError> {
        let budget = TextBudget::from_requested(self.max_chars);
        let room =
            TextBudget::from_requested(Some(budget.max_chars().saturating_sub(TITLE_CHARS) as u64));
        let capture = OutputCapture::new(&repository.git, room.max_chars(), 0);
        let arguments = ["cat-file", "blob", &entry.id];
        let blob = BlobCapture::new(capture, room);
        let mut blob = repository.git.run_into_sink(&arguments, blob).await?;
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
        let (lines, ends, whole) = blob.finish();
        let mut meta = whole.text_meta(blob.controls);
        meta.warnings.extend(whole.cut_short);
        let title = format!(
            "{shown} ({}, {}){remark}\n",
            format_size(bytes),
            format_count(lines, "line")
        );
        let reply = if bytes == 0 {
            ToolReply::from_text(format!("{shown}: an empty file."))
        } else if let Some(text) = whole.text {
            ToolReply::from_text(title + &String::from_utf8_lossy(&text))
        } else {
            meta.truncated = true;
            meta.omitted_bytes = Some(ends.omitted_bytes);
            meta.handle = whole.handle;
            ToolReply::from_fitted_text(title + &ends.text)
        };
        Ok(reply.with_meta(meta).with_budget(budget))
    }

    async fn show_folder(
        &self,
        repository: &GitRepository,
        shown: &str,
        tree: &str,
    ) -> Result<ToolReply, ToolError> {
        let arguments = ["ls-tree", "-z", "-l", "--end-of-options", tree];
        let answer = repository.git.run_checked(&arguments).await?;
        let entries: Vec<TreeEntry> = answer
            .nul_records()
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
        text.extend(entries.iter().map(TreeEntry::format_line));
        Ok(ToolReply::from_text(text).with_budget(TextBudget::from_requested(self.max_chars)))
    }
}
