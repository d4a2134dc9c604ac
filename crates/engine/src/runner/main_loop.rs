//! The main loop: it waits for the next event, makes one short call, and waits again. Polls, calls, posts and
//! heartbeats run in tasks of the components, which wake it.

use std::sync::Arc;

use serde::Serialize;

use super::delivery::Delivery;
use super::error::RunnerError;
use super::executor::Executor;
use super::handles::Handles;
use super::housekeeping::Housekeeping;
use super::intake::{Intake, RunMode};
use super::presence::Presence;
use super::shutdown_signal::ShutdownSignal;
use super::wake_event::{WakeEvent, WakeReceiver};
use crate::backend::Backend as _;
use crate::journal::{JournalError, OfferOutcome};

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
    pub handles: Arc<Handles>,
    pub wakes: WakeReceiver,
    pub summary: OnePassSummary,
}

impl MainLoop {
    /// Runs until it is stopped, or a one-shot pass has nothing left to do.
    pub(super) async fn run(&mut self, stop: &ShutdownSignal) -> Result<(), RunnerError> {
        loop {
            match self.next_wake(stop).await {
                WakeEvent::Polled(number, ..) if !self.intake.is_awaiting(number) => {}
                WakeEvent::Polled(_, Ok(page), held) => {
                    let admitted = self.intake.accept_page(page, held).await?;
                    self.process_admissions(admitted).await;
                }
                WakeEvent::Polled(_, Err(error), _) => {
                    self.intake.handle_poll_failure(error).await?;
                }
                WakeEvent::OpenListed(Ok(open)) => {
                    if let Some(admitted) = self.intake.accept_open_page(open).await? {
                        self.process_admissions(admitted).await;
                        self.intake.fetch_next_unknown();
                    }
                }
                WakeEvent::OpenListed(Err(error)) => self.intake.handle_list_failure(&error)?,
                WakeEvent::CallFinished(ended) => {
                    self.executor.finish_ended_call(&ended);
                    self.start_ready_calls().await;
                }
                WakeEvent::TaskCreated(accepted) => {
                    self.executor.place_or_park(accepted);
                    self.start_ready_calls().await;
                }
                WakeEvent::CancelSeen(id) => {
                    self.executor.cancel_call(&id);
                    self.start_ready_calls().await;
                }
                WakeEvent::ApprovalBegan(call) => {
                    self.executor.free_call_place(&call);
                    self.start_ready_calls().await;
                }
                WakeEvent::ApprovalEnded(call) => self.executor.retake_call_place(&call),
                WakeEvent::RunsLong(id) => {
                    self.executor.release_long_call(&id);
                    self.start_ready_calls().await;
                }
                WakeEvent::PauseChanged => self.start_ready_calls().await,
                WakeEvent::StopOrdered(order) => {
                    self.executor.stop_by_order(order);
                    self.start_ready_calls().await;
                }
                WakeEvent::MachineWoke(missed) => self.handle_machine_wake(missed),
                WakeEvent::Pushed => self.intake.handle_push(),
                WakeEvent::PollDue => self.start_due_work().await,
                WakeEvent::ListOpenDue if self.intake.disk.was_full() => {}
                WakeEvent::ListOpenDue => self.intake.request_open_list(),
                WakeEvent::Stop => return Ok(()),
            }
            if self.handles.sessions.has_other_backend() {
                return Err(RunnerError::OtherBackend);
            }
            if self.handles.journal.is_unusable() {
                return Err(JournalError::Failed.into());
            }
            if self.intake.mode == RunMode::OnePass
                && self.intake.is_pass_complete()
                && self.executor.has_no_calls()
            {
                return Ok(());
            }
        }
    }

    async fn next_wake(&mut self, stop: &ShutdownSignal) -> WakeEvent {
        let poll_at = self.intake.next_poll_at();
        let poll_due = async {
            match poll_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stop.wait_for_stop_request() => WakeEvent::Stop,
            Some(wake) = self.wakes.0.recv() => wake,
            () = poll_due => WakeEvent::PollDue,
        }
    }

    async fn process_admissions(&mut self, admitted: Vec<OfferOutcome>) {
        let (fresh, unknown) = self.executor.apply_admissions(admitted);
        self.summary.polled += fresh;
        self.intake.add_unknown(unknown);
        self.start_ready_calls().await;
    }

    /// Starts the calls that may start.
    pub(super) async fn start_ready_calls(&mut self) {
        if !self.executor.start_allowed_calls().await {
            self.intake.recheck_disk_later();
        }
    }

    /// Starts the due poll, and the calls that waited for disk space.
    async fn start_due_work(&mut self) {
        if self.intake.disk.was_full() && !self.intake.disk.check() {
            self.start_ready_calls().await;
        }
        self.intake.run_due_poll();
    }

    /// Reopens connections and resets waits after a sleep of the machine, because neither is valid any more.
    fn handle_machine_wake(&mut self, missed: std::time::Duration) {
        tracing::info!(
            seconds = missed.as_secs(),
            "the machine slept, or this process was stopped; connections are made anew"
        );
        let handles = &self.handles;
        handles.backend.refresh_connections();
        handles.machine_wakes.announce();
        handles.outbox.end_failure_waits();
        handles.heartbeat_soon.notify_one();
        self.intake.poll_after_sleep();
    }
}
