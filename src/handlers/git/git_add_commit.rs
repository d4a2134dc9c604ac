//! git_add_commit: stages files and commits them, without running anything. Not here: commits with hooks (commit).

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::committing::{Order, commit};
use super::staging::{Which, open, sort};
use crate::acp::RawPath;
use crate::tool::{Effect, Reply, Tool, ToolCx, ToolError};

/// Stage files of a git repository and commit them, and only them.
///
/// Folders stand for what changed below them. Ignored and secret-looking files are refused, with the reason, and then
/// nothing is staged or committed. It runs no programs: where the repository has hooks for commits it refuses and
/// names GitCommit, which runs them. What else is staged stays so. Nothing is pushed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GitAddCommit {
    /// Files and folders of one repository; a file that was deleted commits its deletion.
    paths: Vec<RawPath>,
    /// The message: a first line of up to about 70 characters, then a blank line and the reasons.
    message: String,
}

impl Tool for GitAddCommit {
    const NAME: &'static str = "git_add_commit";
    const EFFECT: Effect = Effect::Writes;
    const DECLARES: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("files", "paths"), ("path", "paths"), ("msg", "message")];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"paths":["src/error.rs"],"message":"Name the error"}"#,
        r#"{"paths":["."],"message":"First version"}"#,
    ];
    const LIMITS: &'static [&'static str] = &["500 paths a call", "64 KB of message", "30 s a run of git"];
    type Deps = GitDeps;
    type Output = Reply;

    async fn run(self, cx: &ToolCx, deps: &GitDeps) -> Result<Reply, ToolError> {
        let (repository, parts) = open(cx, deps, Self::NAME, &self.paths).await?;
        let _turn = deps.turns.take(cx, &repository.git_dir).await?;
        let batch = sort(cx, deps, &repository, &parts, Which::All).await?;
        let order = Order {
            tool: Self::NAME,
            message: self.message,
            batch: Some(batch),
            only: Some(parts),
            amend: false,
            hooks: false,
        };
        commit(cx, deps, &repository, order).await
    }
}
