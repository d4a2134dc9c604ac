//! The handles that several components use, and the components made of them. Nothing keeps them after the start.

use std::sync::Arc;

use super::backend_client::BackendClient;
use super::background::BackgroundTasks;
use super::backoff::RetryBudget;
use super::call_audit::CallAudit;
use super::call_pause::CallPause;
use super::call_titles::CallTitles;
use super::coalesced_timer::CoalescedTimer;
use super::delivery::Delivery;
use super::delivery::outbox::{Outbox, OutboxWaits};
use super::disk_space::DiskSpaceGate;
use super::executor::approvals::{ApprovalMemory, ApprovalService};
use super::executor::claims::{ClaimService, HeldClaims};
use super::executor::recovery::Recovery;
use super::executor::stopped_conversations::StoppedConversations;
use super::housekeeping::Housekeeping;
use super::intake::admission::OfferAdmission;
use super::liveness::Liveness;
use super::open_counts::OpenCounts;
use super::parts::{BackgroundCommands, CatalogSource, LeftoverCleanup, RunnerParts};
use super::presence::Presence;
use super::presence::canary::Canary;
use super::presence::catalog_publisher::CatalogPublisher;
use super::presence::health::{HealthReport, HealthState};
use super::request_signatures::RequestSignatures;
use super::runner_settings::RunnerSettings;
use super::sealer::OutcomeSealer;
use super::server_clock::ServerClock;
use super::session_keeper::SessionKeeper;
use super::wake_event::LoopWaker;
use super::wake_signal::MachineWakeSignal;
use super::wakeup_state::WakeupState;
use super::watchdog::Watchdog;
use crate::journal::Journal;
use punie_core::ids::LeaseId;
use punie_home::{ApprovalQuestions, CanaryFile, SupervisionStore};
use punie_tool::ToolRegistry;
use tokio::sync::{Notify, OnceCell, RwLock};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The handles that several components use. Each component takes from it the handles that it needs.
pub(super) struct Handles {
    pub journal: Journal,
    pub settings: RunnerSettings,
    pub server_clock: ServerClock,
    pub budget: Arc<RetryBudget>,
    pub background: BackgroundTasks,
    pub outbox: Arc<Outbox>,
    pub backend: Arc<BackendClient>,
    pub health: Arc<HealthState>,
    pub sessions: Arc<SessionKeeper>,
    pub pause: Arc<CallPause>,
    pub audit: CallAudit,
    pub sealer: OutcomeSealer,
    pub signatures: Arc<RequestSignatures>,
    pub registry: Arc<ToolRegistry>,
    pub socket: Arc<WakeupState>,
    pub liveness: Arc<Liveness>,
    pub timer: Arc<CoalescedTimer>,
    pub beat_soon: Arc<Notify>,
    pub machine_wakes: MachineWakeSignal,
    pub waker: LoopWaker,
    pub titles: Option<CallTitles>,
}

impl Handles {
    pub(super) fn new(
        parts: &mut RunnerParts,
        waker: LoopWaker,
        connected: CancellationToken,
    ) -> Self {
        let (journal, settings) = (parts.journal.clone(), parts.settings.clone());
        let server_clock = ServerClock::new(parts.clock.clone(), parts.expiry.clone());
        let budget = Arc::new(RetryBudget::new());
        let waits = OutboxWaits {
            backend: settings.waits.retry,
            reply: settings.waits.slow_retry,
            refused: settings.waits.unauthorized,
        };
        let outbox = Arc::new(Outbox::new(waits, Arc::clone(&budget)));
        // Shorter than the shortest wait between polls of a refused device: polls find out when that changes.
        let barred_for = settings.waits.unauthorized * 3 / 4;
        let (called, spent) = (Arc::clone(&parts.backend), Arc::clone(&budget));
        let backend = Arc::new(BackendClient::new(
            called,
            spent,
            Arc::clone(&outbox),
            barred_for,
            settings.waits.retry,
            connected,
        ));
        let health = Arc::new(HealthState::default());
        let sessions = Arc::new(SessionKeeper::new(
            Arc::clone(&backend),
            Arc::clone(&health),
            server_clock.clone(),
            journal.clone(),
        ));
        let (clock, confinement) = (parts.clock.clone(), Arc::clone(&parts.confinement));
        let signatures = RequestSignatures {
            auth: parts.request_auth.take(),
            clock: clock.clone(),
            calls: settings.calls.clone(),
        };
        Self {
            server_clock,
            budget,
            background: BackgroundTasks::new(settings.waits.retry.1),
            outbox,
            backend,
            health,
            sessions,
            pause: Arc::new(CallPause::new(parts.switches.clone())),
            audit: CallAudit {
                audit: parts.audit.clone(),
                clock,
                confinement,
            },
            sealer: OutcomeSealer {
                redactor: parts.redactor.clone(),
                outputs: parts.outputs.clone(),
                records: parts.call_records.clone(),
            },
            signatures: Arc::new(signatures),
            registry: Arc::clone(&parts.registry),
            socket: Arc::default(),
            liveness: Arc::default(),
            timer: Arc::default(),
            beat_soon: Arc::default(),
            machine_wakes: MachineWakeSignal::default(),
            waker,
            titles: parts.titles.clone(),
            journal,
            settings,
        }
    }

    pub(super) fn delivery(&self) -> Delivery {
        Delivery {
            journal: self.journal.clone(),
            backend: Arc::clone(&self.backend),
            sessions: Arc::clone(&self.sessions),
            outbox: Arc::clone(&self.outbox),
            audit: self.audit.clone(),
            server_clock: self.server_clock.clone(),
            retry: self.settings.waits.retry,
            background: self.background.clone(),
        }
    }

