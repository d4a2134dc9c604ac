//! GitLog: lists commits.

use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::commit_list::{CommitList, CommitQuery, no_commits_message};
use super::display_text::escape_line;
use super::repository::{GitRepository, RepoPathKind, reply_with_warnings};
use super::requested_path::{here, read_access};
use super::resolve_revision::check_plain_value;
use punie_host::RawPath;
use punie_text::output::path_text::path_text_from_bytes;
use punie_tool::{DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolReply};

const DEFAULT_COUNT: u64 = 20;
const MAX_COUNT: u64 = 1_000;

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
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("branch", "ref"),
        ("range", "ref"),
        ("message", "grep"),
        ("after", "since"),
        ("before", "until"),
    ];
    const EXAMPLES: &'static [&'static str] = &[
        "{}",
        r#"{"path":"src/main.rs","count":5}"#,
        r#"{"ref":"main..feature","author":"ada","since":"2 weeks ago"}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "20 commits a call by default, 1,000 at most",
        "200 characters of a subject",
        "30 s a run of git",
    ];
    type Deps = GitDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        read_access([&self.path])
    }

    async fn run(self, cx: &ToolContext, deps: &GitDeps) -> Result<ToolReply, ToolError> {
        let repository = GitRepository::open(cx, deps, &self.path).await?;
        let Some(head) = repository.resolve_head().await? else {
            if let Some(revision) = &self.revision {
                repository.resolve_range("ref", revision).await?;
            }
            return Ok(ToolReply::from_text(no_commits_message()));
        };
        let (mut filters, mut description) = self.build_filters(&repository).await?;
        let revision = match &self.revision {
            Some(revision) => {
                description.insert(0, format!("of {}", escape_line(revision.trim())));
                repository.resolve_range("ref", revision).await?
            }
            None => head,
        };
        if let Some(path) = repository.pathspec() {
            let is_file = repository.requested.kind == RepoPathKind::File;
            if is_file {
                filters.push("--follow".to_owned());
            }
            let followed = if is_file { " (renames followed)" } else { "" };
            description.push(format!(
                "touching {}{followed}",
                path_text_from_bytes(path.as_bytes())
            ));
        }
        let slice = CommitQuery {
            filters,
            revision: &revision,
            path: repository.pathspec(),
            count: self.count.unwrap_or(DEFAULT_COUNT).clamp(1, MAX_COUNT),
            skip: self.skip,
        };
        let found = slice.run(&repository).await?;
        let description = description.join(", ");
        if found.entries.is_empty() {
            return self.reply_without_commits(&repository, &description, &found);
        }
        let mut text = found.render(self.skip);
        if !description.is_empty() {
            text = format!("Commits {description}:\n{text}");
        }
        Ok(reply_with_commits(&found, text))
    }
}

/// Builds the answer, with a warning if git's list was cut.
pub(super) fn reply_with_commits(found: &CommitList, text: String) -> ToolReply {
    let cut = "git's list was longer than 8 MB and was cut there";
    reply_with_warnings(text, found.cut.then(|| cut.to_owned()))
}

impl GitLog {
    /// Returns the filters as git arguments and as text for the answer.
    async fn build_filters(
        &self,
        repository: &GitRepository,
    ) -> Result<(Vec<String>, Vec<String>), ToolError> {
        let mut filters = vec![
            "--fixed-strings".to_owned(),
            "--regexp-ignore-case".to_owned(),
        ];
        let mut description = Vec::new();
        for (key, text) in [("author", &self.author), ("grep", &self.grep)] {
            let Some(text) = text else { continue };
            let text = check_plain_value(key, text)?;
            filters.push(format!("--{key}={text}"));
            description.push(match key {
                "author" => format!("by {text:?}"),
                _ => format!("whose message holds {text:?}"),
            });
        }
        for (key, text) in [("since", &self.since), ("until", &self.until)] {
            let Some(text) = text else { continue };
            let seconds = resolve_date(repository, key, check_plain_value(key, text)?).await?;
            filters.push(format!("--{key}={seconds}"));
            let at = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            description.push(format!("{key} {at}"));
        }
        Ok((filters, description))
    }

    fn reply_without_commits(
        &self,
        repository: &GitRepository,
        description: &str,
        found: &CommitList,
    ) -> Result<ToolReply, ToolError> {
        let filters = [&self.author, &self.grep, &self.since, &self.until];
        let narrowed = filters.into_iter().any(Option::is_some);
        if repository.requested.kind == RepoPathKind::Missing && !narrowed && self.skip == 0 {
            return Err(ToolError::not_found(format!(
                "There is nothing at {}, and no commit {description}.",
                repository.requested.shown
            )));
        }
        let after = if self.skip > 0 {
            format!(" after the first {}", self.skip)
        } else {
            String::new()
        };
        let shallow = if found.is_shallow {
            format!(" But {}", found.describe_end())
        } else {
            String::new()
        };
        Ok(ToolReply::from_text(format!(
            "No commits {description}{after}.{shallow}"
        )))
    }
}

/// Resolves a date with git. Rejects results close to now, because git reads text that it does not understand as
/// "now".
async fn resolve_date(repository: &GitRepository, key: &str, text: &str) -> Result<u64, ToolError> {
    let answer = repository
        .git
        .run(&["rev-parse", &format!("--since={text}")])
        .await?;
    let seconds = answer
        .first_output_line()
        .strip_prefix("--max-age=")
        .and_then(|text| text.parse::<u64>().ok());
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |now| now.as_secs());
    match seconds {
        Some(seconds) if seconds.abs_diff(now) > 5 || matches!(text, "now" | "today") => {
            Ok(seconds)
        }
        _ => Err(ToolError::invalid_args(format!(
            "GitLog: `{key}` is no date that git understands: {text:?}. Write 2025-01-31, 2025-01-31 12:00, yesterday or \
             2 weeks ago."
        ))),
    }
}
