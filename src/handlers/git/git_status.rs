//! git_status: git's own plain list. Not here: the branch and the counts (GitStatus).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::porcelain::{ChangeState, GitFileChange, RepoStatus};
use super::repository::{GitRepository, reply_with_warnings};
use super::requested_path::{here, read_access};
use super::status::read_status;
use super::submodule_changes::add_submodule_changes;
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
    let repository = GitRepository::open(cx, deps, path).await?;
    let arguments = ["--no-branch", "--no-show-stash"];
    let path = repository.file_pathspec();
    let mut status = read_status(&repository, &arguments, path).await?;
    let uncompared = add_submodule_changes(&repository, &mut status, path).await?;
    if status.changes.is_empty() {
        repository.require_known_path().await?;
    }
    let mut text = format_short_status(&status);
    if text.is_empty() {
        "nothing to commit, working tree clean".clone_into(&mut text);
    }
    if status.cut {
        text.push_str("\n[the list is longer than 8 MB and was cut]");
    }
    let warnings = repository.filter_warning().into_iter().chain(uncompared);
    Ok(reply_with_warnings(text, warnings))
}

/// Formats the changes as `git status --short` does: tracked files by path, then new ones.
fn format_short_status(status: &RepoStatus) -> String {
    let mut lines: BTreeMap<(bool, &[u8]), (String, &GitFileChange)> = BTreeMap::new();
    for change in &status.changes {
        let key = (
            change.place == ChangeState::Untracked,
            change.path.as_slice(),
        );
        let letters = match change.place {
            ChangeState::Untracked => "??".to_owned(),
            ChangeState::Conflicted => change.letters.clone(),
            ChangeState::Staged => format!("{} ", change.letters),
            ChangeState::Unstaged => format!(" {}", change.letters),
        };
        let line = lines.entry(key).or_insert_with(|| (letters, change));
        if line.1.place == ChangeState::Staged && change.place == ChangeState::Unstaged {
            line.0.replace_range(1.., &change.letters);
        }
    }
    let lines: Vec<String> = lines
        .into_values()
        .map(|(letters, change)| format!("{letters} {}", change.display_path()))
        .collect();
    lines.join("\n")
}
