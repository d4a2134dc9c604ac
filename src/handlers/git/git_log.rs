//! git_log: the last commits. Not here: selection by author, time or range (GitLog).

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::commit_list::{CommitQuery, no_commits_message};
use super::log::reply_with_commits;
use super::repository::GitRepository;
use super::requested_path::{here, read_access};
use punie_host::RawPath;
use punie_tool::{DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolReply};

const DEFAULT_COUNT: u64 = 10;
const MAX_COUNT: u64 = 1_000;

/// Same as GitLog, one commit a line. For ranges, authors and times use GitLog.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "git_log", deny_unknown_fields)]
pub(super) struct PlainLog {
    /// Folder or file; else the first workspace.
    #[serde(default = "here")]
    path: RawPath,
    /// Commits: 10 if absent, at most 1000.
    count: Option<u64>,
}

impl Tool for PlainLog {
    const NAME: &'static str = "git_log";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const SAME_AS: Option<&'static str> = Some("GitLog");
    const EXAMPLES: &'static [&'static str] = &["{}", r#"{"path":"src","count":3}"#];
    const LIMITS: &'static [&'static str] = &[
        "10 commits a call by default, 1,000 at most",
        "30 s a run of git",
    ];
    type Deps = GitDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        read_access([&self.path])
    }

    async fn run(self, cx: &ToolContext, deps: &GitDeps) -> Result<ToolReply, ToolError> {
        let repository = GitRepository::open(cx, deps, &self.path).await?;
        let Some(head) = repository.resolve_head().await? else {
            return Ok(ToolReply::from_text(no_commits_message()));
        };
        let slice = CommitQuery {
            revision: &head,
            path: repository.pathspec(),
            count: self.count.unwrap_or(DEFAULT_COUNT).clamp(1, MAX_COUNT),
            ..CommitQuery::default()
        };
        let found = slice.run(&repository).await?;
        if found.entries.is_empty() {
            return Err(ToolError::not_found(format!(
                "No commit touches {}.",
                repository.requested.shown
            )));
        }
        let text = found
            .render(0)
            .replace("Continue with skip=", "GitLog goes on with skip=");
        Ok(reply_with_commits(&found, text))
    }
}
