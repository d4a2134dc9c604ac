//! The switches of user signals, by category. Not here: the owner's consent (home).

use super::choices::SignalSwitch;
use super::tables::Signals;

impl Signals {
    /// Returns the switch of the category with this name.
    pub fn find_switch(&self, category: &str) -> Option<SignalSwitch> {
        let mut copy = self.clone();
        let switches = copy.switches_mut();
        let found = switches.into_iter().find(|(name, _)| *name == category);
        found.map(|(_, switch)| *switch)
    }

    /// Returns the switch with this key.
    pub(super) fn switch_of_key(&self, key: &str) -> Option<SignalSwitch> {
        self.find_switch(key.strip_prefix("signals.")?)
    }

    /// Takes over the switches of `newer`, except those that were turned on.
    pub(super) fn narrow_switches(&mut self, newer: &Self) {
        for (category, switch) in self.switches_mut() {
            match newer.find_switch(category) {
                Some(SignalSwitch::On) | None => {}
                Some(narrower) => *switch = narrower,
            }
        }
    }

    fn switches_mut(&mut self) -> [(&'static str, &mut SignalSwitch); 4] {
        [
            ("browsing_bookmarks", &mut self.browsing_bookmarks),
            ("dev_environment", &mut self.dev_environment),
            ("apps_system", &mut self.apps_system),
            ("messages_notes", &mut self.messages_notes),
        ]
    }
}

/// Returns whether this is the key of a switch.
pub(super) fn is_switch_key(key: &str) -> bool {
    Signals::default().switch_of_key(key).is_some()
}
