//! The requested part of a document.

use super::super::rendered_page::LineSelection;
use super::document_protocol::PageRange;
use punie_text::output::TextBudget;

/// The part of a document to show.
#[derive(Debug, Clone)]
pub(in super::super) struct DocumentQuery {
    pub(in super::super) lines: LineSelection,
    /// The offset and the limit as given in the call.
    pub(in super::super) offset: Option<i64>,
    pub(in super::super) limit: Option<u64>,
    pub(in super::super) pages: Option<Vec<PageRange>>,
    /// The budget for an image, if the call gives one.
    pub(in super::super) image_budget: Option<TextBudget>,
}
