//! Requests from the backend: the poll schedule, the cursor, the list of everything open, and the wake-up socket.

mod admission;
mod cursor;
mod open_requests;
mod poll_schedule;
pub(super) mod wakeup_socket;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::disk_space::DiskSpaceGate;
use super::error::RunnerError;
use super::handles::Handles;
use super::liveness::LivenessTask;
use super::wake_event::WakeEvent;
use crate::backend::{
    Backend as _, BackendError, EventPage, NextPoll, OfferedEvent, RecoveryAction,
};
use crate::journal::{JournalError, OfferOutcome};
use admission::OfferAdmission;
use open_requests::OpenRequests;
use poll_schedule::PollSchedule;
use punie_core::ids::RequestId;

/// The lifetime of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunMode {
    /// The loop runs until it is stopped.
    UntilStopped,
    /// The loop runs until nothing is left to do.
    OnePass,
}

/// The longest wait between checks of the disk space.
const DISK_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The wait after the first wake-up without events; each further one in a row doubles it.
const EMPTY_WAKEUP_DELAY: Duration = Duration::from_millis(20);

/// Polls the backend and accepts its pages into the journal.
pub(super) struct Intake {
    pub mode: RunMode,
    pub disk: Arc<DiskSpaceGate>,
    handles: Arc<Handles>,
    admissions: OfferAdmission,
    schedule: PollSchedule,
    cursor: Option<String>,
    /// The number of cursors refused in this process.
    refused_cursors: u32,
    is_polling: bool,
    /// The number of the awaited poll: answers to earlier polls are ignored.
    poll_number: u64,
    poll_at: Option<Instant>,
    /// The number of events requested at once.
    page: u32,
    /// The last page was the end.
    is_drained: bool,
    pushed: WakeupProgress,
    open: OpenRequests,
}

/// The loop's state of wake-ups.
#[derive(Debug, Default)]
struct WakeupProgress {
    /// A wake-up came during a poll that may not have seen its event.
    again: bool,
    /// The current poll was made because of a wake-up.
    asked: bool,
    /// The number of polls in a row that were made because of a wake-up and brought nothing.
    empty_wakeups: u32,
    not_before: Option<Instant>,
}

impl Intake {
    /// Creates the intake before its first poll.
    pub(super) fn new(handles: Arc<Handles>, mode: RunMode, disk: Arc<DiskSpaceGate>) -> Self {
        let settings = &handles.settings;
        Self {
            mode,
            disk,
            admissions: OfferAdmission {
                handles: Arc::clone(&handles),
            },
            schedule: PollSchedule::new(settings.clone(), &handles.budget),
            cursor: None,
            refused_cursors: 0,
            is_polling: false,
            poll_number: 0,
            poll_at: None,
            page: settings.poll.page,
            is_drained: false,
            pushed: WakeupProgress::default(),
            open: OpenRequests::new(handles.retry_intervals()),
            handles,
        }
    }

    /// Returns whether this is the poll that is awaited.
    pub(super) fn is_awaiting(&self, poll_number: u64) -> bool {
        poll_number == self.poll_number
    }

    /// Returns the time of the next poll; `None` during a poll.
    pub(super) fn next_poll_at(&self) -> Option<Instant> {
        self.poll_at
    }

    /// Returns whether a one-shot pass has requested everything.
    pub(super) fn is_pass_complete(&self) -> bool {
        self.open.is_listed() && self.is_drained && !self.is_polling
    }

