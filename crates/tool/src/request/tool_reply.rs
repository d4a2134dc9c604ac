//! The answer of a tool that succeeded.

use serde_json::Value;

use super::ResultMeta;
use punie_text::output::TextBudget;

/// The content of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyBody {
    /// Text for the model. Sealing clips it to the budget and stores the whole text under a handle.
    Text(String),
    /// Text that the tool has already clipped to its budget, with its own marker for omitted parts.
    Fitted(String),
    /// A JSON value, if the tool's description announces one.
    Json(Value),
}

/// A tool's answer with facts about it.
#[derive(Debug, Clone)]
pub struct ToolReply {
    /// The content.
    pub body: ReplyBody,
    /// The facts about the answer.
    pub meta: ResultMeta,
    /// The amount of text that the call asked for.
    pub budget: TextBudget,
}

impl ToolReply {
    /// Creates a text answer; sealing clips it to the default budget.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self {
            body: ReplyBody::Text(text.into()),
            meta: ResultMeta::default(),
            budget: TextBudget::default(),
        }
    }

    /// Creates a text answer that is already within its budget.
    pub fn from_fitted_text(text: impl Into<String>) -> Self {
        Self {
            body: ReplyBody::Fitted(text.into()),
            meta: ResultMeta::default(),
            budget: TextBudget::default(),
        }
    }

    /// Returns the answer with these facts.
    #[must_use]
    pub fn with_meta(mut self, meta: ResultMeta) -> Self {
        self.meta = meta;
        self
    }

    /// Returns the answer with this budget.
    #[must_use]
    pub fn with_budget(mut self, budget: TextBudget) -> Self {
        self.budget = budget;
        self
    }
}

impl From<String> for ToolReply {
    fn from(text: String) -> Self {
        Self::from_text(text)
    }
}

impl From<Value> for ToolReply {
    fn from(value: Value) -> Self {
        Self {
            body: ReplyBody::Json(value),
            meta: ResultMeta::default(),
            budget: TextBudget::default(),
        }
    }
}
