//! git_status: git's own plain list. Not here: the branch and the counts (GitStatus).

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::display_text::renamed_path;
use super::repository::GitRepository;
use super::requested_path::{here, read_access};
use punie_host::RawPath;
use punie_tool::{DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolReply};

/// Same as GitStatus, as `git status --porcelain` prints it. A clean tree says so.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "git_status", deny_unknown_fields)]
pub(super) struct PlainStatus {
    /// Folder or file; else the first workspace.
    #[serde(default = "here")]
    path: RawPath,
}

impl Tool for PlainStatus {
    const NAME: &'static str = "git_status";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const SAME_AS: Option<&'static str> = Some("GitStatus");
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("repo_path", "path"),
        ("directory", "path"),
        ("cwd", "path"),
        ("file_path", "path"),
    ];
    const EXAMPLES: &'static [&'static str] = &["{}", r#"{"path":"backend"}"#];
    const LIMITS: &'static [&'static str] = &["8 MB of git's list", "30 s a run of git"];
    type Deps = GitDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        read_access([&self.path])
    }

    async fn run(self, cx: &ToolContext, deps: &GitDeps) -> Result<ToolReply, ToolError> {
        build_plain_status(cx, deps, &self.path).await
    }
}

/// Lists the changes in git's short format, one per line, with unusual names quoted.
pub(super) async fn build_plain_status(
    cx: &ToolContext,
    deps: &GitDeps,
    path: &RawPath,
) -> Result<ToolReply, ToolError> {
    let repository = GitRepository::open_repository(cx, deps, path).await?;
    let arguments = [
        "status",
        "--porcelain=v1",
        "-z",
        "--untracked-files=normal",
        "--ignore-submodules=dirty",
        "--find-renames",
    ];
    let answer = repository
        .run_on_path(&arguments, repository.file_pathspec())
        .await?;
    if answer.output.is_empty() {
        repository.require_known_path().await?;
    }
    let mut lines = Vec::new();
    let mut records = answer.nul_records();
    while let Some(record) = records.next() {
        let (letters, path) = record.split_at(record.len().min(3));
        let is_renamed = letters.contains(&b'R') || letters.contains(&b'C');
        let from = is_renamed.then(|| records.next()).flatten();
        let letters = String::from_utf8_lossy(letters);
        lines.push(letters.into_owned() + &renamed_path(from, path));
    }
    let mut text = lines.join("\n");
    if text.is_empty() {
        "nothing to commit, working tree clean".clone_into(&mut text);
    }
    if answer.cut {
        text.push_str("\n[the list is longer than 8 MB and was cut]");
    }
    Ok(repository.into_reply(text))
}
