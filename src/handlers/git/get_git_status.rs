//! get_git_status: another name of git_status.

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::git_status::build_plain_status;
use super::requested_path::{here, read_access};
use punie_host::RawPath;
use punie_tool::{DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolReply};

/// Same as GitStatus, as `git status --porcelain` prints it. A clean tree says so.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetGitStatus {
    /// Folder; else the first workspace.
    #[serde(default = "here")]
    path: RawPath,
}

impl Tool for GetGitStatus {
    const NAME: &'static str = "get_git_status";
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
