//! get_git_status: another name of git_status.

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::git_status::plain_status;
use super::status::here;
use crate::acp::RawPath;
use crate::tool::{Access, DefaultLocation, Effect, Reply, Tool, ToolCx, ToolError};

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
    const EFFECT: Effect = Effect::Reads;
    const SAME_AS: Option<&'static str> = Some("GitStatus");
    const EXAMPLES: &'static [&'static str] = &["{}", r#"{"path":"backend"}"#];
    const LIMITS: &'static [&'static str] = &["8 MB of git's list", "30 s a run of git"];
    type Deps = GitDeps;
    type Output = Reply;

    fn access(&self) -> Access {
        Access::reads([self.path.as_str()]).or_default(DefaultLocation::FirstWorkspace)
    }

    async fn run(self, cx: &ToolCx, deps: &GitDeps) -> Result<Reply, ToolError> {
        plain_status(cx, deps, &self.path).await
    }
}
