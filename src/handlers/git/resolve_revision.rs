//! Resolves revisions to commit ids.

use super::display_text::escape_line;
use super::git_command::GitOutput;
use super::repository::GitRepository;
use punie_tool::ToolError;

/// The characters shown of a commit id.
const SHORT_ID_CHARS: usize = 10;
/// More than any branch name needs.
const MAX_CHARS: usize = 300;

/// Shortens a commit id for an answer.
pub(super) fn short_id(id: &str) -> &str {
    id.get(..SHORT_ID_CHARS).unwrap_or(id)
}

/// Rejects a value that git could read as an option, or with characters that no valid value has.
pub(super) fn check_plain_value<'a>(key: &str, text: &'a str) -> Result<&'a str, ToolError> {
    let text = text.trim();
    let why = if text.is_empty() {
        "is empty".to_owned()
    } else if text.starts_with('-') {
        "begins with `-`, and options are not passed on".to_owned()
    } else if text
        .chars()
        .any(punie_text::output::path_text::is_invisible)
    {
        "holds characters that nobody sees".to_owned()
    } else if text.chars().count() > MAX_CHARS {
        format!("is longer than {MAX_CHARS} characters")
    } else {
        return Ok(text);
    };
    Err(ToolError::invalid_args(format!(
        "`{key}` {why}: {:?}. Give it plainly, or leave it out.",
        escape_line(text)
    )))
}

impl GitRepository {
    /// Resolves a revision to a commit id, and a tag to its commit.
    pub(super) async fn resolve_commit(&self, key: &str, text: &str) -> Result<String, ToolError> {
        let text = check_plain_value(key, text)?;
        match self.look_up_commit(text).await? {
            Some(id) => Ok(id),
            None => Err(self.unknown_revision_error(key, text).await?),
        }
    }

    /// Returns the id of the last commit, or `None` before the first.
    pub(super) async fn resolve_head(&self) -> Result<Option<String>, ToolError> {
        self.look_up_commit("HEAD").await
    }

    async fn look_up_commit(&self, text: &str) -> Result<Option<String>, ToolError> {
        let peeled = format!("{text}^{{commit}}");
        let answer = self
            .git
            .run(&[
                "rev-parse",
                "--verify",
                "--quiet",
                "--end-of-options",
                &peeled,
            ])
            .await?;
        let id = answer.first_output_line();
        let is_id = id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        Ok((answer.exit_code == Some(0) && is_id).then_some(id))
    }

    /// Resolves both sides of `a..b` or `a...b` to ids and keeps the dots. Resolves a single revision to one id.
    pub(super) async fn resolve_range(&self, key: &str, text: &str) -> Result<String, ToolError> {
        let text = check_plain_value(key, text)?;
        let dots = if text.contains("...") { "..." } else { ".." };
        let Some((from, to)) = text.split_once(dots) else {
            return self.resolve_commit(key, text).await;
        };
        let mut ids = Vec::new();
        for side in [from, to] {
            let name = if side.is_empty() { "HEAD" } else { side };
            ids.push(self.resolve_commit(key, name).await?);
        }
        Ok(ids.join(dots))
    }

    async fn unknown_revision_error(&self, key: &str, text: &str) -> Result<ToolError, ToolError> {
        let shown = escape_line(text);
        if self.resolve_head().await?.is_none() {
            return Ok(ToolError::not_found(format!(
                "`{key}`: there is no commit {shown:?}: the branch that is checked out has no commits yet."
            )));
        }
        let list = [
            "for-each-ref",
            "--count=2000",
            "--sort=-committerdate",
            "--format=%(refname:short)",
        ];
        let near = suggest_names(text, &self.git.run(&list).await?);
        Ok(ToolError::not_found(format!(
            "`{key}`: there is no single commit called {shown:?} in this repository.{near} GitLog lists commits; an id may \
             be shortened as long as it stands for one commit only."
        )))
    }
}

fn suggest_names(asked: &str, known: &GitOutput) -> String {
    let text = known.stdout_text();
    let score = |name: &str| strsim::jaro_winkler(&asked.to_lowercase(), &name.to_lowercase());
    let mut scored: Vec<(f64, &str)> = text.lines().map(|name| (score(name), name)).collect();
    scored.retain(|(score, _)| *score > 0.8);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let near: Vec<String> = scored
        .into_iter()
        .take(3)
        .map(|(_, name)| escape_line(name))
        .collect();
    if near.is_empty() {
        String::new()
    } else {
        format!(" Did you mean {}?", near.join(" or "))
    }
}
