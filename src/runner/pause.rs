//! The switch that keeps calls from beginning: the owner's pause, or safe mode. Running calls go on, new requests are
//! accepted and wait, and replies are delivered. Not here: the start of safe mode (housekeeping).

use tokio::sync::watch;

use crate::home::{HomeError, Switch, SwitchWatch, SwitchedOn, Switches};

/// The switches as they were last read.
pub(super) struct CallPause {
    switches: Switches,
    seen: watch::Sender<Seen>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Seen {
    paused: bool,
    safe_mode: bool,
}

impl Seen {
    fn holds(self) -> bool {
        self.paused || self.safe_mode
    }
}

impl CallPause {
    pub(super) fn new(switches: Switches) -> Self {
        let hold = Self { switches, seen: watch::Sender::default() };
        hold.refresh();
        hold
    }

    /// Reads the switches; returns whether one changed.
    pub(super) fn refresh(&self) -> bool {
        let on = |switch| self.switches.read(switch).is_some();
        let now = Seen { paused: on(Switch::Paused), safe_mode: on(Switch::SafeMode) };
        self.seen.send_if_modified(|seen| {
            let moved = *seen != now;
            *seen = now;
            moved
        })
    }

    /// Returns whether no call may begin.
    pub(super) fn is_active(&self) -> bool {
        self.seen.borrow().holds()
    }

    pub(super) fn is_paused(&self) -> bool {
        self.seen.borrow().paused
    }

    pub(super) fn is_safe_mode(&self) -> bool {
        self.seen.borrow().safe_mode
    }

    /// Completes once calls may begin.
    pub(super) async fn released(&self) {
        // The sender exists as long as this value.
        let _ = self.seen.subscribe().wait_for(|seen| !seen.holds()).await;
    }

    /// Enters safe mode: no call begins until the owner resumes, or it has been quiet for long enough.
    pub(super) fn enter_safe_mode(&self, on: &SwitchedOn) -> Result<(), HomeError> {
        self.switches.switch_on(Switch::SafeMode, on)?;
        self.refresh();
        Ok(())
    }

    pub(super) fn leave_safe_mode(&self) -> Result<(), HomeError> {
        self.switches.switch_off(Switch::SafeMode)?;
        Ok(())
    }

    /// Returns the watch on the switches, if they can be watched.
    pub(super) fn watch_switches(&self) -> Option<SwitchWatch> {
        self.switches.watch()
    }
}
