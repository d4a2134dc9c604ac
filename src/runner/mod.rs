//! The one loop: it waits for the next wake, makes one short call, and waits again. Polling, executing, posting,
//! beating and renewing happen in tasks that it starts and that wake it; what they share is the engine.

mod aftermath;
mod alarm;
mod approvals;
#[cfg(target_os = "linux")]
mod at_rest;
mod auditing;
mod backoff;
mod bench;
mod call_start;
mod calls;
mod catalog;
mod clock;
mod condition;
mod cursors;
mod declaring;
mod delivery;
mod drain;
mod endings;
mod engine;
mod error;
mod execute;
mod heartbeat;
mod hold;
mod intake;
mod lanes;
mod leases;
mod line;
mod listing;
mod lives;
mod looks;
mod moves;
mod observing;
mod outbox;
mod parked;
mod pass;
mod periodic;
mod polling;
mod pressure;
mod recovery;
mod sealing;
mod session;
mod settings;
mod stopped;
mod tally;
mod tasks;
mod telling;
mod time_limit;
mod vigil;
mod wake;
mod wakeups;
mod waking;
mod watchdog;

pub use aftermath::LookedAfter;
pub use bench::Bench;
pub use clock::{Clock, SKEW_MS};
pub use drain::Stop;
pub use engine::{Catalog, Confines, Parts, Survivors};
pub use error::RunnerError;
pub use pass::Pass;
pub use settings::{Settings, WakeUp};
pub use tasks::Tasks;
pub use wake::{Waker, Wakes, wakes};
pub use watchdog::Watchdog;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::backend::{BackendError, Disposition, Next, Page};
use crate::ids::RequestId;
use crate::journal::JournalError;
use backoff::Retry;
use calls::{CallToken, Waiting, cancels_of, note_idle_cancels};
use engine::Engine;
use lanes::{Lanes, Places};
use moves::Mover;
use parked::Parked;
use polling::Rhythm;
use wake::Wake;
use wakeups::Pushed;

/// How long the loop goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Until it is stopped.
    Stay,
    /// Until nothing is left to do.
    OnePass,
}

/// The runner: made by wiring, run once.
pub struct Runner {
    engine: Arc<Engine>,
    wakes: Wakes,
    mode: Mode,
    lanes: Lanes<Waiting>,
    /// The token of every call that is placed or runs.
    calls: HashMap<RequestId, CallToken>,
    parked: Parked,
    rhythm: Rhythm,
    cursor: Option<String>,
    /// How many cursors were refused in this process.
    refused_cursors: u32,
    polling: bool,
    /// Which poll is awaited: the answer to an earlier one is not taken.
    poll_number: u64,
    poll_at: Option<Instant>,
    /// How many events are asked for at once.
    page: u32,
    pushed: Pushed,
    /// Open requests that the journal does not know, whose bodies are still to be asked for.
    unknown: Vec<RequestId>,
    listed: bool,
    list_retry: Retry,
    /// Waits for the next look at what is open after one that failed. There is one such wait, however many looks fail.
    list_again: Option<AbortOnDropHandle<()>>,
    drained: bool,
    pass: Pass,
}

impl Runner {
    /// A runner of these parts.
    pub fn new(parts: Parts, wakes: (Waker, Wakes)) -> Self {
        let settings = &parts.settings;
        let lanes =
            Lanes::new(Places { reads: settings.reads, effects: settings.total, tasks: settings.tasks });
        let page = parts.settings.page;
        let engine = Engine::new(parts, wakes.0);
        let rhythm = Rhythm::new(engine.settings.clone(), &engine.budget);
        let list_retry = Retry::new(engine.settings.retry).within(&engine.budget);
        Self {
            engine,
            wakes: wakes.1,
            mode: Mode::Stay,
            lanes,
            calls: HashMap::new(),
            parked: Parked::default(),
            rhythm,
            cursor: None,
            refused_cursors: 0,
            polling: false,
            poll_number: 0,
            poll_at: None,
            page,
            pushed: Pushed::default(),
            unknown: Vec::new(),
            listed: false,
            list_retry,
            list_again: None,
            drained: false,
            pass: Pass::default(),
        }
    }

