//! What a person is asked before a call runs, and what is made of the answer. Decided by the kind of the option that
//! was chosen, never by its place or its id's looks; whatever is unclear is a no. Not here: how far a yes for the whole
//! session reaches (scope).

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use super::scope::Scope;
use crate::acp::protocol::{
    PermissionOption, PermissionOptionId, PermissionOptionKind, RequestPermissionOutcome,
};
use crate::tool::AllowedCalls;

/// What was allowed in a session.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    /// For the whole of it.
    scopes: Mutex<HashSet<Scope>>,
    /// Single calls.
    pub(super) calls: AllowedCalls,
}

impl Remembered {
    pub(super) fn holds(&self, scope: &Scope) -> bool {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner).contains(scope)
    }

    pub(super) fn add(&self, scope: Scope) {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner).insert(scope);
    }

    pub(super) fn clear(&self) -> usize {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *scopes).len()
    }
}

/// What may be chosen.
pub(super) fn options(scope: &Scope) -> Vec<PermissionOption> {
    use PermissionOptionKind::{AllowAlways, AllowOnce, RejectOnce};
    let option = |id: &str, name: String, kind| {
        PermissionOption::new(PermissionOptionId::from(id.to_owned()), name, kind)
    };
    vec![
        option("allow_once", "Allow".to_owned(), AllowOnce),
        option("allow_always", scope.name(), AllowAlways),
        option("reject_once", "Reject".to_owned(), RejectOnce),
    ]
}

/// What was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// Yes, to this call.
    Once,
    /// Yes, to all of this kind in the session.
    Always,
    /// No.
    No,
    /// The question was put away without an answer.
    Dismissed,
    /// An answer that is none of what was offered.
    Unclear,
}

/// What an outcome says, by the kind of what was chosen from what was offered.
pub(super) fn said(outcome: &RequestPermissionOutcome, offered: &[PermissionOption]) -> Said {
    let chosen = match outcome {
        RequestPermissionOutcome::Selected(chosen) => &chosen.option_id,
        RequestPermissionOutcome::Cancelled => return Said::Dismissed,
        _ => return Said::Unclear,
    };
    match offered.iter().find(|option| option.option_id == *chosen).map(|option| &option.kind) {
        Some(PermissionOptionKind::AllowOnce) => Said::Once,
        Some(PermissionOptionKind::AllowAlways) => Said::Always,
        Some(PermissionOptionKind::RejectOnce | PermissionOptionKind::RejectAlways) => Said::No,
        _ => Said::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::protocol::SelectedPermissionOutcome;

    #[test]
    fn only_the_kind_of_an_offered_option_is_a_yes() {
        let offered = options(&Scope::same_call("Write", &serde_json::json!({})));
        let chosen = |id: &str| {
            let outcome = SelectedPermissionOutcome::new(PermissionOptionId::from(id.to_owned()));
            said(&RequestPermissionOutcome::Selected(outcome), &offered)
        };
        assert_eq!(chosen("allow_once"), Said::Once);
        assert_eq!(chosen("allow_always"), Said::Always);
        assert_eq!(chosen("reject_once"), Said::No);
        for unclear in ["", "allow", "ALLOW_ONCE", "reject_always", "0"] {
            assert_eq!(chosen(unclear), Said::Unclear, "{unclear:?}");
        }
        assert_eq!(said(&RequestPermissionOutcome::Cancelled, &offered), Said::Dismissed);
        // An option that was renamed counts by its kind.
        let id = PermissionOptionId::from("allow_once".to_owned());
        let odd = [PermissionOption::new(id.clone(), "Yes", PermissionOptionKind::RejectOnce)];
        let outcome = SelectedPermissionOutcome::new(id);
        assert_eq!(said(&RequestPermissionOutcome::Selected(outcome), &odd), Said::No);
    }
}
