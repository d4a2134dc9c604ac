//! The description of one commit: its author, parents and message.

use std::fmt::Write as _;

use super::display_text::{escape_block, escape_line};
use super::repository::GitRepository;
use super::resolve_revision::short_id;
use punie_text::output::TextBudget;
use punie_text::output::text_budget::clip_to_budget;
use punie_tool::ToolError;

/// The characters shown of a commit message.
const MAX_MESSAGE_CHARS: u64 = 4_000;

/// The description of a commit without its changes.
pub(super) struct CommitDetails {
    pub(super) parents: Vec<String>,
    author: String,
    committer: String,
    refs: String,
    message: String,
}

impl CommitDetails {
    /// Reads the description of a commit.
    pub(super) async fn load(repository: &GitRepository, id: &str) -> Result<Self, ToolError> {
        let format = "--format=%P%x00%an <%ae>, %ad%x00%cn <%ce>, %cd%x00%D%x00%B";
        let date = "--date=format:%Y-%m-%d %H:%M %z";
        let arguments = [
            "log",
            "-z",
            "--max-count=1",
            "--no-color",
            format,
            date,
            "--end-of-options",
            id,
            "--",
        ];
        let text = repository.git.run_checked(&arguments).await?.stdout_text();
        let fields: Vec<&str> = text.split('\0').collect();
        let field = |at: usize| fields.get(at).copied().unwrap_or_default();
        Ok(Self {
            parents: field(0).split_whitespace().map(str::to_owned).collect(),
            author: escape_line(field(1)),
            committer: escape_line(field(2)),
            refs: escape_line(field(3)),
            // Masked now, because the message is cut later.
            message: escape_block(
                &repository
                    .git
                    .cx
                    .secret_boundaries
                    .mask_text(field(4).trim()),
            ),
        })
    }

    /// Formats the description as the title of the changes.
    pub(super) fn render_header(&self, id: &str) -> String {
        let mut text = format!("commit {id}");
        if !self.refs.is_empty() {
            let _ = write!(text, " ({})", self.refs);
        }
        let _ = write!(text, "\nAuthor: {}", self.author);
        if self.committer != self.author {
            let _ = write!(text, "\nCommitter: {}", self.committer);
        }
        let parents: Vec<&str> = self.parents.iter().map(|parent| short_id(parent)).collect();
        let _ = match parents.as_slice() {
            [] => write!(text, "\nThe first commit: it has no parent."),
            [one] => write!(text, "\nParent: {one}"),
            [first, ..] => write!(
                text,
                "\nMerge of {}; changes against {first}.",
                parents.join(", ")
            ),
        };
        let budget = TextBudget::from_requested(Some(MAX_MESSAGE_CHARS));
        let message = clip_to_budget(&self.message, budget, None).text;
        let indented: Vec<String> = message.lines().map(|line| format!("    {line}")).collect();
        let _ = write!(text, "\n\n{}\n\nChanges", indented.join("\n"));
        text
    }
}
