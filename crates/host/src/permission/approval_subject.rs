//! The reason for a question about a call, and the topic to which an answer for the conversation applies.

use sha2::{Digest as _, Sha256};

use punie_core::ids::to_hex;
use punie_policy::{PolicyCall, PolicyVerdict, VerdictSource};
use punie_tool::{ToolEffect, ToolSpec};

/// Returns the reason for which a person is asked, if there is more to say than that the owner's list asks.
pub(super) fn question_reason(verdict: &PolicyVerdict) -> Option<String> {
    let others = verdict.about.len().saturating_sub(1);
    match (&verdict.by, others) {
        (VerdictSource::Ask, 0) => None,
        (_, 0) => Some(verdict.explain_cause()),
        _ => {
            let each = verdict.about.iter().map(|about| match about.part.as_str() {
                "" => about.by.clone(),
                part => format!("{}: {part}", about.by),
            });
            Some(format!(
                "{}; all that is asked about: {}",
                verdict.explain_cause(),
                each.collect::<Vec<_>>().join(" | ")
            ))
        }
    }
}

/// Identifies the subject of an approval for the rest of the conversation: exactly the reasons against the call. `None`
/// if only the configuration's list asks, which is about the tool.
pub(super) fn approval_topic(
    verdict: &PolicyVerdict,
    call: &PolicyCall,
    tool: &ToolSpec,
    effect: ToolEffect,
    args: &str,
) -> Option<String> {
    if verdict.about.iter().all(|about| about.by == "policy.ask") {
        return None;
    }
    let mut digest = Sha256::new();
    digest.update(format!("{effect:?}"));
    let mut add = |text: &str| {
        digest.update(text.len().to_le_bytes());
        digest.update(text);
    };
    for about in &verdict.about {
        add(&about.by);
        add(&about.part);
    }
    // A part of a command line that no rule names is identified by the whole arguments: folder, variables and texts.
    if call.script.is_some() && verdict.about.iter().any(|about| !about.part.is_empty()) {
        let mut whole = tool.canonical_args(args).unwrap_or_default();
        if let Some(map) = whole.as_object_mut() {
            map.remove("description");
        }
        add(&whole.to_string());
    }
    Some(to_hex(&digest.finalize()))
}
