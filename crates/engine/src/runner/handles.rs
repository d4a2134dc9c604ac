//! The handles that the components of a runner share while it runs.

use std::sync::Arc;

use super::backend_client::BackendClient;
use super::background::{BackgroundTasks, ShutdownPhases};
use super::backoff::{RetryBudget, RetryIntervals};
use super::call_audit::CallAudit;
use super::call_pause::CallPause;
use super::call_titles::CallTitles;
use super::coalesced_timer::CoalescedTimer;
use super::delivery::outbox::{Outbox, OutboxWaits};
use super::liveness::Liveness;
use super::open_counts::OpenCounts;
use super::parts::RunnerParts;
use super::presence::health::HealthState;
use super::request_signatures::RequestSignatures;
use super::runner_settings::RunnerSettings;
use super::sealer::OutcomeSealer;
use super::server_clock::ServerClock;
use super::session_keeper::SessionKeeper;
use super::wake_event::LoopWaker;
use super::wake_signal::MachineWakeSignal;
use super::wakeup_state::WakeupState;
use crate::journal::Journal;
use punie_core::clock::Clock;
use punie_core::ids::LeaseId;
use punie_tool::ToolRegistry;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The handles that the components of a runner share while it runs. Nothing that outlives the runner may hold them: the
/// audit's thread ends when they are dropped, and the process may start another runner.
pub(super) struct Handles {
    pub journal: Journal,
    /// The lease of this process.
    pub lease: LeaseId,
    pub settings: RunnerSettings,
    pub clock: Clock,
    pub server_clock: ServerClock,
    pub budget: Arc<RetryBudget>,
    pub background: BackgroundTasks,
    pub phases: ShutdownPhases,
    pub outbox: Arc<Outbox>,
    pub backend: Arc<BackendClient>,
    pub health: Arc<HealthState>,
    pub sessions: Arc<SessionKeeper>,
    pub pause: CallPause,
    pub audit: CallAudit,
    pub sealer: OutcomeSealer,
    pub signatures: RequestSignatures,
    pub registry: Arc<ToolRegistry>,
    pub titles: Option<CallTitles>,
    pub counts: OpenCounts,
    pub socket: WakeupState,
    pub liveness: Liveness,
    pub timer: CoalescedTimer,
    /// Signalled when a heartbeat has news.
    pub heartbeat_soon: Notify,
    pub machine_wakes: MachineWakeSignal,
    pub waker: LoopWaker,
}

impl Handles {
    pub(super) fn new(
        parts: &mut RunnerParts,
        waker: LoopWaker,
        connected: CancellationToken,
    ) -> Self {
        let journal = parts.journal.clone();
        let settings = parts.settings.clone();
        let clock = parts.clock.clone();
        let waits = &settings.waits;
        let server_clock = ServerClock::new(clock.clone(), parts.expiry.clone());
        let budget = Arc::new(RetryBudget::new());
        let outbox_waits = OutboxWaits {
            backend: waits.retry,
            reply: waits.slow_retry,
            refused: waits.unauthorized,
        };
        let outbox = Arc::new(Outbox::new(outbox_waits, Arc::clone(&budget)));
        let backend = Arc::new(BackendClient::new(
            Arc::clone(&parts.backend),
            Arc::clone(&budget),
            Arc::clone(&outbox),
            // Shorter than the shortest wait between polls of a refused device: polls find out when that changes.
            waits.unauthorized * 3 / 4,
            waits.retry,
            connected,
        ));
        let health = Arc::new(HealthState::default());
        let sessions = Arc::new(SessionKeeper::new(
            Arc::clone(&backend),
            Arc::clone(&health),
            server_clock.clone(),
            journal.clone(),
        ));
        let background = BackgroundTasks::new(waits.retry.1);
        Self {
            lease: parts.lease.clone(),
            server_clock,
            budget,
            phases: background.phases.clone(),
            background,
            outbox,
            backend,
            health,
            sessions,
            pause: CallPause::new(parts.switches.clone()),
            audit: CallAudit {
                log: parts.audit.clone(),
                clock: clock.clone(),
                confinement: Arc::clone(&parts.confinement),
            },
            sealer: OutcomeSealer {
                redactor: parts.redactor.clone(),
                outputs: parts.outputs.clone(),
                records: parts.call_records.clone(),
            },
            signatures: RequestSignatures {
                auth: parts.request_auth.take(),
                clock: clock.clone(),
                calls: settings.calls.clone(),
            },
            registry: Arc::clone(&parts.registry),
            titles: parts.titles.clone(),
            counts: OpenCounts::new(journal.clone()),
            socket: WakeupState::default(),
            liveness: Liveness::default(),
            timer: CoalescedTimer::default(),
            heartbeat_soon: Notify::new(),
            machine_wakes: MachineWakeSignal::default(),
            waker,
            clock,
            journal,
            settings,
        }
    }

    /// Returns the waits between attempts of a call, within the budget that all calls share.
    pub(super) fn retry_intervals(&self) -> RetryIntervals {
        RetryIntervals::new(self.settings.waits.retry).with_budget(&self.budget)
    }
}
