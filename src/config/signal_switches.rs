//! The switches of user signals, by category. Not here: the owner's consent (home).

use super::choices::SignalSwitch;
use super::tables::Signals;

impl Signals {
    /// Returns the switch of the category with this name.
    pub fn find_switch(&self, category: &str) -> Option<SignalSwitch> {
        match category {
            "browsing_bookmarks" => Some(self.browsing_bookmarks),
            "dev_environment" => Some(self.dev_environment),
            "apps_system" => Some(self.apps_system),
            "messages_notes" => Some(self.messages_notes),
            _ => None,
        }
    }

    pub(super) fn switch_of_key(&self, key: &str) -> Option<SignalSwitch> {
        self.find_switch(key.strip_prefix("signals.")?)
    }

    /// Returns these settings with the switches that `before` did not have on as they were.
    pub(super) fn without_new_permission(&self, before: &Self) -> Self {
        let keep = |now, before| match now {
            SignalSwitch::On => before,
            narrower => narrower,
        };
        Self {
            browsing_bookmarks: keep(self.browsing_bookmarks, before.browsing_bookmarks),
            dev_environment: keep(self.dev_environment, before.dev_environment),
            apps_system: keep(self.apps_system, before.apps_system),
            messages_notes: keep(self.messages_notes, before.messages_notes),
            ..self.clone()
        }
    }
}

pub(super) fn is_switch_key(key: &str) -> bool {
    Signals::default().switch_of_key(key).is_some()
}
