//! The decision of the policy on a call, with a reason that a model or an owner can act on.

use serde::Serialize;

use super::decision::PolicyDecision;

/// The policy's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyVerdict {
    /// The decision.
    pub decision: PolicyDecision,
    /// The source of the decision.
    pub by: VerdictSource,
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
    pub about: Vec<PolicyObjection>,
}

/// One thing that stands against a call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyObjection {
    /// `rule NAME`, `perhaps NAME`, `default` or `policy.ask`.
    pub by: String,
    /// The part of the call, in full; empty where it is about whatever the rule or the list names.
    pub part: String,
}

/// The source of the decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum VerdictSource {
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

impl PolicyVerdict {
    /// That it may run, for this reason.
    pub(super) fn allow_because(by: VerdictSource, matched: String, grants: Vec<String>) -> Self {
        Self {
            decision: PolicyDecision::Allow,
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
    pub fn rule_name(&self) -> Option<&str> {
        match &self.by {
            VerdictSource::Rule(name) | VerdictSource::Perhaps(name) => Some(name),
            VerdictSource::Default => Some("default"),
            VerdictSource::Ask => Some("policy.ask"),
            VerdictSource::Grant => Some("grant"),
            VerdictSource::Nothing => None,
        }
    }

    /// Describes the source and the words of the call, as a part of a sentence.
    pub fn explain_cause(&self) -> String {
        let about = match (self.matched.as_str(), self.decision) {
            ("", _) => String::new(),
            (words, PolicyDecision::Ask) => format!(" about `{words}`"),
            (words, _) => format!(" `{words}`"),
        };
        let inside = self
            .inside
            .as_ref()
            .map_or_else(String::new, |inside| format!(" in `{inside}`"));
        let about = format!("{about}{inside}");
        let verb = match self.decision {
            PolicyDecision::Allow => "allows",
            PolicyDecision::Ask => "asks",
            PolicyDecision::Deny => "denies",
        };
        let why = self
            .reason
            .as_ref()
            .map_or_else(String::new, |reason| format!(" ({reason})"));
        match &self.by {
            VerdictSource::Rule(name) => format!("the owner's rule {name:?} {verb}{about}{why}"),
            VerdictSource::Perhaps(name) => {
                format!(
                    "it cannot be told whether the owner's rule {name:?} is meant for `{}`{why}",
                    self.matched
                )
            }
            VerdictSource::Default => {
                let why = self
                    .reason
                    .as_deref()
                    .unwrap_or("no rule of the owner's names it");
                format!("{why}, and the policy's default {verb}{about}")
            }
            VerdictSource::Ask => format!("`ask` of the owner's configuration {verb}{about}"),
            VerdictSource::Grant => format!("a grant of the owner's {verb}{about}"),
            VerdictSource::Nothing => "nothing is against it".to_owned(),
        }
    }

    /// Describes how to let it run, as a sentence for the denied caller.
    pub fn suggest_remedy(&self) -> String {
        let plainly = match &self.by {
            VerdictSource::Perhaps(_) => {
                "Write the command out in plain words, or ask the owner to run"
            }
            _ => "Do without it, or ask the owner to run",
        };
        match &self.change {
            Some(change) => format!("{plainly} `{change}` on the device; then ask again."),
            None => String::new(),
        }
    }
}
