//! get_diff: uncommitted and staged changes in one text. Not here: either of them alone (GitDiff, git_diff).

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::diff_output::DiffQuery;
use super::repository::GitRepository;
use super::requested_path::{here, read_access};
use punie_host::RawPath;
use punie_text::output::TextBudget;
use punie_tool::{
    DeclaredAccess, ReplyBody, ResultMeta, Tool, ToolContext, ToolEffect, ToolError, ToolReply,
};

/// Same as GitDiff: `git diff HEAD`, then `git diff --cached`. For one file use GitDiff.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetDiff {
    /// Folder; else the first workspace.
    #[serde(default = "here")]
    path: RawPath,
}

impl Tool for GetDiff {
    const NAME: &'static str = "get_diff";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const SAME_AS: Option<&'static str> = Some("GitDiff");
    const EXAMPLES: &'static [&'static str] = &["{}", r#"{"path":"backend"}"#];
    const LIMITS: &'static [&'static str] = &[
        "15,000 characters for either diff; the whole is kept up to 256 MB",
        "30 s a run of git",
    ];
    type Deps = GitDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        read_access([&self.path])
    }

    async fn run(self, cx: &ToolContext, deps: &GitDeps) -> Result<ToolReply, ToolError> {
        let repository = GitRepository::open(cx, deps, &self.path).await?;
        // Before the first commit, only staged files can be compared.
        let head = repository.resolve_head().await?;
        let not_committed = head.map_or("--cached", |_| "HEAD");
        let halves = [
            (
                "Not committed (git diff HEAD)",
                not_committed,
                "GitDiff from=\"HEAD\"",
            ),
            (
                "Staged (git diff --cached)",
                "--cached",
                "GitDiff staged=true",
            ),
        ];
        let budget = TextBudget::from_requested(Some(TextBudget::DEFAULT_CHARS as u64 / 2));
        let mut text = String::new();
        let mut meta = ResultMeta {
            warnings: repository.comparison_warnings(),
            ..ResultMeta::default()
        };
        let mut fitted = false;
        for (number, (title, revision, again)) in (0..).zip(halves) {
            let comparison = DiffQuery {
                number,
                budget,
                ..DiffQuery::with_command(&["diff", revision], again)
            };
            let stat = comparison.read_stat(&repository).await?;
            if stat.files.is_empty() {
                let _ = write!(text, "{title}: nothing.\n\n");
                continue;
            }
            let reply = comparison.build_reply(&repository, title, stat).await?;
            if let ReplyBody::Text(part) | ReplyBody::Fitted(part) = &reply.body {
                text.push_str(part.trim_end());
                text.push_str("\n\n");
            }
            fitted |= matches!(reply.body, ReplyBody::Fitted(_));
            meta = merge_meta(meta, reply.meta);
        }
        text.truncate(text.trim_end().len());
        let reply = if fitted {
            ToolReply::from_fitted_text(text)
        } else {
            ToolReply::from_text(text)
        };
        Ok(reply.with_meta(meta))
    }
}

/// Merges the metadata of both halves. Each half names its own handle in its text, since the metadata has only one.
fn merge_meta(first: ResultMeta, second: ResultMeta) -> ResultMeta {
    let mut warnings = first.warnings;
    for warning in second.warnings {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    let sum = |a: Option<u64>, b: Option<u64>| a.map_or(b, |a| Some(a + b.unwrap_or(0)));
    ResultMeta {
        truncated: first.truncated || second.truncated,
        omitted_bytes: sum(first.omitted_bytes, second.omitted_bytes),
        redactions: sum(first.redactions, second.redactions),
        lossy_chars: sum(first.lossy_chars, second.lossy_chars),
        control_chars: sum(first.control_chars, second.control_chars),
        handle: first.handle.or(second.handle),
        warnings,
        ..ResultMeta::default()
    }
}
