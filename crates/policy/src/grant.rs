//! Grants: calls that the owner has allowed once or for a while.

use serde::{Deserialize, Serialize};

use super::call::TouchedPath;
use super::command_line::may_exceed_words;
use super::rule::CallPart;
use super::word_match::begins_with_words;

/// A leave that ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyGrant {
    /// Its own id.
    pub id: String,
    /// Its purpose.
    #[serde(flatten)]
    pub target: GrantTarget,
    /// True if it is for one request only.
    pub once: bool,
    /// The time when it was given, in milliseconds since 1970.
    pub made_ms: i64,
    /// The time when it ends, in milliseconds since 1970.
    pub until_ms: i64,
}

/// The thing that a grant allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GrantTarget {
    /// Whatever this rule asks about or denies.
    Rule(String),
    /// Commands that begin with these words.
    Command(Vec<String>),
    /// The calls of this tool that no rule names.
    Tool(String),
    /// This file or folder, by its path from its workspace, or its whole path.
    Path(String),
}

impl PolicyGrant {
    /// Returns whether it is in force at this moment. One from the future was given by another clock, and is not.
    pub fn is_in_force(&self, now_ms: i64) -> bool {
        self.made_ms <= now_ms && now_ms < self.until_ms
    }

    pub(super) fn covers_part(&self, part: CallPart<'_>) -> bool {
        match (&self.target, part) {
            (GrantTarget::Command(words), CallPart::Command(simple, assigns)) => {
                let each: Vec<Vec<String>> = words.iter().map(|word| vec![word.clone()]).collect();
                !assigns
                    && begins_with_words(simple, &each)
                    && !may_exceed_words(simple, each.len())
            }
            (GrantTarget::Path(path), CallPart::Place(place)) => {
                place.known && is_at_path(place, path)
            }
            _ => false,
        }
    }
}

fn is_at_path(place: &TouchedPath, path: &str) -> bool {
    place.relative.first().is_some_and(|own| own == path)
        || place.absolute.first().is_some_and(|own| own == path)
}
