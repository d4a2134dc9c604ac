//! git_status: git's own plain list. Not here: the branch and the counts (GitStatus).

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::names;
use super::repository::Repository;
use super::status::here;
use crate::acp::RawPath;
use crate::tool::{Access, DefaultLocation, Effect, Meta, Reply, Tool, ToolCx, ToolError};

/// Same as GitStatus, as `git status --porcelain` prints it. A clean tree says so.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "git_status", deny_unknown_fields)]
pub(super) struct PlainStatus {
    /// Folder or file; else the first workspace.
    #[serde(default = "here")]
    path: RawPath,
}

impl Tool for PlainStatus {
    const NAME: &'static str = "git_status";
    const EFFECT: Effect = Effect::Reads;
    const SAME_AS: Option<&'static str> = Some("GitStatus");
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("repo_path", "path"), ("directory", "path"), ("cwd", "path"), ("file_path", "path")];
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

/// Lists the changes in git's short format, one per line, with unusual names quoted.
pub(super) async fn plain_status(cx: &ToolCx, deps: &GitDeps, path: &RawPath) -> Result<Reply, ToolError> {
    let repository = Repository::open(cx, deps, path).await?;
    let question = [
        "status",
        "--porcelain=v1",
        "-z",
        "--untracked-files=normal",
        "--ignore-submodules=dirty",
        "--find-renames",
    ];
    let answer = repository.ask(cx, &question, repository.file()).await?;
    if answer.output.is_empty() {
        repository.prove_known(cx).await?;
    }
    let mut lines = Vec::new();
    let mut records = answer.output.split(|byte| *byte == 0).filter(|record| !record.is_empty());
    while let Some(record) = records.next() {
        let (letters, path) = record.split_at(record.len().min(3));
        let letters = String::from_utf8_lossy(letters);
        let from = if letters.contains(['R', 'C']) { records.next() } else { None };
        let from = from.map_or_else(String::new, |from| format!("{} -> ", names::path(from)));
        lines.push(format!("{letters}{from}{}", names::path(path)));
    }
    let mut text = lines.join("\n");
    if text.is_empty() {
        "nothing to commit, working tree clean".clone_into(&mut text);
    }
    if answer.cut {
        text.push_str("\n[the list is longer than 8 MB and was cut]");
    }
    Ok(Reply::text(text).with_meta(Meta { warnings: repository.notes, ..Meta::default() }))
}
