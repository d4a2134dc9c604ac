//! The switch that keeps calls from beginning: the owner's pause, or safe mode. Running calls go on, new requests are
//! accepted and wait, and replies are delivered.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use punie_core::ids::RequestId;
use punie_home::{
    FolderSignal, HomeError, OwnerSwitch, OwnerSwitches, StopOrder, StopOutcome, SwitchState,
};

/// The switches as they were last read.
pub(super) struct CallPause {
    switches: OwnerSwitches,
    seen: watch::Sender<PauseSwitches>,
    is_watched: AtomicBool,
    is_older_told: AtomicBool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PauseSwitches {
    paused: bool,
    safe_mode: bool,
}

impl PauseSwitches {
    fn is_holding(self) -> bool {
        self.paused || self.safe_mode
    }
}

impl CallPause {
    pub(super) fn new(switches: OwnerSwitches) -> Self {
        let hold = Self {
            switches,
            seen: watch::Sender::default(),
            is_watched: AtomicBool::new(false),
            is_older_told: AtomicBool::new(false),
        };
        hold.refresh_switches();
        hold
    }

    /// Reads the switches; returns whether one changed.
    pub(super) fn refresh_switches(&self) -> bool {
        let on = |switch| self.switches.read_switch(switch).is_some();
        let now = PauseSwitches {
            paused: on(OwnerSwitch::Paused),
            safe_mode: on(OwnerSwitch::SafeMode),
        };
        self.seen.send_if_modified(|seen| {
            let moved = *seen != now;
            *seen = now;
            moved
        })
    }

    /// Returns whether no call may begin.
    pub(super) fn is_active(&self) -> bool {
        self.seen.borrow().is_holding()
    }

    pub(super) fn is_paused(&self) -> bool {
        self.seen.borrow().paused
    }

    pub(super) fn is_safe_mode(&self) -> bool {
        self.seen.borrow().safe_mode
    }

    /// Completes once calls may begin.
    pub(super) async fn wait_until_released(&self) {
        // The sender exists as long as this value.
        let _ = self
            .seen
            .subscribe()
            .wait_for(|seen| !seen.is_holding())
            .await;
    }

    /// Returns whether the owner was told of a change of a protected path, and has not acknowledged it.
    pub(super) fn has_notices(&self) -> bool {
        self.switches.has_notices()
    }

    /// Tells the owner, once in a process, that the backend has an answer to a request that this home has never begun.
    pub(super) fn report_unknown_answer(&self) {
        // A lost journal explains it.
        if self.is_older_told.swap(true, Ordering::Relaxed)
            || !self.switches.list_journal_notices().is_empty()
        {
            return;
        }
        let text = "The backend has answers that this home does not know: it was put back from an older copy, or its journal \
                    was lost. Nothing was run again. `history` and `undo` do not have what was done since.";
        if let Err(error) = self.switches.add_journal_notice(text) {
            tracing::warn!(%error, "the age of the home is not in the owner's notices");
        }
    }

    /// Takes the owner's orders to end what runs.
    pub(super) fn take_stop_orders(&self) -> Vec<StopOrder> {
        self.switches.take_stop_orders()
    }

    pub(super) fn record_stop_outcome(
        &self,
        order: &RequestId,
        outcome: &StopOutcome,
    ) -> Result<(), HomeError> {
        self.switches.record_stop_outcome(order, outcome)
    }

    /// Enters safe mode: no call begins until the owner resumes, or it has been quiet for long enough.
    pub(super) fn enter_safe_mode(&self, on: &SwitchState) -> Result<(), HomeError> {
        self.switches.switch_on(OwnerSwitch::SafeMode, on)?;
        self.refresh_switches();
        Ok(())
    }

    pub(super) fn leave_safe_mode(&self) -> Result<(), HomeError> {
        self.switches.switch_off(OwnerSwitch::SafeMode)?;
        Ok(())
    }

    /// Records that the system reports each change of the switches and orders.
    pub(super) fn set_watched(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Returns the watch on the switches, if they can be watched.
    pub(super) fn watch_switches(&self) -> Option<FolderSignal> {
        self.switches.watch()
    }
}
