//! The changes that a patch proposes, as a person is shown them before it is applied.

use super::{Action, Hunk, Line, Section};
use crate::tool::{ProposedChange, ProposedContent, Replacement};

impl Section {
    /// The change to this file's text; `None` where the patch does more than that (a mode) or where the name is unclear.
    pub(in crate::handlers::file) fn proposed_change(&self) -> Option<ProposedChange> {
        let (content, moved_to) = match &self.action {
            Action::Add { content, executable: None } => (ProposedContent::Whole(content.clone()), None),
            Action::Delete { .. } => (ProposedContent::Deleted, None),
            Action::Update { hunks, move_to, executable: None } => {
                let replacements = hunks.iter().map(Hunk::replacement).collect();
                (ProposedContent::Replaced(replacements), move_to.clone())
            }
            Action::Add { .. } | Action::Update { .. } => return None,
        };
        Some(ProposedChange { path: self.names.first()?.clone(), moved_to, content })
    }
}

impl Hunk {
    fn replacement(&self) -> Replacement {
        let text = |lines: Vec<&Line>| {
            lines.iter().flat_map(|line| [line.text.as_str(), if line.newline { "\n" } else { "" }]).collect()
        };
        Replacement { old: text(self.before()), new: text(self.after()), everywhere: false }
    }
}
