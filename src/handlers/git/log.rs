//! GitLog: lists commits. Not here: the changes of one of them (GitShow).

use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::history::{Found, Slice, none_yet};
use super::names;
use super::repository::{Kind, Repository};
use super::revision::plain;
use super::status::here;
use crate::acp::RawPath;
use crate::tool::{Access, DefaultLocation, Effect, Meta, Reply, Tool, ToolCx, ToolError};

const COUNT: u64 = 20;
const MOST: u64 = 1_000;

/// List commits, newest first: id, date, author, subject, branches and tags.
///
/// With `path` those that touch it, through renames.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GitLog {
    /// Folder or file; else the first workspace.
    #[serde(default = "here")]
    path: RawPath,
    /// Branch, tag, id, or a..b; else HEAD.
    #[serde(rename = "ref")]
    revision: Option<String>,
    /// Commits; 20 if absent.
    count: Option<u64>,
    /// Results to skip.
    #[serde(default)]
    skip: u64,
    /// Part of name or address.
    author: Option<String>,
    /// Part of the message.
    grep: Option<String>,
    /// Such as 2025-01-31 or 2 weeks ago (UTC).
    since: Option<String>,
    /// In the same form.
    until: Option<String>,
}

impl Tool for GitLog {
    const NAME: &'static str = "GitLog";
    const EFFECT: Effect = Effect::Reads;
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("file_path", "path"),
        ("repo_path", "path"),
        ("directory", "path"),
        ("cwd", "path"),
        ("branch", "ref"),
        ("revision", "ref"),
        ("range", "ref"),
        ("limit", "count"),
        ("max_count", "count"),
        ("n", "count"),
        ("offset", "skip"),
        ("message", "grep"),
        ("after", "since"),
        ("before", "until"),
    ];
    const EXAMPLES: &'static [&'static str] = &[
        "{}",
        r#"{"path":"src/main.rs","count":5}"#,
        r#"{"ref":"main..feature","author":"ada","since":"2 weeks ago"}"#,
    ];
    const LIMITS: &'static [&'static str] =
        &["20 commits a call by default, 1,000 at most", "200 characters of a subject", "30 s a run of git"];
    type Deps = GitDeps;
    type Output = Reply;

    fn access(&self) -> Access {
        Access::reads([self.path.as_str()]).or_default(DefaultLocation::FirstWorkspace)
    }

    async fn run(self, cx: &ToolCx, deps: &GitDeps) -> Result<Reply, ToolError> {
        let repository = Repository::open(cx, deps, &self.path).await?;
        let Some(head) = repository.head(cx).await? else {
            if let Some(revision) = &self.revision {
                repository.range(cx, "ref", revision).await?;
            }
            return Ok(Reply::text(none_yet()));
        };
        let (mut filters, mut said) = self.filters(cx, &repository).await?;
        let revision = match &self.revision {
            Some(revision) => {
                said.insert(0, format!("of {}", names::line(revision.trim())));
                repository.range(cx, "ref", revision).await?
            }
            None => head,
        };
        if let Some(path) = repository.pathspec() {
            let is_file = repository.part.kind == Kind::File;
            if is_file {
                filters.push("--follow".to_owned());
            }
            let followed = if is_file { " (renames followed)" } else { "" };
            said.push(format!("touching {}{followed}", names::path(path.as_bytes())));
        }
        let slice = Slice {
            filters,
            revision: &revision,
            path: repository.pathspec(),
            count: self.count.unwrap_or(COUNT).clamp(1, MOST),
            skip: self.skip,
        };
        let found = slice.read(cx, &repository).await?;
        let said = said.join(", ");
        if found.entries.is_empty() {
            return self.nothing(&repository, &said, &found);
        }
        let head = if said.is_empty() { String::new() } else { format!("Commits {said}:\n") };
        Ok(reply(&found, head + &found.render(self.skip), repository.notes))
    }
}

/// Builds the answer, with a warning if git's list was cut.
pub(super) fn reply(found: &Found, text: String, mut notes: Vec<String>) -> Reply {
    notes.retain(|note| !note.starts_with("the filters"));
    if found.cut {
        notes.push("git's list was longer than 8 MB and was cut there".to_owned());
    }
    Reply::text(text).with_meta(Meta { warnings: notes, ..Meta::default() })
}

impl GitLog {
    /// Returns the filters as git arguments and as text for the answer.
    async fn filters(
        &self,
        cx: &ToolCx,
        repository: &Repository,
    ) -> Result<(Vec<String>, Vec<String>), ToolError> {
        let mut filters = vec!["--fixed-strings".to_owned(), "--regexp-ignore-case".to_owned()];
        let mut said = Vec::new();
        for (key, text) in [("author", &self.author), ("grep", &self.grep)] {
            let Some(text) = text else { continue };
            let text = plain(key, text)?;
            filters.push(format!("--{key}={text}"));
            said.push(match key {
                "author" => format!("by {text:?}"),
                _ => format!("whose message holds {text:?}"),
            });
        }
        for (key, text) in [("since", &self.since), ("until", &self.until)] {
            let Some(text) = text else { continue };
            let seconds = moment(cx, repository, key, plain(key, text)?).await?;
            filters.push(format!("--{key}={seconds}"));
            let at = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            said.push(format!("{key} {at}"));
        }
        Ok((filters, said))
    }

    fn nothing(&self, repository: &Repository, said: &str, found: &Found) -> Result<Reply, ToolError> {
        let narrowed =
            self.author.is_some() || self.grep.is_some() || self.since.is_some() || self.until.is_some();
        if repository.part.kind == Kind::Gone && !narrowed && self.skip == 0 {
            return Err(ToolError::not_found(format!(
                "There is nothing at {}, and no commit {said}.",
                repository.part.shown
            )));
        }
        let after = if self.skip > 0 { format!(" after the first {}", self.skip) } else { String::new() };
        let shallow = if found.is_shallow { format!(" But {}", found.end()) } else { String::new() };
        Ok(Reply::text(format!("No commits {said}{after}.{shallow}")))
    }
}

/// Resolves a date with git. Rejects results close to now, because git reads text that it does not understand as
/// "now".
async fn moment(cx: &ToolCx, repository: &Repository, key: &str, text: &str) -> Result<u64, ToolError> {
    let answer = repository.git.run(cx, &["rev-parse", &format!("--since={text}")]).await?;
    let seconds = answer.line().strip_prefix("--max-age=").and_then(|text| text.parse::<u64>().ok());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
    match seconds {
        Some(seconds) if seconds.abs_diff(now) > 5 || matches!(text, "now" | "today") => Ok(seconds),
        _ => Err(ToolError::invalid_args(format!(
            "GitLog: `{key}` is no date that git understands: {text:?}. Write 2025-01-31, 2025-01-31 12:00, yesterday or \
             2 weeks ago."
        ))),
    }
}
