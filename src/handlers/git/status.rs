//! git_status: which files changed. Not here: what changed in them (diff).

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::repository::Repository;
use crate::acp::RawPath;
use crate::tool::{Effect, Meta, Reply, Tool, ToolCx, ToolError};

/// Show which files of a git repository changed.
///
/// Gives `git status --porcelain` of the repository that `path` belongs to: two letters for the index and the working
/// tree (`M` modified, `A` added, `D` deleted, `R` renamed, `??` untracked), then the path from the repository's top.
/// Submodules are not looked into. A clean tree says so.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GitStatus {
    /// A folder of the repository, or one file to ask about; the first workspace folder if absent.
    #[serde(default = "here")]
    path: RawPath,
}

pub(super) fn here() -> RawPath {
    RawPath::from(".")
}

impl Tool for GitStatus {
    const NAME: &'static str = "git_status";
    const EFFECT: Effect = Effect::Reads;
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("repo_path", "path"), ("directory", "path"), ("cwd", "path"), ("file_path", "path")];
    const EXAMPLES: &'static [&'static str] = &["{}", r#"{"path":"backend"}"#];
    type Deps = GitDeps;
    type Output = Reply;

    async fn run(self, cx: &ToolCx, deps: &GitDeps) -> Result<Reply, ToolError> {
        let repository = Repository::open(cx, deps, &self.path).await?;
        let answer = repository
            .ask(cx, &["status", "--porcelain=v1", "--untracked-files=normal", "--ignore-submodules=all"])
            .await?;
        let mut text = answer.text();
        text.truncate(text.trim_end_matches('\n').len());
        if text.is_empty() {
            "nothing to commit, working tree clean".clone_into(&mut text);
        }
        if answer.cut {
            text.push_str("\n[the list is longer than 8 MB and was cut]");
        }
        Ok(Reply::text(text).with_meta(Meta { warnings: repository.notes, ..Meta::default() }))
    }
}
