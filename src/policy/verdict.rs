//! The decision of the policy on a call, with a reason that a model or an owner can act on.

use serde::Serialize;

use super::Decision;

/// The policy's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The decision.
    pub decision: Decision,
    /// The source of the decision.
    pub by: By,
    /// The words of the call that it is about; empty where it is about the tool as such.
    pub matched: String,
    /// The command or file that they stand in, where that is more.
    pub inside: Option<String>,
    /// The reason, as the owner or the runner words it.
    pub reason: Option<String>,
    /// The command by which the owner lets it run; `None` if it runs.
    pub change: Option<String>,
    /// The grants that this rests on, by their ids.
    pub grants: Vec<String>,
    /// Everything that stands against the call, in order and each once; nothing where it runs.
    pub about: Vec<About>,
}

/// One thing that stands against a call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// `rule NAME`, `perhaps NAME`, `default` or `policy.ask`.
    pub by: String,
    /// The part of the call, in full; empty where it is about whatever the rule or the list names.
    pub part: String,
}

/// The source of the decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum By {
    /// A rule of policy.toml, by its name.
    Rule(String),
    /// A rule that may be meant, where this cannot be told before the call runs.
    Perhaps(String),
    /// `default` of policy.toml.
    Default,
    /// `ask` of the configuration's `[policy]`.
    Ask,
    /// A grant of the owner.
    Grant,
    /// There is nothing against it.
    Nothing,
}

impl Verdict {
    /// That it may run, for this reason.
    pub(super) fn allowed(by: By, matched: String, grants: Vec<String>) -> Self {
        Self {
            decision: Decision::Allow,
            by,
            matched,
            inside: None,
            reason: None,
            change: None,
            grants,
            about: Vec::new(),
        }
    }

    /// The name of what says so, without any of the call's words.
    pub fn rule(&self) -> Option<&str> {
        match &self.by {
            By::Rule(name) | By::Perhaps(name) => Some(name),
            By::Default => Some("default"),
            By::Ask => Some("policy.ask"),
            By::Grant => Some("grant"),
            By::Nothing => None,
        }
    }

    /// Describes the source and the words of the call, as a part of a sentence.
    pub fn cause(&self) -> String {
        let about = match (self.matched.as_str(), self.decision) {
            ("", _) => String::new(),
            (words, Decision::Ask) => format!(" about `{words}`"),
            (words, _) => format!(" `{words}`"),
        };
        let inside = self.inside.as_ref().map_or_else(String::new, |inside| format!(" in `{inside}`"));
        let about = format!("{about}{inside}");
        let verb = match self.decision {
            Decision::Allow => "allows",
            Decision::Ask => "asks",
            Decision::Deny => "denies",
        };
        let why = self.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
        match &self.by {
            By::Rule(name) => format!("the owner's rule {name:?} {verb}{about}{why}"),
            By::Perhaps(name) => {
                format!(
                    "it cannot be told whether the owner's rule {name:?} is meant for `{}`{why}",
                    self.matched
                )
            }
            By::Default => {
                let why = self.reason.as_deref().unwrap_or("no rule of the owner's names it");
                format!("{why}, and the policy's default {verb}{about}")
            }
            By::Ask => format!("`ask` of the owner's configuration {verb}{about}"),
            By::Grant => format!("a grant of the owner's {verb}{about}"),
            By::Nothing => "nothing is against it".to_owned(),
        }
    }

    /// Describes how to let it run, as a sentence for the denied caller.
    pub fn way_out(&self) -> String {
        let plainly = match &self.by {
            By::Perhaps(_) => "Write the command out in plain words, or ask the owner to run",
            _ => "Do without it, or ask the owner to run",
        };
        match &self.change {
            Some(change) => format!("{plainly} `{change}` on the device; then ask again."),
            None => String::new(),
        }
    }
}
