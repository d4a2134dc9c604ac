//! The owner's rules: which calls may run, which a person is asked about, which are refused. Pure: it reads rules and
//! command lines and gives verdicts. Not here: where the rules lie (home), what a call touches and who applies the
//! verdict (acp::permission), who is asked (runner).

mod call;
pub mod command_line;
mod examples;
mod file;
mod grant;
mod judge;
mod rule;
#[cfg(test)]
mod tests;
mod verdict;

pub use call::{Call, Place};
pub use file::{Broken, NewRule, Rules};
pub use grant::{Grant, Target};
pub use judge::judge;
pub use rule::Rule;
pub use verdict::{About, By, Verdict};

use serde::{Deserialize, Serialize};

/// The decision about a call; the later, the stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It runs.
    Allow,
    /// A person is asked; no answer means no.
    Ask,
    /// It does not run.
    Deny,
}

impl Decision {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}
