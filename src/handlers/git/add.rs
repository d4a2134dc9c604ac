//! GitAdd: stages files for the next commit. Not here: the checks that decide which files may be staged, and the
//! commit.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::names;
use super::staging::{Batch, Which, open, sort, stage};
use crate::acp::RawPath;
use crate::output::figures::counted;
use crate::tool::{Access, DefaultLocation, Effect, ErrorCode, Meta, Reply, Tool, ToolCx, ToolError};

/// The largest number of files that an answer lists.
const LISTED: usize = 100;

/// Stage new, changed and deleted files; then use GitCommit. A folder stands for its changed files.
///
/// Refuses, with the reason, ignored files that are named, new files that look like secrets or hold one, and files
/// that need a filter such as git-lfs; stages the rest.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GitAdd {
    /// Files and folders of one repository.
    paths: Vec<RawPath>,
}

impl Tool for GitAdd {
    const NAME: &'static str = "GitAdd";
    const EFFECT: Effect = Effect::Writes;
    const DECLARES: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("files", "paths"), ("path", "paths"), ("file_paths", "paths")];
    const EXAMPLES: &'static [&'static str] =
        &[r#"{"paths":["src/main.rs","src/old.rs"]}"#, r#"{"paths":["backend"]}"#];
    const LIMITS: &'static [&'static str] = &[
        "500 paths a call; folders may hold any number of files",
        "secrets are looked for in the first 16 MB of a file",
        "100 files are listed in the answer",
        "30 s a run of git",
    ];
    type Deps = GitDeps;
    type Output = Reply;

    fn access(&self) -> Access {
        Access::reads(self.paths.iter().map(RawPath::as_str))
            .or_default(DefaultLocation::FirstWorkspace)
            .starting_programs()
    }

    async fn run(self, cx: &ToolCx, deps: &GitDeps) -> Result<Reply, ToolError> {
        let (repository, parts) = open(cx, deps, Self::NAME, &self.paths).await?;
        let _turn = deps.turns.take(cx, &repository.git_dir).await?;
        let batch = sort(cx, deps, &repository, &parts, Which::All).await?;
        if batch.accepted.is_empty() && !batch.refused.is_empty() {
            let text = format!("Nothing was staged.\n{}", refusals(&batch));
            return Err(ToolError::new(ErrorCode::PolicyDenied, text));
        }
        cx.declare(vec![repository.stage_intent()]).await?;
        stage(cx, &repository, &batch).await?;
        Ok(Reply::text(report(&batch)).with_meta(Meta { warnings: repository.notes, ..Meta::default() }))
    }
}

fn report(batch: &Batch) -> String {
    let mut text = match batch.accepted.len() {
        0 => "Nothing to stage: what was named is unchanged or staged already.\n".to_owned(),
        n => format!("Staged {}:\n", counted(n as u64, "file")),
    };
    for candidate in batch.accepted.iter().take(LISTED) {
        let remark = candidate.remark.map_or_else(String::new, |remark| format!(" ({remark})"));
        let _ = writeln!(text, "  {}: {}{remark}", candidate.word(), names::path(&candidate.path));
    }
    if batch.accepted.len() > LISTED {
        let _ = writeln!(text, "  and {} more; GitStatus lists all", batch.accepted.len() - LISTED);
    }
    if !batch.accepted.is_empty() && !batch.unchanged.is_empty() {
        let _ = writeln!(text, "Unchanged or staged already: {}", batch.unchanged.join(", "));
    }
    if !batch.refused.is_empty() {
        text.push_str(&refusals(batch));
    }
    text.truncate(text.trim_end().len());
    text
}

/// Lists the refused paths with their reasons, and advises about secrets.
pub(super) fn refusals(batch: &Batch) -> String {
    let mut text = format!("Refused {}, not staged:\n", counted(batch.refused.len() as u64, "path"));
    for (path, why) in batch.refused.iter().take(LISTED) {
        let _ = writeln!(text, "  {}: {why}", names::path(path));
    }
    if batch.refused.len() > LISTED {
        let _ = writeln!(text, "  and {} more", batch.refused.len() - LISTED);
    }
    text.push_str(
        "A secret that is committed is hard to take back: keep it out with .gitignore, or ask the user, who can stage it \
         by hand.",
    );
    text
}
