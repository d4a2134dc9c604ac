//! GitCommit: makes a commit and runs the repository's hooks. Not here: the steps of the commit itself.

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::create_commit::{CommitOrder, create_commit};
use super::repository::{GitRepository, RepoPath, RepoPathKind};
use super::staging::{StagingScope, collect_batch, open_with_paths};
use super::status::here;
use crate::acp::RawPath;
use crate::tool::{
    CallDescription, CallTitle, DeclaredAccess, DefaultLocation, Tool, ToolContext, ToolEffect,
    ToolError, ToolReply,
};

/// Commit what is staged, only `paths`, or with all=true every change of files that git knows.
///
/// Hooks run, and their output is in the answer. What GitAdd would refuse ends the call. Does not sign or push.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GitCommit {
    /// First line, blank line, reasons.
    message: String,
    /// Stage and commit only these.
    paths: Option<Vec<RawPath>>,
    /// Stage all but new files.
    #[serde(default)]
    all: bool,
    /// Replace the last commit.
    #[serde(default)]
    amend: bool,
    /// Folder; else the first workspace.
    #[serde(default = "here")]
    path: RawPath,
}

impl Tool for GitCommit {
    const NAME: &'static str = "GitCommit";
    const EFFECT: ToolEffect = ToolEffect::Executes;
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("msg", "message"),
        ("files", "paths"),
        ("repo_path", "path"),
        ("cwd", "path"),
        ("directory", "path"),
    ];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"message":"Read the file once"}"#,
        r#"{"message":"Name the error","paths":["src/error.rs"]}"#,
        r#"{"message":"Mend what review found","all":true}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "500 paths a call",
        "64 KB of message",
        "5 minutes for the hooks",
        "10,000 characters of what hooks print",
    ];
    type Deps = GitDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        // With `paths`, the repository is found from them and `path` is ignored.
        let folder = self.paths.is_none().then_some(&self.path);
        let paths = self
            .paths
            .iter()
            .flatten()
            .chain(folder)
            .map(RawPath::as_str);
        DeclaredAccess::reading_paths(paths)
            .with_default_location(DefaultLocation::FirstWorkspace)
            .starting_programs()
    }

    fn describe(&self) -> CallDescription {
        CallDescription::with_title(CallTitle::from_sentence(format!(
            "Commit `{}`",
            self.message
        )))
    }

    async fn run(self, cx: &ToolContext, deps: &GitDeps) -> Result<ToolReply, ToolError> {
        if self.all && self.paths.is_some() {
            return Err(ToolError::invalid_args(
                "GitCommit: `paths` and `all` exclude each other.",
            ));
        }
        let (repository, _turn, batch, only) = if let Some(paths) = &self.paths {
            let (repository, parts) = open_with_paths(cx, deps, Self::NAME, paths).await?;
            let turn = deps
                .repo_locks
                .lock_repository(cx, &repository.git_dir)
                .await?;
            let batch = collect_batch(cx, deps, &repository, &parts, StagingScope::All).await?;
            (repository, turn, Some(batch), Some(parts))
        } else {
            let repository = GitRepository::open_repository(cx, deps, &self.path).await?;
            let turn = deps
                .repo_locks
                .lock_repository(cx, &repository.git_dir)
                .await?;
            let top = RepoPath {
                path: String::new(),
                kind: RepoPathKind::Folder,
                shown: String::new(),
            };
            let batch = if self.all {
                Some(collect_batch(cx, deps, &repository, &[top], StagingScope::Tracked).await?)
            } else {
                None
            };
            (repository, turn, batch, None)
        };
        let order = CommitOrder {
            tool: Self::NAME,
            message: self.message,
            batch,
            only,
            amend: self.amend,
            hooks: true,
        };
        create_commit(cx, deps, &repository, order).await
    }
}
