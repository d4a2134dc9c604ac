//! The owner's rules: which calls may run, which a person is asked about, which are refused. Pure: it reads rules and
//! command lines and gives verdicts. Not here: where the rules lie (home), what a call touches and who applies the
//! verdict (acp::permission_prompt), who is asked (runner).

mod call;
pub mod command_line;
mod grant;
mod judge;
mod policy_file;
mod rule;
mod rule_examples;
#[cfg(test)]
mod tests;
mod verdict;

pub use call::{PolicyCall, TouchedPath};
pub use grant::{GrantTarget, PolicyGrant};
pub use judge::judge_call;
pub use policy_file::{AddedPolicyRule, PolicyFileError, PolicyRules};
pub use rule::PolicyRule;
pub use verdict::{PolicyObjection, PolicyVerdict, VerdictSource};

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
