//! git_diff: changes of the files as git prints them. Not here: comparing commits (GitDiff).

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::comparison::{Comparison, Wanted};
use super::repository::Repository;
use super::status::here;
use crate::acp::RawPath;
use crate::output::Budget;
use crate::tool::{Access, DefaultLocation, Effect, Meta, Reply, Tool, ToolCx, ToolError};

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
    const EFFECT: Effect = Effect::Reads;
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
    type Output = Reply;

    fn access(&self) -> Access {
        Access::reads([self.path.as_str()]).or_default(DefaultLocation::FirstWorkspace)
    }

    async fn run(self, cx: &ToolCx, deps: &GitDeps) -> Result<Reply, ToolError> {
        let repository = Repository::open(cx, deps, &self.path).await?;
        let (command, again): (&[&str], _) = if self.staged {
            (&["diff", "--cached"], "git_diff staged=true")
        } else {
            (&["diff"], "git_diff")
        };
        let comparison = plain_comparison(command, repository.file(), again, 0);
        let stat = comparison.stat(cx, &repository).await?;
        let title = if self.staged { "Staged" } else { "Not staged" };
        if stat.files.is_empty() {
            repository.prove_known(cx).await?;
            let text = if self.staged {
                "No staged changes."
            } else {
                "No changes in the working tree against the index. staged=true shows staged changes; git_status \
                 lists new files."
            };
            return Ok(Reply::text(text).with_meta(Meta { warnings: repository.notes, ..Meta::default() }));
        }
        let wanted = Wanted { budget: Budget::chars(self.max_chars), stat_only: false, bare: true };
        comparison.answer(cx, deps, &repository, (title, stat), wanted).await
    }
}

/// Builds a comparison with git's default options.
pub(super) fn plain_comparison(command: &[&str], path: Option<&str>, again: &str, number: u32) -> Comparison {
    Comparison {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        path: path.map(str::to_owned),
        context: 3,
        ignore_whitespace: false,
        again: Some(again.to_owned()),
        number,
    }
}
