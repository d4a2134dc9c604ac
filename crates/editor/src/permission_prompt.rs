//! The permission question in an editor and the meaning of its answer. The kind of the chosen option decides, never its
//! position or the form of its id. An unclear answer means no. Not here: the scope of a permission for the whole
//! session (permission_scope).

use std::collections::HashSet;

use parking_lot::Mutex;

use super::permission_scope::PermissionScope;
use crate::protocol::{
    PermissionOption, PermissionOptionId, PermissionOptionKind, RequestPermissionOutcome,
};
use punie_tool::AllowedCalls;

/// The permissions that were given in a session.
#[derive(Debug, Default)]
pub(super) struct SessionPermissions {
    /// Permissions for the whole session.
    pub(super) scopes: Mutex<HashSet<PermissionScope>>,
    /// Permissions for single calls.
    pub(super) calls: AllowedCalls,
}

/// Builds the options that are offered.
pub(super) fn build_permission_options(scope: &PermissionScope) -> Vec<PermissionOption> {
    use PermissionOptionKind::{AllowAlways, AllowOnce, RejectOnce};
    let option = |id: &str, name: String, kind| {
        PermissionOption::new(PermissionOptionId::from(id.to_owned()), name, kind)
    };
    vec![
        option("allow_once", "Allow".to_owned(), AllowOnce),
        option("allow_always", scope.option_label(), AllowAlways),
        option("reject_once", "Reject".to_owned(), RejectOnce),
    ]
}

/// The meaning of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PermissionReply {
    /// Allows this call.
    Once,
    /// Allows all calls of this scope in the session.
    Always,
    /// Rejects the call.
    No,
    /// The question was closed without an answer.
    Dismissed,
    /// The answer is none of the offered options.
    Unclear,
}

/// Interprets an outcome by the kind of the option that was chosen.
pub(super) fn interpret_outcome(
    outcome: &RequestPermissionOutcome,
    offered: &[PermissionOption],
) -> PermissionReply {
    let chosen = match outcome {
        RequestPermissionOutcome::Selected(chosen) => &chosen.option_id,
        RequestPermissionOutcome::Cancelled => return PermissionReply::Dismissed,
        _ => return PermissionReply::Unclear,
    };
    match offered
        .iter()
        .find(|option| option.option_id == *chosen)
        .map(|option| &option.kind)
    {
        Some(PermissionOptionKind::AllowOnce) => PermissionReply::Once,
        Some(PermissionOptionKind::AllowAlways) => PermissionReply::Always,
        Some(PermissionOptionKind::RejectOnce | PermissionOptionKind::RejectAlways) => {
            PermissionReply::No
        }
        _ => PermissionReply::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::SelectedPermissionOutcome;

    #[test]
    fn only_the_kind_of_an_offered_option_is_a_yes() {
        let offered = build_permission_options(&PermissionScope::exact_call(
            "Write",
            &serde_json::json!({}),
        ));
        let chosen = |id: &str| {
            let outcome = SelectedPermissionOutcome::new(PermissionOptionId::from(id.to_owned()));
            interpret_outcome(&RequestPermissionOutcome::Selected(outcome), &offered)
        };
        assert_eq!(chosen("allow_once"), PermissionReply::Once);
        assert_eq!(chosen("allow_always"), PermissionReply::Always);
        assert_eq!(chosen("reject_once"), PermissionReply::No);
        for unclear in ["", "allow", "ALLOW_ONCE", "reject_always", "0"] {
            assert_eq!(chosen(unclear), PermissionReply::Unclear, "{unclear:?}");
        }
        assert_eq!(
            interpret_outcome(&RequestPermissionOutcome::Cancelled, &offered),
            PermissionReply::Dismissed
        );
        // An option that was renamed counts by its kind.
        let id = PermissionOptionId::from("allow_once".to_owned());
        let odd = [PermissionOption::new(
            id.clone(),
            "Yes",
            PermissionOptionKind::RejectOnce,
        )];
        let outcome = SelectedPermissionOutcome::new(id);
        assert_eq!(
            interpret_outcome(&RequestPermissionOutcome::Selected(outcome), &odd),
            PermissionReply::No
        );
    }
}
