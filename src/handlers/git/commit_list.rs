//! A list of commits, one per line, newest first.

use std::fmt::Write as _;

use super::display_text::escape_line;
use super::git_command::GitOutput;
use super::repository::GitRepository;
use super::resolve_revision;
use punie_text::output::number_format::{format_count, group_digits};
use punie_tool::ToolError;

/// Fields that git prints for each commit, each with a NUL after it.
const LOG_FORMAT: &str = "--format=%H%x00%P%x00%an%x00%ad%x00%D%x00%s";
const FIELDS: usize = 6;
const DATE: &str = "--date=format:%Y-%m-%d %H:%M %z";

/// One commit of the list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CommitEntry {
    id: String,
    parents: usize,
    author: String,
    date: String,
    refs: String,
    subject: String,
}

/// A page of the history to list.
#[derive(Debug, Default)]
pub(super) struct CommitQuery<'a> {
    /// Further arguments that select commits.
    pub(super) filters: Vec<String>,
    /// A commit or a range, given by ids.
    pub(super) revision: &'a str,
    pub(super) path: Option<&'a str>,
    pub(super) count: u64,
    pub(super) skip: u64,
}

/// The commits of a page.
#[derive(Debug)]
pub(super) struct CommitList {
    pub(super) entries: Vec<CommitEntry>,
    pub(super) more: bool,
    /// git's output was longer than the runner reads.
    pub(super) cut: bool,
    /// The clone is shallow: it lacks the parents of some of its commits.
    pub(super) is_shallow: bool,
}

impl CommitQuery<'_> {
    /// Reads the page and one more commit, which tells whether more follow.
    pub(super) async fn run(&self, repository: &GitRepository) -> Result<CommitList, ToolError> {
        let count = format!("--max-count={}", self.count + 1);
        let skip = format!("--skip={}", self.skip);
        let mut arguments = vec!["log", "-z", "--no-color", LOG_FORMAT, DATE, &count, &skip];
        arguments.extend(self.filters.iter().map(String::as_str));
        arguments.extend(["--end-of-options", self.revision]);
        let answer = repository.run_on_path(&arguments, self.path).await?;
        let mut entries = parse_commits(&answer);
        let wanted = usize::try_from(self.count).unwrap_or(usize::MAX);
        let more = entries.len() > wanted || answer.cut;
        entries.truncate(wanted);
        let asked = ["rev-parse", "--is-shallow-repository"];
        let is_shallow = !more && repository.git.run(&asked).await?.first_output_line() == "true";
        Ok(CommitList {
            entries,
            more,
            cut: answer.cut,
            is_shallow,
        })
    }
}

impl CommitList {
    /// Formats the commits and says how to continue.
    pub(super) fn render(&self, skip: u64) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            let _ = writeln!(text, "{}", entry.format());
        }
        let shown = self.entries.len() as u64;
        if self.more {
            let next = skip + shown;
            let _ = write!(
                text,
                "[{} shown; older ones follow. Continue with skip={next}.]",
                format_count(shown, "commit")
            );
        } else {
            let first = if skip > 0 {
                format!(" after the first {}", group_digits(skip))
            } else {
                String::new()
            };
            let end = self.describe_end();
            let _ = write!(text, "[{}{first}; {end}]", format_count(shown, "commit"));
        }
        text
    }

    /// Says why no older commits follow.
    pub(super) fn describe_end(&self) -> &'static str {
        if self.is_shallow {
            "this clone is shallow, so older commits may exist that it does not have; `git fetch --unshallow` in Bash \
             gets them."
        } else {
            "there are no more."
        }
    }
}

fn parse_commits(answer: &GitOutput) -> Vec<CommitEntry> {
    let text = String::from_utf8_lossy(&answer.output);
    let fields: Vec<&str> = text.split('\0').collect();
    fields
        .chunks_exact(FIELDS)
        .map(|fields| CommitEntry {
            id: fields[0].to_owned(),
            parents: fields[1].split_whitespace().count(),
            author: escape_line(fields[2]),
            date: fields[3].to_owned(),
            refs: escape_line(fields[4]),
            subject: escape_line(fields[5]),
        })
        .collect()
}

impl CommitEntry {
    fn format(&self) -> String {
        let refs = if self.refs.is_empty() {
            String::new()
        } else {
            format!(" ({})", self.refs)
        };
        let merge = if self.parents > 1 { " [merge]" } else { "" };
        format!(
            "{} {} {}: {}{merge}{refs}",
            resolve_revision::short_id(&self.id),
            self.date,
            self.author,
            self.subject
        )
    }
}

/// Returns the message for a branch without commits.
pub(super) fn no_commits_message() -> String {
    "There are no commits yet: the branch that is checked out has none.".to_owned()
}
