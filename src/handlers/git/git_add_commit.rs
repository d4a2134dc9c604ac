//! git_add_commit: stages and commits files without running programs. Not here: commits with hooks (GitCommit).

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::committing::{Order, commit};
use super::staging::{Which, open, sort};
use crate::acp::RawPath;
use crate::tool::{
    Access, CallDescription, CallTitle, DefaultLocation, Effect, Reply, Tool, ToolCx, ToolError,
};

/// Same as GitAdd and then GitCommit of these paths alone. It refuses where the repository has hooks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GitAddCommit {
    /// Files and folders of one repository.
    paths: Vec<RawPath>,
    /// A first line, a blank line, the reasons.
    message: String,
}

impl Tool for GitAddCommit {
    const NAME: &'static str = "git_add_commit";
    const EFFECT: Effect = Effect::Writes;
    const SAME_AS: Option<&'static str> = Some("GitCommit");
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

    fn access(&self) -> Access {
        Access::reads(self.paths.iter().map(RawPath::as_str))
            .or_default(DefaultLocation::FirstWorkspace)
            .starting_programs()
    }

    fn describe(&self) -> CallDescription {
        CallDescription::titled(CallTitle::sentence(format!("Commit `{}`", self.message)))
    }

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