    /// Accepts a page into the journal and schedules the next poll. Returns the journal's decisions on its requests.
    pub(super) async fn accept_page(
        &mut self,
        page: EventPage,
        held: Duration,
    ) -> Result<Vec<OfferOutcome>, RunnerError> {
        self.is_polling = false;
        let largest = self.handles.settings.poll.page;
        self.page = self.page.saturating_mul(2).min(largest);
        self.handles.health.record_poll(self.handles.clock.now_ms());
        let events = page.events.len();
        let moved = page
            .cursor
            .filter(|cursor| self.cursor.as_ref() != Some(cursor));
        // A page with events, or with more to come, moves the cursor. If it does not, another poll at once would
        // bring the same page again.
        let stands = moved.is_none() && (events > 0 || !page.is_done);
        let is_done = page.is_done || stands;
        let cancels = cancelled_ids(&page.events);
        // A cursor that the next process cannot use is not stored.
        let lasting = if page.next == NextPoll::Pushed {
            None
        } else {
            moved.clone()
        };
        let admitted = match self.admissions.admit_page(page.events, lasting).await {
            Ok(admitted) => admitted,
            Err(error) => return self.handle_unaccepted_page(error).map(|()| Vec::new()),
        };
        self.admissions.record_idle_cancels(&cancels, &admitted);
        if moved.is_some() {
            self.cursor = moved;
        }
        let (mut wait, recovered) =
            self.schedule
                .record_page(events, is_done, held, self.handles.socket.is_connected());
        self.handles.socket.set_wanted(self.schedule.is_unheld());
        if stands {
            tracing::warn!(events, "the backend's page did not move the cursor");
            wait = wait.max(self.handles.settings.poll.active_interval);
        } else {
            wait = match page.next {
                NextPoll::Pushed => Duration::ZERO,
                NextPoll::After(asked) if is_done => asked,
                NextPoll::After(_) | NextPoll::OnSchedule => wait,
            };
        }
        if let Some(outage) = recovered {
            tracing::info!(
                "the backend answers again after {}",
                describe_outage(outage)
            );
            self.handles.outbox.end_failure_waits();
        }
        self.is_drained = is_done;
        if self.mode == RunMode::UntilStopped || !is_done {
            self.schedule_poll(wait);
        }
        self.finish_poll(events);
        Ok(admitted)
    }

    /// Schedules the poll again after the journal could not accept a page.
    fn handle_unaccepted_page(&mut self, error: JournalError) -> Result<(), RunnerError> {
        if self.mode == RunMode::OnePass {
            return Err(error.into());
        }
        tracing::error!(%error, "a page of requests could not be accepted; it will be asked for again");
        self.schedule_poll(self.handles.settings.waits.retry.1);
        Ok(())
    }