    pub(super) fn health_report(&self) -> HealthReport {
        HealthReport {
            state: Arc::clone(&self.health),
            backend: Arc::clone(&self.backend),
            server_clock: self.server_clock.clone(),
            pause: Arc::clone(&self.pause),
            audit: self.audit.audit.clone(),
            journal: self.journal.clone(),
        }
    }

    pub(super) fn presence(
        &self,
        report: &Arc<HealthReport>,
        counts: &Arc<OpenCounts>,
    ) -> Presence {
        Presence {
            backend: Arc::clone(&self.backend),
            sessions: Arc::clone(&self.sessions),
            journal: self.journal.clone(),
            audit: self.audit.clone(),
            report: Arc::clone(report),
            counts: Arc::clone(counts),
            is_signed: self.signatures.are_required(),
            settings: self.settings.clone(),
            server_clock: self.server_clock.clone(),
            socket: Arc::clone(&self.socket),
            liveness: Arc::clone(&self.liveness),
            timer: Arc::clone(&self.timer),
            budget: Arc::clone(&self.budget),
            heartbeat_soon: Arc::clone(&self.beat_soon),
            said_goodbye: RwLock::new(false),
            time_asked: OnceCell::new(),
            phases: self.background.phases.clone(),
        }
    }

    pub(super) fn canary(
        &self,
        file: CanaryFile,
        commands: &Arc<dyn BackgroundCommands>,
    ) -> Canary {
        Canary {
            file,
            commands: Arc::clone(commands),
            state: Arc::clone(&self.health),
            audit: self.audit.clone(),
            redactor: self.sealer.redactor.clone(),
            timer: Arc::clone(&self.timer),
            heartbeat_soon: Arc::clone(&self.beat_soon),
            phases: self.background.phases.clone(),
        }
    }

    pub(super) fn housekeeping(
        &self,
        watchdog: Option<Watchdog>,
        report: Arc<HealthReport>,
        counts: Arc<OpenCounts>,
    ) -> Housekeeping {
        Housekeeping {
            journal: self.journal.clone(),
            settings: self.settings.clone(),
            clock: self.server_clock.local().clone(),
            server_clock: self.server_clock.clone(),
            audit: self.audit.clone(),
            report,
            counts,
            pause: Arc::clone(&self.pause),
            watchdog,
            liveness: Arc::clone(&self.liveness),
            timer: Arc::clone(&self.timer),
            socket: Arc::clone(&self.socket),
            waker: self.waker.clone(),
            heartbeat_soon: Arc::clone(&self.beat_soon),
            started_at: Instant::now(),
            phases: self.background.phases.clone(),
            records: self.sealer.records.clone(),
        }
    }

    pub(super) fn claims(&self) -> ClaimService {
        ClaimService {
            held: HeldClaims::default(),
            backend: Arc::clone(&self.backend),
            sessions: Arc::clone(&self.sessions),
            settings: self.settings.clone(),
            budget: Arc::clone(&self.budget),
            pause: Arc::clone(&self.pause),
            waker: self.waker.clone(),
            phases: self.background.phases.clone(),
        }
    }

    pub(super) fn approvals(
        &self,
        approvals: ApprovalQuestions,
        supervision: SupervisionStore,
    ) -> ApprovalService {
        ApprovalService {
            memory: ApprovalMemory::new(approvals, self.server_clock.expiry()),
            journal: self.journal.clone(),
            stopped: StoppedConversations {
                supervision,
                registry: Arc::clone(&self.registry),
            },
            backend: Arc::clone(&self.backend),
            sessions: Arc::clone(&self.sessions),
            redactor: self.sealer.redactor.clone(),
            settings: self.settings.clone(),
            clock: self.server_clock.local().clone(),
            server_clock: self.server_clock.clone(),
            budget: Arc::clone(&self.budget),
            waker: self.waker.clone(),
            machine_wakes: self.machine_wakes.clone(),
            phases: self.background.phases.clone(),
        }
    }

    pub(super) fn catalog(
        &self,
        catalog: Arc<dyn CatalogSource>,
        published: CancellationToken,
    ) -> CatalogPublisher {
        CatalogPublisher {
            published,
            registry: Arc::clone(&self.registry),
            catalog,
            journal: self.journal.clone(),
            backend: Arc::clone(&self.backend),
            sessions: Arc::clone(&self.sessions),
            settings: self.settings.clone(),
            clock: self.server_clock.local().clone(),
            budget: Arc::clone(&self.budget),
            phases: self.background.phases.clone(),
        }
    }

    pub(super) fn recovery(&self, survivors: Arc<dyn LeftoverCleanup>) -> Recovery {
        Recovery {
            journal: self.journal.clone(),
            audit: self.audit.clone(),
            signatures: Arc::clone(&self.signatures),
            registry: Arc::clone(&self.registry),
            sealer: self.sealer.clone(),
            survivors,
        }
    }

    pub(super) fn admissions(&self, lease: LeaseId) -> OfferAdmission {
        OfferAdmission {
            journal: self.journal.clone(),
            audit: self.audit.clone(),
            signatures: Arc::clone(&self.signatures),
            registry: Arc::clone(&self.registry),
            sealer: self.sealer.clone(),
            titles: self.titles.clone(),
            lease,
        }
    }

    pub(super) fn disk_room(&self, waits: bool) -> DiskSpaceGate {
        DiskSpaceGate {
            journal: self.journal.clone(),
            health: Arc::clone(&self.health),
            calls: self.settings.calls.clone(),
            waits,
            heartbeat_soon: Arc::clone(&self.beat_soon),
        }
    }
}
