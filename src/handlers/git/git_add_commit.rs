//! git_add_commit: stages and commits files without running programs. Not here: commits with hooks (GitCommit).

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::commit_order::CommitOrder;
use super::create_commit::create_commit;
use super::requested_path::read_access;
use super::staging::{StagingScope, collect_batch, open_with_paths};
use punie_host::RawPath;
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolReply,
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
    const EFFECT: ToolEffect = ToolEffect::Writes;
    const SAME_AS: Option<&'static str> = Some("GitCommit");
    const DECLARES: bool = true;
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"paths":["src/error.rs"],"message":"Name the error"}"#,
        r#"{"paths":["."],"message":"First version"}"#,
    ];
    const LIMITS: &'static [&'static str] =
        &["500 paths a call", "64 KB of message", "30 s a run of git"];
    type Deps = GitDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        read_access(&self.paths).starting_programs()
    }

    fn describe(&self) -> CallDescription {
        CallDescription::with_title(CallTitle::from_sentence(format!(
            "Commit `{}`",
            self.message
        )))
    }

    async fn run(self, cx: &ToolContext, deps: &GitDeps) -> Result<ToolReply, ToolError> {
        let (repository, parts) = open_with_paths(cx, deps, Self::NAME, &self.paths).await?;
        let _lock = repository.lock_changes().await?;
        let batch = collect_batch(&repository, &parts, StagingScope::All).await?;
        let order = CommitOrder {
            tool: Self::NAME,
            message: self.message,
            batch: Some(batch),
            only: Some(parts),
            amend: false,
            hooks: false,
        };
        create_commit(&repository, order).await
    }
}
