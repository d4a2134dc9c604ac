//! git_diff: what changed in the files. Not here: which files changed (status).

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::repository::Repository;
use super::status::here;
use crate::acp::RawPath;
use crate::output::Budget;
use crate::tool::{Effect, Meta, Reply, Tool, ToolCx, ToolError};

/// Flags of every diff: no program of the repository's choice, no colours, no look into submodules.
const PLAIN: [&str; 5] = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all"];

/// Show what changed in the files of a git repository.
///
/// Gives `git diff`: the working tree against the index, or with staged=true the index against the last commit.
/// New files that were never added are not part of it: git_status lists them. A diff that is too long for one
/// answer is preceded by the list of its files with their numbers of changed lines; name one of them in `path` to see
/// it whole. Submodules are not looked into.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GitDiff {
    /// A folder of the repository, or the one file to compare; the first workspace folder if absent.
    #[serde(default = "here")]
    path: RawPath,
    /// Compare what is staged for the next commit instead.
    #[serde(default)]
    staged: bool,
    /// How many characters the answer may have: 1000 to 200000, 30000 if absent.
    max_chars: Option<u64>,
}

impl Tool for GitDiff {
    const NAME: &'static str = "git_diff";
    const EFFECT: Effect = Effect::Reads;
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("repo_path", "path"),
        ("directory", "path"),
        ("cwd", "path"),
        ("file_path", "path"),
        ("cached", "staged"),
    ];
    const EXAMPLES: &'static [&'static str] = &["{}", r#"{"path":"src/main.rs","staged":true}"#];
    type Deps = GitDeps;
    type Output = Reply;

    async fn run(self, cx: &ToolCx, deps: &GitDeps) -> Result<Reply, ToolError> {
        let budget = Budget::chars(self.max_chars);
        let repository = Repository::open(cx, deps, &self.path).await?;
        let answer = repository.ask(cx, &self.arguments(&[])).await?;
        let mut text = answer.text();
        if text.is_empty() {
            text.push_str(if self.staged {
                "No staged changes."
            } else {
                "No changes in the working tree against the index. staged=true shows staged changes; git_status \
                 lists new files."
            });
        }
        if answer.cut || text.chars().count() > budget.max_chars() {
            let stat = repository.ask(cx, &self.arguments(&["--stat=120", "--stat-count=200"])).await?;
            let cut = if answer.cut { " (only its first 8 MB were read)" } else { "" };
            text = format!("The diff is too long for one answer{cut}. Its files:\n{}\n{text}", stat.text());
        }
        let meta = Meta { warnings: repository.notes, ..Meta::default() };
        Ok(Reply::text(text).with_meta(meta).with_budget(budget))
    }
}

impl GitDiff {
    fn arguments<'a>(&self, more: &[&'a str]) -> Vec<&'a str> {
        let mut arguments = PLAIN.to_vec();
        if self.staged {
            arguments.push("--cached");
        }
        arguments.extend(more);
        arguments
    }
}