    /// Runs until it is stopped, then drains.
    ///
    /// # Errors
    /// [`RunnerError::Journal`], [`RunnerError::Barred`], [`RunnerError::OtherBackend`].
    pub async fn run(mut self, stop: &Stop) -> Result<(), RunnerError> {
        self.begin().await?;
        let engine = Arc::clone(&self.engine);
        engine.keep("outbox", delivery::work_outbox);
        engine.keep("sending", delivery::tell_sending);
        engine.outbox.ring();
        engine.keep("heartbeat", heartbeat::beat);
        engine.keep("trouble", line::tell_trouble);
        engine.keep("wakeups", wakeups::keep);
        engine.keep("link", line::tell_link);
        engine.keep("catalog", catalog::publish);
        engine.keep("periodic", periodic::tick);
        engine.keep("switches", hold::heed);
        engine.keep("vigil", vigil::keep);
        #[cfg(target_os = "linux")]
        engine.keep("at rest", at_rest::keep);
        self.start_ready().await;
        self.list_open();
        self.poll();
        let ended = self.work(stop).await;
        self.drain(stop).await;
        ended
    }

    /// Settles what an earlier life left, and starts what every life needs.
    async fn begin(&mut self) -> Result<(), RunnerError> {
        lives::begin(&self.engine).await?;
        self.parked = recovery::settle(&self.engine).await?;
        let reader = self.engine.journal.reader()?;
        if let Some(offset) = reader.recall("clock_offset_ms")?.and_then(|offset| offset.parse().ok()) {
            self.engine.server_clock.recall(offset);
        }
        let cursor = reader.recall("cursor")?;
        self.take_up_cursor(cursor).await?;
        self.engine.keep("leases", leases::renew);
        Ok(())
    }

    /// The loop.
    async fn work(&mut self, stop: &Stop) -> Result<(), RunnerError> {
        loop {
            match self.next_wake(stop).await {
                Wake::Polled(number, ..) if number != self.poll_number => {}
                Wake::Polled(_, Ok(page), held) => self.take_page(page, held).await?,
                Wake::Polled(_, Err(error), _) => self.poll_failed(error).await?,
                Wake::OpenListed(Ok(open)) => self.take_open(open).await?,
                Wake::OpenListed(Err(error)) => self.list_failed(&error)?,
                Wake::CallFinished(ended) => self.call_finished(&ended).await,
                Wake::TaskMade(accepted) => self.take_in_task(accepted).await,
                Wake::CancelSeen(id) => self.cancel_seen(&id).await,
                Wake::Asks(call) => self.step_aside(&call).await,
                Wake::Asked(call) => self.step_back(&call),
                Wake::TakesLong(id) => self.takes_long(&id).await,
                Wake::HoldChanged => self.start_ready().await,
                Wake::Woke(missed) => self.woke(missed),
                Wake::Pushed => self.pushed(),
                Wake::PollDue => self.poll_due().await,
                Wake::ListOpenDue if self.engine.condition.lacks_room() => {}
                Wake::ListOpenDue => self.list_open(),
                Wake::Stop => return Ok(()),
            }
            if self.engine.sessions.has_met_another() {
                return Err(RunnerError::OtherBackend);
            }
            if self.engine.journal.is_failed() {
                return Err(JournalError::Failed.into());
            }
            if self.mode == Mode::OnePass && self.is_idle() {
                return Ok(());
            }
        }
    }

    async fn next_wake(&mut self, stop: &Stop) -> Wake {
        let poll_at = self.poll_at;
        let poll_due = async {
            match poll_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stop.requested() => Wake::Stop,
            Some(wake) = self.wakes.0.recv() => wake,
            () = poll_due => Wake::PollDue,
        }
    }

    /// Whether one pass has nothing left to do but deliver.
    fn is_idle(&self) -> bool {
        let nothing_runs = self.calls.len() <= self.lanes.waiting();
        let held = self.engine.hold.is_on() && nothing_runs && !self.parked.has_taken_back();
        let done = self.calls.is_empty() && self.parked.is_empty() || held;
        self.listed && self.drained && !self.polling && done
    }

