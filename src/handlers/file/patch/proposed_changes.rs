//! The changes that a patch proposes, as shown to the user before it is applied.

use super::{Hunk, LineKind, PatchFileSection, SectionAction};
use punie_tool::{ProposedChange, ProposedContent, TextReplacement};

impl PatchFileSection {
    /// The change of this file's text; `None` if the patch also changes something else (a mode) or
    /// the name is unclear.
    pub(in crate::file) fn proposed_change(&self) -> Option<ProposedChange> {
        let (content, moved_to) = match &self.action {
            SectionAction::Add {
                content,
                executable: None,
            } => (ProposedContent::Whole(content.clone()), None),
            SectionAction::Delete { .. } => (ProposedContent::Deleted, None),
            SectionAction::Update {
                hunks,
                move_to,
                executable: None,
            } => {
                let replacements = hunks.iter().map(Hunk::proposed_replacement).collect();
                (ProposedContent::Replaced(replacements), move_to.clone())
            }
            SectionAction::Add { .. } | SectionAction::Update { .. } => return None,
        };
        Some(ProposedChange {
            path: self.names.first()?.clone(),
            moved_to,
            content,
        })
    }
}

impl Hunk {
    fn proposed_replacement(&self) -> TextReplacement {
        let text = |left_out: LineKind| {
            let lines = self.lines.iter().filter(|line| line.kind != left_out);
            lines.map(|line| line.text.as_str()).collect()
        };
        TextReplacement {
            old: text(LineKind::Added),
            new: text(LineKind::Removed),
            everywhere: false,
        }
    }
}
