//! git_diff: changes of the files as git prints them. Not here: comparing commits (GitDiff).

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::diff_output::DiffQuery;
use super::repository::GitRepository;
use super::requested_path::{here, read_access};
use punie_host::RawPath;
use punie_text::output::TextBudget;
use punie_tool::{DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolReply};

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
    const EXAMPLES: &'static [&'static str] = &["{}", r#"{"path":"src/main.rs","staged":true}"#];
    const LIMITS: &'static [&'static str] = &[
        "30,000 characters an answer by default, 1,000 to 200,000; the whole diff is kept up to 256 MB",
        "30 s a run of git",
    ];
    type Deps = GitDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        read_access([&self.path])
    }

    async fn run(self, cx: &ToolContext, deps: &GitDeps) -> Result<ToolReply, ToolError> {
        let repository = GitRepository::open(cx, deps, &self.path).await?;
        let (command, again, title): (&[&str], _, _) = if self.staged {
            (&["diff", "--cached"], "git_diff staged=true", "Staged")
        } else {
            (&["diff"], "git_diff", "Not staged")
        };
        let comparison = DiffQuery {
            path: repository.file_pathspec().map(str::to_owned),
            budget: TextBudget::from_requested(self.max_chars),
            bare: true,
            ..DiffQuery::with_command(command, again)
        };
        let stat = comparison.read_stat(&repository).await?;
        if stat.files.is_empty() {
            repository.require_known_path().await?;
            return Ok(repository.comparison_reply(if self.staged {
                "No staged changes."
            } else {
                "No changes in the working tree against the index. staged=true shows staged changes; git_status \
                 lists new files."
            }));
        }
        comparison.build_reply(&repository, title, stat).await
    }
}