    async fn take_page(&mut self, page: Page, held: Duration) -> Result<(), RunnerError> {
        self.polling = false;
        self.page = self.page.saturating_mul(2).min(self.engine.settings.page);
        self.engine.condition.polled(self.engine.clock.now_ms());
        let events = page.events.len();
        let moved = page.cursor.filter(|cursor| self.cursor.as_ref() != Some(cursor));
        // A page that says there is more, or brings something, moves the cursor. Where it does not, asking on at once
        // would bring the same again.
        let stands = moved.is_none() && (events > 0 || !page.is_done);
        let is_done = page.is_done || stands;
        let cancels = cancels_of(&page.events);
        // A cursor that the next life cannot use is not written down.
        let lasting = if page.next == Next::Pushed { None } else { moved.clone() };
        let admitted = match self.engine.admit(page.events, lasting).await {
            Ok(admitted) => admitted,
            Err(error) => return self.page_refused(error),
        };
        note_idle_cancels(&self.engine, &cancels, &admitted);
        if moved.is_some() {
            self.cursor = moved;
        }
        self.take_in(admitted).await;
        let (mut wait, recovered) = self.rhythm.page(events, is_done, held, self.engine.ears.are_up());
        self.engine.ears.want(self.rhythm.does_not_hold());
        if stands {
            tracing::warn!(events, "the backend's page did not move the cursor");
            wait = wait.max(self.engine.settings.active_interval);
        } else {
            wait = match page.next {
                Next::Pushed => Duration::ZERO,
                Next::After(asked) if is_done => asked,
                Next::After(_) | Next::Rhythm => wait,
            };
        }
        if recovered {
            tracing::info!("the backend answers again");
            self.engine.outbox.reconnected();
        }
        self.drained = is_done;
        if self.mode == Mode::Stay || !is_done {
            self.poll_after(wait);
        }
        self.after_poll(events);
        Ok(())
    }

    /// A page that the journal could not take was not taken: it is asked for again.
    pub(super) fn page_refused(&mut self, error: JournalError) -> Result<(), RunnerError> {
        if self.mode == Mode::OnePass {
            return Err(error.into());
        }
        tracing::error!(%error, "a page of requests could not be accepted; it will be asked for again");
        self.poll_after(self.engine.settings.retry.1);
        Ok(())
    }

    async fn poll_failed(&mut self, error: BackendError) -> Result<(), RunnerError> {
        self.polling = false;
        self.engine.condition.poll_failed();
        if error.code() == Some("INVALID_ARGUMENT") && self.cursor.is_some() {
            return self.begin_anew(&error).await;
        }
        if matches!(error, BackendError::Oversized { .. }) && self.page > 1 {
            self.page /= 2;
            tracing::warn!(%error, events = self.page, "fewer events are asked for at once");
            self.poll();
            return Ok(());
        }
        failed_for_good(&error)?;
        if self.mode == Mode::OnePass {
            return Err(RunnerError::Backend(error));
        }
        let wait = self.rhythm.error(&error);
        tracing::warn!(%error, retry_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX), "the backend could not be polled");
        self.poll_after(wait);
        Ok(())
    }

    fn poll_after(&mut self, wait: Duration) {
        if wait.is_zero() {
            self.poll();
        } else {
            self.engine.moves.again_within(Mover::Poll, wait);
            self.poll_at = Some(Instant::now() + wait);
        }
    }

    /// Asks for the next page, unless that is under way.
    fn poll(&mut self) {
        self.poll_at = None;
        if self.polling {
            return;
        }
        if self.lacks_room() {
            return self.wait_for_room();
        }
        self.polling = true;
        self.poll_number += 1;
        let number = self.poll_number;
        let (engine, cursor, page) = (Arc::clone(&self.engine), self.cursor.clone(), self.page);
        // While the backend fails, its first answer shall come at once: it ends the outage.
        let unheld = self.mode == Mode::OnePass || self.rhythm.is_failing();
        let wait = if unheld { Duration::ZERO } else { engine.settings.hold };
        // At worst it is made, refused, made anew after a session was opened.
        engine.moves.again_within(Mover::Poll, wait * 2 + Duration::from_mins(1));
        let mut woken = engine.woken.subscribe();
        self.engine.tasks.spawn(async move {
            let (asked, asking) = (Instant::now(), Arc::clone(&engine));
            let poll = async move {
                crate::failpoint::reach("poll");
                asking.with_session(|| asking.backend.poll(cursor.as_deref(), page, wait)).await
            };
            tokio::select! {
                polled = engine.apart(poll) => engine.waker.wake(Wake::Polled(number, polled, asked.elapsed())),
                // Whoever noticed the sleep polls anew.
                _ = woken.changed() => {}
                () = engine.stopping.cancelled() => {}
            }
        });
    }
}

/// A refusal that no further asking can change ends the runner: only the owner can mend it.
fn failed_for_good(error: &BackendError) -> Result<(), RunnerError> {
    if let BackendError::OtherBackend { .. } = error {
        return Err(RunnerError::OtherBackend);
    }
    if error.disposition() == Disposition::Never {
        return Err(RunnerError::Barred(error.clone()));
    }
    Ok(())
}
