//! Resolves revisions to commit ids. Not here: showing the commits (GitLog, GitShow).

use super::command::Answer;
use super::names;
use super::repository::Repository;
use crate::tool::{ToolCx, ToolError};

/// The characters shown of a commit id.
const SHORT: usize = 10;
/// More than any branch name needs.
const MAX_CHARS: usize = 300;

/// Shortens a commit id for an answer.
pub(super) fn short(id: &str) -> &str {
    id.get(..SHORT).unwrap_or(id)
}

/// Rejects a value that git could read as an option, or with characters that no valid value has.
pub(super) fn plain<'a>(key: &str, text: &'a str) -> Result<&'a str, ToolError> {
    let text = text.trim();
    let why = if text.is_empty() {
        "is empty".to_owned()
    } else if text.starts_with('-') {
        "begins with `-`, and options are not passed on".to_owned()
    } else if text.chars().any(crate::output::path_text::is_unseen) {
        "holds characters that nobody sees".to_owned()
    } else if text.chars().count() > MAX_CHARS {
        format!("is longer than {MAX_CHARS} characters")
    } else {
        return Ok(text);
    };
    Err(ToolError::invalid_args(format!(
        "`{key}` {why}: {:?}. Give it plainly, or leave it out.",
        names::line(text)
    )))
}

impl Repository {
    /// Resolves a revision to a commit id, and a tag to its commit.
    pub(super) async fn commit(&self, cx: &ToolCx, key: &str, text: &str) -> Result<String, ToolError> {
        let text = plain(key, text)?;
        match self.id(cx, text).await? {
            Some(id) => Ok(id),
            None => Err(self.unknown(cx, key, text).await?),
        }
    }

    /// Returns the id of the last commit, or `None` before the first.
    pub(super) async fn head(&self, cx: &ToolCx) -> Result<Option<String>, ToolError> {
        self.id(cx, "HEAD").await
    }

    async fn id(&self, cx: &ToolCx, text: &str) -> Result<Option<String>, ToolError> {
        let peeled = format!("{text}^{{commit}}");
        let answer =
            self.git.run(cx, &["rev-parse", "--verify", "--quiet", "--end-of-options", &peeled]).await?;
        let id = answer.line();
        let is_id = id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        Ok((answer.exit_code == Some(0) && is_id).then_some(id))
    }

    /// Resolves both sides of `a..b` or `a...b` to ids and keeps the dots. Resolves a single revision to one id.
    pub(super) async fn range(&self, cx: &ToolCx, key: &str, text: &str) -> Result<String, ToolError> {
        let text = plain(key, text)?;
        let dots = if text.contains("...") { "..." } else { ".." };
        let Some((from, to)) = text.split_once(dots) else { return self.commit(cx, key, text).await };
        let side = |name: &str| if name.is_empty() { "HEAD".to_owned() } else { name.to_owned() };
        let from = self.commit(cx, key, &side(from)).await?;
        let to = self.commit(cx, key, &side(to)).await?;
        Ok(format!("{from}{dots}{to}"))
    }

    async fn unknown(&self, cx: &ToolCx, key: &str, text: &str) -> Result<ToolError, ToolError> {
        let shown = names::line(text);
        if self.head(cx).await?.is_none() {
            return Ok(ToolError::not_found(format!(
                "`{key}`: there is no commit {shown:?}: the branch that is checked out has no commits yet."
            )));
        }
        let list = ["for-each-ref", "--count=2000", "--sort=-committerdate", "--format=%(refname:short)"];
        let near = near(text, &self.git.run(cx, &list).await?);
        Ok(ToolError::not_found(format!(
            "`{key}`: there is no single commit called {shown:?} in this repository.{near} GitLog lists commits; an id may \
             be shortened as long as it stands for one commit only."
        )))
    }
}

fn near(asked: &str, known: &Answer) -> String {
    let text = known.text();
    let score = |name: &str| strsim::jaro_winkler(&asked.to_lowercase(), &name.to_lowercase());
    let mut scored: Vec<(f64, &str)> = text.lines().map(|name| (score(name), name)).collect();
    scored.retain(|(score, _)| *score > 0.8);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let near: Vec<String> = scored.into_iter().take(3).map(|(_, name)| names::line(name)).collect();
    if near.is_empty() { String::new() } else { format!(" Did you mean {}?", near.join(" or ")) }
}
