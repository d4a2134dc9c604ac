//! Whether calls may begin: not while the owner has paused the runner, and not in safe mode. What runs goes on, what
//! comes is accepted and waits, what is recorded is delivered. Not here: when safe mode is called for (lives).

use std::sync::Arc;

use tokio::sync::watch;

use super::engine::Engine;
use super::wake::Wake;
use crate::audit::{Event, Who};
use crate::home::{HomeError, Switch, SwitchedOn, Switches};

/// The switches as they were last seen.
pub(super) struct Hold {
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

impl Hold {
    pub(super) fn new(switches: Switches) -> Self {
        let hold = Self { switches, seen: watch::Sender::default() };
        hold.look();
        hold
    }

    /// Looks at the switches; whether one was moved.
    pub(super) fn look(&self) -> bool {
        let on = |switch| self.switches.read(switch).is_some();
        let now = Seen { paused: on(Switch::Paused), safe_mode: on(Switch::SafeMode) };
        self.seen.send_if_modified(|seen| {
            let moved = *seen != now;
            *seen = now;
            moved
        })
    }

    /// Whether nothing may begin.
    pub(super) fn is_on(&self) -> bool {
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
        // The sender lives as long as this.
        let _ = self.seen.subscribe().wait_for(|seen| !seen.holds()).await;
    }

    /// Begins nothing until the owner resumes, or it has been quiet for long enough.
    pub(super) fn enter_safe_mode(&self, on: &SwitchedOn) -> Result<(), HomeError> {
        self.switches.switch_on(Switch::SafeMode, on)?;
        self.look();
        Ok(())
    }

    pub(super) fn leave_safe_mode(&self) -> Result<(), HomeError> {
        self.switches.switch_off(Switch::SafeMode)?;
        Ok(())
    }
}

impl Engine {
    /// Looks at the switches and tells everybody whom a change concerns.
    pub(super) fn heed_switches(&self) {
        if !self.hold.look() {
            return;
        }
        if self.hold.is_on() {
            tracing::warn!(
                paused = self.hold.is_paused(),
                safe_mode = self.hold.is_safe_mode(),
                "nothing new is begun; calls that run go on, and results are delivered"
            );
        } else {
            tracing::info!("calls may begin again");
        }
        self.audit_hold();
        self.condition.touch();
        self.beat_soon.notify_one();
        self.waker.wake(Wake::HoldChanged);
    }
}

impl Engine {
    /// Tells the audit whether calls may begin.
    pub(super) fn audit_hold(&self) {
        let (event, words) = match (self.hold.is_safe_mode(), self.hold.is_paused()) {
            (true, _) => (Event::Held, "safe mode"),
            (false, true) => (Event::Held, "paused"),
            (false, false) => (Event::Released, ""),
        };
        self.audit_note(event, Who::Runner, words);
    }
}

/// Heeds the switches as soon as one is moved, until the runner is over.
pub(super) async fn heed(engine: Arc<Engine>) {
    let Some(mut watch) = engine.hold.switches.watch() else { return };
    loop {
        // Also at once: one may have been moved before the watch began.
        engine.heed_switches();
        tokio::select! {
            moved = watch.moved.changed() => if moved.is_err() { return },
            () = engine.over.cancelled() => return,
        }
    }
}
