//! GitAdd: stages files for the next commit.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::requested_path::read_access;
use super::staging::{StagingBatch, StagingScope, collect_batch, open_with_paths, stage_batch};
use super::staging_candidate::StagingRefusal;
use punie_host::RawPath;
use punie_text::output::number_format::format_count;
use punie_text::output::path_text::path_text_from_bytes;
use punie_tool::{DeclaredAccess, ErrorCode, Tool, ToolContext, ToolEffect, ToolError, ToolReply};

/// The largest number of files that an answer lists.
const MAX_LISTED_FILES: usize = 100;

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
    const EFFECT: ToolEffect = ToolEffect::Writes;
    const DECLARES: bool = true;
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"paths":["src/main.rs","src/old.rs"]}"#,
        r#"{"paths":["backend"]}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "500 paths a call; folders may hold any number of files",
        "secrets are looked for in the first 16 MB of a file",
        "100 files are listed in the answer",
        "30 s a run of git",
    ];
    type Deps = GitDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        read_access(&self.paths).starting_programs()
    }

    async fn run(self, cx: &ToolContext, deps: &GitDeps) -> Result<ToolReply, ToolError> {
        let (repository, parts) = open_with_paths(cx, deps, Self::NAME, &self.paths).await?;
        let _lock = repository.lock_changes().await?;
        let batch = collect_batch(&repository, &parts, StagingScope::All).await?;
        if batch.accepted.is_empty() && !batch.refused.is_empty() {
            let text = format!("Nothing was staged.\n{}", format_refusals(&batch));
            return Err(ToolError::new(ErrorCode::PolicyDenied, text));
        }
        cx.declare_intents(vec![repository.stage_intent()]).await?;
        stage_batch(&repository, &batch).await?;
        Ok(repository.comparison_reply(format_staging_report(&batch)))
    }
}

fn format_staging_report(batch: &StagingBatch) -> String {
    let mut text = match batch.accepted.len() {
        0 => format!(
            "Nothing to stage: unchanged or staged already: {}\n",
            batch.unchanged.join(", ")
        ),
        n => format!("Staged {}:\n", format_count(n as u64, "file")),
    };
    for candidate in batch.accepted.iter().take(MAX_LISTED_FILES) {
        let remark = candidate
            .remark
            .map_or_else(String::new, |remark| format!(" ({remark})"));
        let _ = writeln!(
            text,
            "  {}: {}{remark}",
            candidate.change_word(),
            path_text_from_bytes(&candidate.change.path)
        );
    }
    if batch.accepted.len() > MAX_LISTED_FILES {
        let _ = writeln!(
            text,
            "  and {} more; GitStatus lists all",
            batch.accepted.len() - MAX_LISTED_FILES
        );
    }
    if !batch.accepted.is_empty() && !batch.unchanged.is_empty() {
        let _ = writeln!(
            text,
            "Unchanged or staged already: {}",
            batch.unchanged.join(", ")
        );
    }
    if !batch.refused.is_empty() {
        text.push_str(&format_refusals(batch));
    }
    text.truncate(text.trim_end().len());
    text
}

/// Lists the refused paths with their reasons, and advises about secrets among them.
pub(super) fn format_refusals(batch: &StagingBatch) -> String {
    let mut text = format!(
        "Refused {}, not staged:\n",
        format_count(batch.refused.len() as u64, "path")
    );
    for (path, why) in batch.refused.iter().take(MAX_LISTED_FILES) {
        let path = path_text_from_bytes(path);
        let why = why.reason();
        let _ = writeln!(text, "  {path}: {why}");
    }
    if batch.refused.len() > MAX_LISTED_FILES {
        let _ = writeln!(
            text,
            "  and {} more",
            batch.refused.len() - MAX_LISTED_FILES
        );
    }
    let is_secret = |(_, why): &(_, StagingRefusal)| matches!(why, StagingRefusal::Secret(_));
    if !batch.refused.iter().any(is_secret) {
        return text;
    }
    text.push_str(
        "A secret that is committed is hard to take back: keep it out with .gitignore, or ask the user, who can stage it \
         by hand.",
    );
    text
}
