//! The main loop: it waits for the next event, makes one short call, and waits again. Polls, calls, posts and
//! heartbeats run in tasks of the components, which wake it.

use std::sync::Arc;

use serde::Serialize;

use super::background::Background;
use super::delivery::Delivery;
use super::error::RunnerError;
use super::executor::Executor;
use super::housekeeping::Housekeeping;
use super::intake::{Intake, Mode};
use super::presence::Presence;
use super::session::SessionKeeper;
use super::settings::Settings;
use super::stop::Stop;
use super::wake::{Wake, Wakes};
use super::wake_signal::WakeSignal;
use crate::backend::Backend as _;
use crate::journal::{Admission, Journal, JournalError};

/// The figures of a one-shot pass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OnePassSummary {
    /// Requests that the backend offered.
    pub polled: u64,
    /// Calls that ended.
    pub executed: u64,
    /// Replies that the backend has now.
    pub delivered: u64,
    /// Replies that it does not have yet.
    pub pending: u64,
    /// Requests that will never be delivered.
    pub failed: u64,
    /// The duration of the pass in milliseconds.
    pub elapsed_ms: u64,
}

/// The loop and the components that it calls.
pub(super) struct MainLoop {
    pub intake: Intake,
    pub executor: Executor,
    pub delivery: Arc<Delivery>,
    pub presence: Arc<Presence>,
    pub housekeeping: Arc<Housekeeping>,
    pub journal: Journal,
    pub sessions: Arc<SessionKeeper>,
    pub settings: Settings,
    pub machine_wakes: WakeSignal,
    pub wakes: Wakes,
    pub background: Background,
    pub summary: OnePassSummary,
}

impl MainLoop {
    /// Runs until it is stopped, or a one-shot pass has nothing left to do.
    pub(super) async fn work(&mut self, stop: &Stop) -> Result<(), RunnerError> {
        loop {
            match self.next_wake(stop).await {
                Wake::Polled(number, ..) if !self.intake.awaits(number) => {}
                Wake::Polled(_, Ok(page), held) => {
                    let admitted = self.intake.take_page(page, held).await?;
                    self.take_admissions(admitted).await;
                }
                Wake::Polled(_, Err(error), _) => self.intake.poll_failed(error).await?,
                Wake::OpenListed(Ok(open)) => {
                    if let Some(admitted) = self.intake.take_open(open).await? {
                        self.take_admissions(admitted).await;
                        self.intake.fetch_unknown();
                    }
                }
                Wake::OpenListed(Err(error)) => self.intake.list_failed(&error)?,
                Wake::CallFinished(ended) => {
                    self.executor.call_finished(&ended);
                    self.start_ready().await;
                }
                Wake::TaskMade(accepted) => {
                    self.executor.place(accepted);
                    self.start_ready().await;
                }
                Wake::CancelSeen(id) => {
                    self.executor.cancel(&id);
                    self.start_ready().await;
                }
                Wake::Asks(call) => {
                    self.executor.step_aside(&call);
                    self.start_ready().await;
                }
                Wake::Asked(call) => self.executor.step_back(&call),
                Wake::TakesLong(id) => {
                    self.executor.takes_long(&id);
                    self.start_ready().await;
                }
                Wake::HoldChanged => self.start_ready().await,
                Wake::Woke(missed) => self.machine_woke(missed),
                Wake::Pushed => self.intake.pushed(),
                Wake::PollDue => self.poll_due().await,
                Wake::ListOpenDue if self.intake.disk.lacked_room() => {}
                Wake::ListOpenDue => self.intake.list_open(),
                Wake::Stop => return Ok(()),
            }
            if self.sessions.has_met_another() {
                return Err(RunnerError::OtherBackend);
            }
            if self.journal.is_failed() {
                return Err(JournalError::Failed.into());
            }
            if self.intake.mode == Mode::OnePass && self.intake.is_done() && self.executor.is_idle() {
                return Ok(());
            }
        }
    }

    async fn next_wake(&mut self, stop: &Stop) -> Wake {
        let poll_at = self.intake.poll_at();
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

    async fn take_admissions(&mut self, admitted: Vec<Admission>) {
        let (fresh, unknown) = self.executor.take_admissions(admitted);
        self.summary.polled += fresh;
        self.intake.add_unknown(unknown);
        self.start_ready().await;
    }

    /// Starts the calls that may start.
    pub(super) async fn start_ready(&mut self) {
        if !self.executor.start_ready().await {
            self.intake.wait_for_room();
        }
    }

    /// Starts the due poll, and the calls that waited for disk space.
    async fn poll_due(&mut self) {
        if self.intake.disk.lacked_room() && !self.intake.disk.lacks_room() {
            self.start_ready().await;
        }
        self.intake.poll_due();
    }

    /// Reopens connections and resets waits after a sleep of the machine, because neither is valid any more.
    fn machine_woke(&mut self, missed: std::time::Duration) {
        tracing::info!(
            seconds = missed.as_secs(),
            "the machine slept, or this process was stopped; connections are made anew"
        );
        self.sessions.backend().refresh_connections();
        self.machine_wakes.send();
        self.delivery.outbox.reconnected();
        self.presence.beat_soon.notify_one();
        self.intake.machine_woke();
    }
}
