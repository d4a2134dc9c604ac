//! GitDiff: compares two states of the files.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::GitDeps;
use super::diff_output::DiffQuery;
use super::display_text::escape_line;
use super::porcelain::ChangeState;
use super::repository::GitRepository;
use super::requested_path::{here, read_access};
use super::resolve_revision::short_id;
use super::status::read_status;
use punie_host::RawPath;
use punie_text::output::TextBudget;
use punie_text::output::number_format::format_count;
use punie_tool::{DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolReply};

/// Show what differs in a git repository. Default: working tree against index; staged=true: index against the last
/// commit.
///
/// `from`: a commit against the working tree (HEAD: all that is not committed); `from` and `to`: two commits. New
/// files that were never staged are not in it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a key of its own, and all but one may be combined"
)]
pub(super) struct GitDiff {
    /// Folder or file; else the first workspace.
    #[serde(default = "here")]
    path: RawPath,
    /// Commit, branch, tag, HEAD~2, or a..b.
    from: Option<String>,
    /// A second commit.
    to: Option<String>,
    /// Compare what is staged.
    #[serde(default)]
    staged: bool,
    /// From where both sides parted.
    #[serde(default)]
    merge_base: bool,
    /// Only files and line counts.
    #[serde(default)]
    stat_only: bool,
    /// Lines of context; 3 if absent.
    context_lines: Option<u64>,
    /// Leave out blanks.
    #[serde(default)]
    ignore_whitespace: bool,
    /// Characters; 30000 if absent.
    max_chars: Option<u64>,
}

impl Tool for GitDiff {
    const NAME: &'static str = "GitDiff";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("base", "from"),
        ("ref", "from"),
        ("target", "from"),
        ("head", "to"),
    ];
    const EXAMPLES: &'static [&'static str] = &[
        "{}",
        r#"{"path":"src/main.rs","staged":true}"#,
        r#"{"from":"main","to":"feature","merge_base":true,"stat_only":true}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "30,000 characters an answer by default, 1,000 to 200,000; the whole diff is kept up to 256 MB",
        "1,000 lines of context at most",
        "30 s a run of git",
    ];
    type Deps = GitDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        read_access([&self.path])
    }

    /// Splits ranges: `a..b` compares two commits, `a...b` shows the changes of b since it left a. An empty side
    /// means HEAD.
    fn normalize(arguments: &mut Map<String, Value>) {
        let range = arguments
            .get("from")
            .and_then(Value::as_str)
            .filter(|_| !arguments.contains_key("to"));
        let Some((from, to)) = range.and_then(|range| range.split_once("..")) else {
            return;
        };
        let (to, since_parting) = (to.strip_prefix('.').unwrap_or(to), to.starts_with('.'));
        let side = |name: &str| Value::from(if name.is_empty() { "HEAD" } else { name });
        let from = side(from);
        let to = side(to);
        arguments.insert("from".to_owned(), from);
        arguments.insert("to".to_owned(), to);
        if since_parting {
            arguments.insert("merge_base".to_owned(), Value::Bool(true));
        }
    }

    async fn run(self, cx: &ToolContext, deps: &GitDeps) -> Result<ToolReply, ToolError> {
        self.check_arguments()?;
        let repository = GitRepository::open(cx, deps, &self.path).await?;
        let (comparison, title) = self.build_query(&repository).await?;
        let stat = comparison.read_stat(&repository).await?;
        if stat.files.is_empty() {
            repository.require_known_path().await?;
            let hint = self.hint_other_changes(&repository).await?;
            return Ok(repository.comparison_reply(format!("{title}: no differences.{hint}")));
        }
        comparison.build_reply(&repository, &title, stat).await
    }
}

impl GitDiff {
    fn check_arguments(&self) -> Result<(), ToolError> {
        let why = if self.to.is_some() && self.from.is_none() {
            "`to` needs `from`: name both commits"
        } else if self.to.is_some() && self.staged {
            "`staged` and `to` exclude each other: `to` is a commit, staged=true is the index"
        } else if self.merge_base && self.from.is_none() {
            "`merge_base` needs `from`: name the branch that the other side left"
        } else {
            return Ok(());
        };
        Err(ToolError::invalid_args(format!("GitDiff: {why}.")))
    }

    async fn build_query(
        &self,
        repository: &GitRepository,
    ) -> Result<(DiffQuery, String), ToolError> {
        let mut command = vec!["diff".to_owned()];
        let mut again = String::from("GitDiff");
        let mut say = |key: &str, value: &str| again.extend([" ", key, "=", value]);
        let mut title = String::new();
        if self.staged {
            command.push("--cached".to_owned());
            say("staged", "true");
        }
        if self.merge_base {
            command.push("--merge-base".to_owned());
            say("merge_base", "true");
        }
        for (key, asked) in [("from", &self.from), ("to", &self.to)] {
            let Some(asked) = asked else { continue };
            let id = repository.resolve_commit(key, asked).await?;
            say(key, &format!("\"{}\"", short_id(&id)));
            let name = escape_line(asked.trim());
            let shown = if id.starts_with(&name) {
                short_id(&id).to_owned()
            } else {
                format!("{name} ({})", short_id(&id))
            };
            title = if title.is_empty() {
                shown
            } else {
                format!("{title} against {shown}")
            };
            command.push(id);
        }
        let title = match (self.staged, &self.from, &self.to) {
            (true, None, _) => "Staged (last commit against the index)".to_owned(),
            (true, Some(_), _) => format!("{title} against the index"),
            (false, None, _) => "Not staged (index against the working tree)".to_owned(),
            (false, Some(_), None) => format!("{title} against the working tree"),
            (false, Some(_), Some(_)) => title,
        };
        let parted = if self.merge_base {
            "Since they parted: "
        } else {
            ""
        };
        let comparison = DiffQuery {
            command,
            path: repository.pathspec().map(str::to_owned),
            context: self.context_lines,
            ignore_whitespace: self.ignore_whitespace,
            again: Some(again),
            budget: TextBudget::from_requested(self.max_chars),
            stat_only: self.stat_only,
            ..DiffQuery::default()
        };
        Ok((comparison, format!("{parted}{title}")))
    }

    /// Returns a hint about other uncommitted changes, if the call asked about uncommitted changes.
    async fn hint_other_changes(&self, repository: &GitRepository) -> Result<String, ToolError> {
        if self.from.is_some() {
            return Ok(String::new());
        }
        let status = read_status(repository, &[], repository.pathspec()).await?;
        let other = |place: ChangeState, words: &str| match status.count_in_state(place) {
            0 => String::new(),
            n => format!(" {} {words}", format_count(n, "file")),
        };
        Ok(if self.staged {
            other(
                ChangeState::Unstaged,
                "changed and not staged: see it without staged.",
            )
        } else {
            other(ChangeState::Staged, "staged: see it with staged=true.")
        } + &other(
            ChangeState::Untracked,
            "or folders untracked, which a diff does not show: GitStatus lists them.",
        ))
    }
}
