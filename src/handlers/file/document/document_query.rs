//! The requested part of a document.

use super::super::rendered_page::LineSelection;
use super::document_protocol::PageRange;
use super::pdf_answer::parse_page_ranges;
use punie_text::output::TextBudget;
use punie_tool::ToolError;

/// The part of a document to show.
#[derive(Debug, Clone)]
pub(in super::super) struct DocumentQuery {
    pub(super) lines: LineSelection,
    /// The offset and the limit as given in the call.
    pub(super) offset: Option<i64>,
    pub(super) limit: Option<u64>,
    pub(super) pages: Option<Vec<PageRange>>,
    /// The budget for an image, if the call gives one.
    pub(super) image_budget: Option<TextBudget>,
}

impl DocumentQuery {
    /// A query for these lines. `asked` are the offset and the limit as given in the call, and `has_budget` says that it
    /// gives a budget.
    ///
    /// # Errors
    /// `pages` is no list of pages.
    pub(in super::super) fn new(
        lines: LineSelection,
        asked: (Option<i64>, Option<u64>),
        pages: Option<&str>,
        has_budget: bool,
    ) -> Result<Self, ToolError> {
        Ok(Self {
            lines,
            offset: asked.0,
            limit: asked.1,
            pages: pages.map(parse_page_ranges).transpose()?,
            image_budget: has_budget.then_some(lines.budget),
        })
    }
}
