//! The three decisions of the policy, in the order of their strictness.

use serde::{Deserialize, Serialize};

/// The decision about a call; the later, the stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyDecision {
    /// It runs.
    Allow,
    /// A person is asked; no answer means no.
    Ask,
    /// It does not run.
    Deny,
}

impl PolicyDecision {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}