    /// Schedules the next poll after a failed one.
    pub(super) async fn handle_poll_failure(
        &mut self,
        error: BackendError,
    ) -> Result<(), RunnerError> {
        self.is_polling = false;
        self.handles.health.record_poll_failure();
        if error.refusal_code() == Some("INVALID_ARGUMENT") && self.cursor.is_some() {
            return self.restart_without_cursor(&error).await;
        }
        if matches!(error, BackendError::Oversized { .. }) && self.page > 1 {
            self.page /= 2;
            tracing::warn!(%error, events = self.page, "fewer events are asked for at once");
            self.poll();
            return Ok(());
        }
        check_permanent_failure(&error)?;
        if self.mode == RunMode::OnePass {
            return Err(RunnerError::Backend(error));
        }
        if !self.schedule.is_failing() {
            tracing::warn!(%error, "the backend cannot be used now; the runner tries again, and running calls go on");
        }
        let wait = self.schedule.record_error(&error);
        tracing::debug!(%error, retry_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX), "the backend could not be polled");
        self.schedule_poll(wait);
        Ok(())
    }

    fn schedule_poll(&mut self, wait: Duration) {
        if wait.is_zero() {
            self.poll();
        } else {
            let liveness = &self.handles.liveness;
            liveness.expect_within(LivenessTask::Poll, wait);
            self.poll_at = Some(Instant::now() + wait);
        }
    }

    /// Requests the next page, unless a poll is in progress.
    pub(super) fn poll(&mut self) {
        self.poll_at = None;
        if self.is_polling {
            return;
        }
        if self.disk.check() {
            return self.recheck_disk_later();
        }
        self.is_polling = true;
        self.poll_number += 1;
        let number = self.poll_number;
        let cursor = self.cursor.clone();
        let page = self.page;
        // While the backend fails, its first answer should come at once, because it ends the outage.
        let unheld = self.mode == RunMode::OnePass || self.schedule.is_failing();
        let wait = if unheld {
            Duration::ZERO
        } else {
            self.handles.settings.poll.hold
        };
        let handles = Arc::clone(&self.handles);
        // The longest case: the poll is made, refused, and made again after a session was opened.
        let longest = wait * 2 + Duration::from_mins(1);
        handles.liveness.expect_within(LivenessTask::Poll, longest);
        let mut woken = handles.machine_wakes.subscribe();
        self.handles.background.spawn(async move {
            let asked = Instant::now();
            let sessions = Arc::clone(&handles.sessions);
            let poll = async move {
                punie_core::failpoint::reach("poll");
                sessions
                    .with_session(|| {
                        sessions
                            .backend_client()
                            .poll_events(cursor.as_deref(), page, wait)
                    })
                    .await
            };
            tokio::select! {
                polled = handles.background.call_in_task(poll) => {
                    handles.waker.wake(WakeEvent::Polled(number, polled, asked.elapsed()));
                }
                // The loop polls again after a sleep.
                _ = woken.changed() => {}
                () = handles.phases.stopping.cancelled() => {}
            }
        });
    }

    /// Schedules another check of the disk space.
    pub(super) fn recheck_disk_later(&mut self) {
        self.schedule_poll(self.handles.settings.waits.retry.1.min(DISK_CHECK_INTERVAL));
    }

    /// Starts the poll that is due.
    pub(super) fn run_due_poll(&mut self) {
        self.poll_at = None;
        self.poll();
    }

    /// Polls at once after a sleep of the machine, and lists everything open.
    pub(super) fn poll_after_sleep(&mut self) {
        self.schedule.reset_retries();
        if self.mode == RunMode::UntilStopped {
            self.is_polling = false;
            self.poll();
            self.request_open_list();
        }
    }

    /// Handles a wake-up from the backend.
    pub(super) fn handle_push(&mut self) {
        self.handles.socket.clear_queued();
        self.apply_push();
    }

    fn apply_push(&mut self) {
        if self.is_polling {
            self.pushed.again = true;
            return;
        }
        // A backend that is away or asked for a pause is not polled sooner because of the socket.
        if self.mode == RunMode::OnePass || self.schedule.is_failing() {
            return;
        }
        self.pushed.again = false;
        self.pushed.asked = true;
        match self.pushed.not_before.filter(|at| *at > Instant::now()) {
            Some(at) => self.poll_at = Some(self.poll_at.map_or(at, |planned| planned.min(at))),
            None => self.poll(),
        }
    }

    /// Handles the end of a poll with this many events: rates its wake-up, and handles one that came meanwhile.
    fn finish_poll(&mut self, events: usize) {
        let longest = self.handles.settings.poll.active_interval;
        let pushed = &mut self.pushed;
        if events > 0 {
            (pushed.empty_wakeups, pushed.not_before) = (0, None);
        } else if std::mem::take(&mut pushed.asked) {
            let wait = (EMPTY_WAKEUP_DELAY * 2_u32.pow(pushed.empty_wakeups.min(10))).min(longest);
            pushed.empty_wakeups += 1;
            pushed.not_before = Some(Instant::now() + wait);
        }
        pushed.asked = false;
        if pushed.again {
            self.apply_push();
        }
    }
}

/// Ends the runner on a refusal that no retry can change: only the owner can resolve it.
fn check_permanent_failure(error: &BackendError) -> Result<(), RunnerError> {
    if let BackendError::OtherBackend { .. } = error {
        return Err(RunnerError::OtherBackend);
    }
    if error.recovery_action() == RecoveryAction::GiveUp {
        return Err(RunnerError::Barred(error.clone()));
    }
    Ok(())
}

/// Describes the length of an outage: `9 s`, `5 min`.
fn describe_outage(outage: Duration) -> String {
    match outage.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

/// Returns the requests that a page cancels.
fn cancelled_ids(events: &[OfferedEvent]) -> Vec<RequestId> {
    let cancelled = |event: &OfferedEvent| match event {
        OfferedEvent::Cancel(id) => Some(id.clone()),
        _ => None,
    };
    events.iter().filter_map(cancelled).collect()
}
