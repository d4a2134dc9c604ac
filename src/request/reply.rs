//! What a tool hands back when it worked.

use serde_json::Value;

use super::Meta;
use crate::output::Budget;

/// The answer itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Text for the model; sealing clips it to the budget and keeps the whole behind a handle.
    Text(String),
    /// Text that the tool has already brought within its budget, with its own marker for what is left out.
    Fitted(String),
    /// A JSON value, where the tool's description says so.
    Json(Value),
}

/// A tool's answer with the facts beside it.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The answer.
    pub body: Body,
    /// The facts.
    pub meta: Meta,
    /// How much text the call asked for.
    pub budget: Budget,
}

impl Reply {
    /// An answer in text, clipped to the default budget when it is sealed.
    pub fn text(text: impl Into<String>) -> Self {
        Self { body: Body::Text(text.into()), meta: Meta::default(), budget: Budget::default() }
    }

    /// An answer in text that is already within its budget.
    pub fn fitted(text: impl Into<String>) -> Self {
        Self { body: Body::Fitted(text.into()), meta: Meta::default(), budget: Budget::default() }
    }

    /// The same answer with these facts.
    #[must_use]
    pub fn with_meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }

    /// The same answer under this budget.
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
