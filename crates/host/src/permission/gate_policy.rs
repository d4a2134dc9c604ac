//! The owner's rules with the context to check a call against them: the verdict on a call, and the grants that it uses.

use std::borrow::Cow;
use std::sync::Arc;

use super::access;
use crate::Workspace;
use crate::active_rules::ActiveRules;
use crate::local::local_terminals::LocalTerminals;
use punie_core::failpoint::reach_of;
use punie_core::ids::RequestId;
use punie_policy::{
    AddedPolicyRule, GrantTarget, PolicyCall, PolicyDecision, PolicyGrant, PolicyVerdict,
    judge_call,
};
use punie_tool::{DeclaredAccess, ErrorCode, ToolEffect, ToolError, ToolSpec};

/// The owner's rules, with the context to check a call against them.
pub struct GatePolicy {
    /// The rules in force.
    pub active_rules: Arc<ActiveRules>,
    /// The workspace folders.
    pub workspace: Workspace,
    /// The terminals in which commands run.
    pub terminals: LocalTerminals,
}

/// A call that is held against the rules.
#[derive(Clone, Copy)]
pub(super) struct JudgedCall<'a> {
    pub tool: &'a ToolSpec,
    pub effect: ToolEffect,
    pub access: &'a DeclaredAccess,
    /// The workspace that its paths are resolved in.
    pub workspace: &'a Workspace,
}

impl GatePolicy {
    /// Returns the verdict on a call, and the call as it was judged. A verdict for a request uses up its grants.
    pub(super) fn judge_call(
        &self,
        judged: &JudgedCall<'_>,
        asks: bool,
        request: Option<&RequestId>,
    ) -> Result<(PolicyVerdict, PolicyCall), ToolError> {
        let JudgedCall {
            tool,
            effect,
            access,
            workspace,
        } = *judged;
        let current = self.active_rules.current_rules();
        if let Some(broken) = &current.broken
            && effect != ToolEffect::Reads
            && !tool.only_ends
        {
            return Err(broken_rules_error(tool, broken));
        }
        let call = access::describe_for_policy(workspace, tool, effect, access)?;
        let (rules, asks) = match access.owner_question {
            Some(_) => (
                Cow::Owned(current.rules.without_blanket_allows(&tool.name)),
                true,
            ),
            None => (Cow::Borrowed(&*current.rules), asks),
        };
        let verdict = judge_call(&rules, asks, &call, &[]);
        if verdict.decision == PolicyDecision::Allow {
            return Ok((verdict, call));
        }
        let mut grants = self.active_rules.grants_for(request);
        if access.owner_question.is_some() {
            grants.retain(|grant| matches!(grant.target, GrantTarget::Tool(_)));
        }
        loop {
            let with = judge_with_fewest_grants(&mut grants, |grants| {
                judge_call(&rules, asks, &call, grants)
            });
            // A call that does not run uses up no grant.
            let Some(request) = request.filter(|_| with.decision < PolicyDecision::Deny) else {
                return Ok((with, call));
            };
            match with
                .grants
                .iter()
                .find(|id| !self.active_rules.use_up_grant(&grants, id, request))
            {
                None => {
                    reach_of("grant.used", request.as_str());
                    return Ok((with, call));
                }
                // Another request used the grant first.
                Some(lost) => grants.retain(|grant| grant.id != *lost),
            }
        }
    }
}

impl GatePolicy {
    /// Returns the words of a call that runs one plain command, if a rule that allows commands beginning with them would
    /// allow the call.
    pub(super) fn allowable_command(&self, asks: bool, call: &PolicyCall) -> Option<Vec<String>> {
        let [command] = call.script.as_ref()?.commands.as_slice() else {
            return None;
        };
        let is_plain =
            !command.words.is_empty() && command.words.iter().all(|word| word.is_literal);
        let words: Vec<String> = command.words.iter().map(|word| word.text.clone()).collect();
        let rule = AddedPolicyRule {
            command: words.clone(),
            ..AddedPolicyRule::default()
        };
        (is_plain && self.active_rules.would_allow(&rule, asks, call)).then_some(words)
    }
}

/// Returns the verdict with the fewest grants that lead to it, so that a call uses no grant that it does not need.
fn judge_with_fewest_grants(
    grants: &mut Vec<PolicyGrant>,
    judged: impl Fn(&[PolicyGrant]) -> PolicyVerdict,
) -> PolicyVerdict {
    let mut with = judged(grants);
    for id in with.grants.clone() {
        let fewer: Vec<PolicyGrant> = grants
            .iter()
            .filter(|grant| grant.id != id)
            .cloned()
            .collect();
        let again = judged(&fewer);
        if again.decision == with.decision && again.about == with.about {
            (*grants, with) = (fewer, again);
        }
    }
    with
}

fn broken_rules_error(tool: &ToolSpec, broken: &str) -> ToolError {
    ToolError::new(
        ErrorCode::PolicyDenied,
        format!(
            "{} was not run: the owner's rules cannot be read ({broken}), and until they can, nothing that changes \
             anything begins. Ask the owner to mend the file; `punie-runner policy show` on the device says whether \
             it is good. Reading tools work by the rules as they were.",
            tool.name
        ),
    )
}
