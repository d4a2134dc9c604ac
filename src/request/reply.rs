//! The answer of a tool that succeeded.

use serde_json::Value;

use super::Meta;
use crate::output::Budget;

/// The content of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Text for the model. Sealing clips it to the budget and stores the whole text under a handle.
    Text(String),
    /// Text that the tool has already clipped to its budget, with its own marker for omitted parts.
    Fitted(String),
    /// A JSON value, if the tool's description announces one.
    Json(Value),
}

/// A tool's answer with facts about it.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The content.
    pub body: Body,
    /// The facts about the answer.
    pub meta: Meta,
    /// The amount of text that the call asked for.
    pub budget: Budget,
}

impl Reply {
    /// Creates a text answer; sealing clips it to the default budget.
    pub fn text(text: impl Into<String>) -> Self {
        Self { body: Body::Text(text.into()), meta: Meta::default(), budget: Budget::default() }
    }

    /// Creates a text answer that is already within its budget.
    pub fn fitted(text: impl Into<String>) -> Self {
        Self { body: Body::Fitted(text.into()), meta: Meta::default(), budget: Budget::default() }
    }

    /// Returns the answer with these facts.
    #[must_use]
    pub fn with_meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }

    /// Returns the answer with this budget.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<Value> for Reply {
    fn from(value: Value) -> Self {
        Self { body: Body::Json(value), meta: Meta::default(), budget: Budget::default() }
    }
}
