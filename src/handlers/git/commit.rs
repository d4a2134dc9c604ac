//! GitCommit: makes a commit and runs the repository's hooks.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::GitDeps;
use super::commit_order::CommitOrder;
use super::create_commit::create_commit;
use super::repository::{GitRepository, RepoPath};
use super::requested_path::{here, path_in_folder, read_access};
use super::staging::{StagingScope, collect_batch, open_with_paths};
use punie_host::RawPath;
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolReply,
};

/// Commit what is staged, only `paths`, or with all=true every change of files that git knows.
///
/// Hooks run, and their output is in the answer. What GitAdd would refuse ends the call. Does not sign or push.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GitCommit {
    /// First line, blank line, reasons.
    message: String,
    /// Stage and commit only these, in `path`.
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

    /// Takes `paths` as paths in the folder that `path` names.
    fn normalize(arguments: &mut Map<String, Value>) {
        let folder = arguments.get("path").and_then(Value::as_str);
        let folder = folder.unwrap_or(".").to_owned();
        let paths = arguments.get_mut("paths").and_then(Value::as_array_mut);
        for path in paths.into_iter().flatten() {
            if let Some(inside) = path.as_str().map(|path| path_in_folder(&folder, path)) {
                *path = Value::from(inside);
            }
        }
    }

    fn access(&self) -> DeclaredAccess {
        // With `paths`, the repository is found from them.
        let folder = self.paths.is_none().then_some(&self.path);
        read_access(self.paths.iter().flatten().chain(folder)).starting_programs()
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
        let (repository, only) = match &self.paths {
            Some(paths) => {
                let (repository, parts) = open_with_paths(cx, deps, Self::NAME, paths).await?;
                (repository, Some(parts))
            }
            None => (GitRepository::open(cx, deps, &self.path).await?, None),
        };
        let _lock = repository.lock_changes().await?;
        let batch = if let Some(parts) = &only {
            Some(collect_batch(&repository, parts, StagingScope::All).await?)
        } else if self.all {
            let whole = [RepoPath::default()];
            Some(collect_batch(&repository, &whole, StagingScope::Tracked).await?)
        } else {
            None
        };
        let order = CommitOrder {
            tool: Self::NAME,
            message: self.message,
            batch,
            only,
            amend: self.amend,
            hooks: true,
        };
        create_commit(&repository, order).await
    }
}
