//! git_diff: changes of the files as git prints them. Not here: comparing commits (GitDiff).

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::diff_output::{DiffLimits, DiffQuery};
use super::repository::GitRepository;
use super::status::here;
use crate::acp::RawPath;
use crate::output::TextBudget;
use crate::tool::{
    DeclaredAccess, DefaultLocation, ResultMeta, Tool, ToolContext, ToolEffect, ToolError,
    ToolReply,
};

/// Same as GitDiff, as `git diff` prints it. With staged=true the index against the last commit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "git_diff", deny_unknown_fields)]
pub(super) struct PlainDiff {
    /// Folder or file; else the first workspace.
    #[serde(default = "here")]
    path: RawPath,
    /// Compare what is staged.
    #[serde(default)]
    staged: bool,
    /// Characters; 30000 if absent.
    max_chars: Option<u64>,
}

impl Tool for PlainDiff {
    const NAME: &'static str = "git_diff";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const SAME_AS: Option<&'static str> = Some("GitDiff");
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("repo_path", "path"),
        ("directory", "path"),
        ("cwd", "path"),
        ("file_path", "path"),
        ("cached", "staged"),
    ];
    const EXAMPLES: &'static [&'static str] = &["{}", r#"{"path":"src/main.rs","staged":true}"#];
    const LIMITS: &'static [&'static str] = &[
        "30,000 characters an answer by default, 1,000 to 200,000; the whole diff is kept up to 256 MB",
        "30 s a run of git",
    ];
    type Deps = GitDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::reading_paths([self.path.as_str()])
            .with_default_location(DefaultLocation::FirstWorkspace)
    }

    async fn run(self, cx: &ToolContext, deps: &GitDeps) -> Result<ToolReply, ToolError> {
        let repository = GitRepository::open_repository(cx, deps, &self.path).await?;
        let (command, again): (&[&str], _) = if self.staged {
            (&["diff", "--cached"], "git_diff staged=true")
        } else {
            (&["diff"], "git_diff")
        };
        let comparison = default_diff_query(command, repository.file_pathspec(), again, 0);
        let stat = comparison.read_stat(cx, &repository).await?;
        let title = if self.staged { "Staged" } else { "Not staged" };
        if stat.files.is_empty() {
            repository.require_known_path(cx).await?;
            let text = if self.staged {
                "No staged changes."
            } else {
                "No changes in the working tree against the index. staged=true shows staged changes; git_status \
                 lists new files."
            };
            return Ok(ToolReply::from_text(text).with_meta(ResultMeta {
                warnings: repository.notes,
                ..ResultMeta::default()
            }));
        }
        let wanted = DiffLimits {
            budget: TextBudget::from_requested(self.max_chars),
            stat_only: false,
            bare: true,
        };
        comparison
            .build_diff_reply(cx, deps, &repository, (title, stat), wanted)
            .await
    }
}

/// Builds a comparison with git's default options.
pub(super) fn default_diff_query(
    command: &[&str],
    path: Option<&str>,
    again: &str,
    number: u32,
) -> DiffQuery {
    DiffQuery {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        path: path.map(str::to_owned),
        context: 3,
        ignore_whitespace: false,
        again: Some(again.to_owned()),
        number,
    }
}
