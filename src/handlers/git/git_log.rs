//! git_log: the last commits. Not here: selection by author, time or range (GitLog).

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::history::{Slice, none_yet};
use super::log::reply;
use super::repository::Repository;
use super::status::here;
use crate::acp::RawPath;
use crate::tool::{Access, DefaultLocation, Effect, Reply, Tool, ToolCx, ToolError};

const COUNT: u64 = 10;
const MOST: u64 = 1_000;

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
    const EFFECT: Effect = Effect::Reads;
    const SAME_AS: Option<&'static str> = Some("GitLog");
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("repo_path", "path"),
        ("directory", "path"),
        ("cwd", "path"),
        ("file_path", "path"),
        ("limit", "count"),
        ("max_count", "count"),
        ("n", "count"),
    ];
    const EXAMPLES: &'static [&'static str] = &["{}", r#"{"path":"src","count":3}"#];
    const LIMITS: &'static [&'static str] =
        &["10 commits a call by default, 1,000 at most", "30 s a run of git"];
    type Deps = GitDeps;
    type Output = Reply;

    fn access(&self) -> Access {
        Access::reads([self.path.as_str()]).or_default(DefaultLocation::FirstWorkspace)
    }

    async fn run(self, cx: &ToolCx, deps: &GitDeps) -> Result<Reply, ToolError> {
        let repository = Repository::open(cx, deps, &self.path).await?;
        let Some(head) = repository.head(cx).await? else { return Ok(Reply::text(none_yet())) };
        let slice = Slice {
            revision: &head,
            path: repository.pathspec(),
            count: self.count.unwrap_or(COUNT).clamp(1, MOST),
            ..Slice::default()
        };
        let found = slice.read(cx, &repository).await?;
        if found.entries.is_empty() {
            return Err(ToolError::not_found(format!("No commit touches {}.", repository.part.shown)));
        }
        let text = found.render(0).replace("Continue with skip=", "GitLog goes on with skip=");
        Ok(reply(&found, text, repository.notes))
    }
}
