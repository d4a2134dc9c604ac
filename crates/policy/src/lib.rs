//! The owner's rules: which calls may run, which a person is asked about, which are refused. Pure: it reads rules and
//! command lines and gives verdicts. Not here: where the rules lie (home), what a call touches and who applies the
//! verdict (host::permission), who is asked (runner).
//!
//! Read first: [`PolicyRules`], the rules of a home; [`PolicyCall`], a call as rules see it; [`PolicyVerdict`], what
//! [`judge_call`] makes of both.
//!
//! `punie-host` and the program use this crate. It uses `punie-core` alone.

mod call;
pub mod command_line;
mod decision;
mod grant;
mod host;
mod judge;
mod policy_edit;
mod policy_file;
mod rule;
mod rule_examples;
#[cfg(test)]
mod tests;
mod verdict;
mod word_match;

pub use call::{PolicyCall, TouchedPath};
pub use decision::PolicyDecision;
pub use grant::{GrantTarget, PolicyGrant};
pub use host::{HostName, HostPattern, HostVerdict};
pub use judge::judge_call;
pub use policy_edit::AddedPolicyRule;
pub use policy_file::{PolicyFileError, PolicyRules};
pub use rule::PolicyRule;
pub use verdict::{PolicyObjection, PolicyVerdict, VerdictSource};
