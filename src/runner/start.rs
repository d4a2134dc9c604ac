//! The assembly of the components from the parts that wiring hands over, and the start of their tasks.

use std::sync::Arc;

use tokio::sync::{Notify, OnceCell, RwLock};
use tokio::time::Instant;

use super::backend_client::BackendClient;
use super::background::Background;
use super::backoff::Budget;
use super::call_audit::CallAudit;
use super::clock::ServerClock;
use super::coalesced_timer::CoalescedTimer;
use super::connection_record;
use super::delivery::outbox::{Outbox, Waits};
use super::delivery::{self, Delivery};
use super::disk_room::DiskRoom;
use super::error::RunnerError;
use super::executor::Executor;
use super::executor::approvals::{ApprovalDesk, ApprovalMemory};
use super::executor::call_runner::CallRunner;
use super::executor::claims::{self, Claims, HeldClaims};
use super::executor::progress_report::ProgressReports;
use super::executor::recovery::Recovery;
use super::executor::stopped_conversations::StoppedConversations;
use super::housekeeping::{self, Housekeeping, crash_loop};
use super::intake::admission::Admissions;
use super::intake::wakeup_socket::{self, WakeupSocket};
use super::intake::{Intake, IntakeParts, Mode};
use super::liveness::Liveness;
use super::main_loop::{MainLoop, OnePassSummary};
use super::open_counts::OpenCounts;
use super::parts::{Catalog, Parts, Survivors};
use super::pause::CallPause;
use super::presence::catalog::{self, CatalogPublisher};
use super::presence::health::{HealthReport, HealthState};
use super::presence::{self, Presence};
use super::request_signatures::RequestSignatures;
use super::sealer::Sealer;
use super::session::SessionKeeper;
use super::settings::{Settings, WakeUp};
use super::stop::Stop;
use super::wake::{Waker, Wakes};
use super::wake_signal::WakeSignal;
use super::wakeup_state::WakeupState;
use super::watchdog::Watchdog;
use crate::home::{Approvals, Supervision};
use crate::ids::LeaseId;
use crate::journal::Journal;
use crate::tool::Registry;

/// The runner: built by wiring, run once.
pub struct Runner {
    parts: Parts,
    wakes: (Waker, Wakes),
}

impl Runner {
    /// Creates a runner of these parts.
    pub fn new(parts: Parts, wakes: (Waker, Wakes)) -> Self {
        Self { parts, wakes }
    }

    /// Runs until it is stopped, then shuts down.
    ///
    /// # Errors
    /// [`RunnerError::Journal`], [`RunnerError::Barred`], [`RunnerError::OtherBackend`].
    pub async fn run(self, stop: &Stop) -> Result<(), RunnerError> {
        let assembly = Assembly::new(self.parts, self.wakes.0, Mode::Stay);
        let mut main = assembly.begin(self.wakes.1).await?;
        main.start_ready().await;
        main.intake.list_open();
        main.intake.poll();
        let ended = main.work(stop).await;
        main.drain(stop).await;
        ended
    }

    /// Makes a one-shot pass: recovers, accepts everything that is offered now, answers and delivers it.
    ///
    /// # Errors
    /// As [`Runner::run`], and [`RunnerError::Backend`] if the backend does not answer.
    pub async fn once(self, stop: &Stop) -> Result<OnePassSummary, RunnerError> {
        let begun = std::time::Instant::now();
        let assembly = Assembly::new(self.parts, self.wakes.0, Mode::OnePass);
        let main = assembly.begin(self.wakes.1).await?;
        main.pass_once(stop, begun).await
    }
}

/// The handles that several components use. Each component takes from it the handles that it needs.
struct Handles {
    journal: Journal,
    settings: Settings,
    server_clock: ServerClock,
    budget: Arc<Budget>,
    background: Background,
    outbox: Arc<Outbox>,
    backend: Arc<BackendClient>,
    health: Arc<HealthState>,
    sessions: Arc<SessionKeeper>,
    pause: Arc<CallPause>,
    audit: CallAudit,
    sealer: Sealer,
    signatures: Arc<RequestSignatures>,
    registry: Arc<Registry>,
    socket: Arc<WakeupState>,
    liveness: Arc<Liveness>,
    timer: Arc<CoalescedTimer>,
    beat_soon: Arc<Notify>,
    machine_wakes: WakeSignal,
    waker: Waker,
}

/// The components, before the loop begins.
struct Assembly {
    mode: Mode,
    handles: Handles,
    disk: Arc<DiskRoom>,
    delivery: Arc<Delivery>,
    presence: Arc<Presence>,
    housekeeping: Arc<Housekeeping>,
    calls: Arc<CallRunner>,
    catalog: Arc<CatalogPublisher>,
    recovery: Recovery,
    admissions: Admissions,
}

impl Handles {
    fn new(parts: &mut Parts, waker: Waker) -> Self {
        let (journal, settings) = (parts.journal.clone(), parts.settings.clone());
        let server_clock = ServerClock::new(parts.clock.clone());
        let budget = Arc::new(Budget::new());
        let waits = Waits {
            backend: settings.waits.retry,
            reply: settings.waits.slow_retry,
            refused: settings.waits.unauthorized,
        };
        let outbox = Arc::new(Outbox::new(waits, Arc::clone(&budget)));
        // Shorter than the shortest wait between polls of a refused device: polls find out when that changes.
        let barred_for = settings.waits.unauthorized * 3 / 4;
        let (called, spent) = (Arc::clone(&parts.backend), Arc::clone(&budget));
        let backend = Arc::new(BackendClient::new(called, spent, Arc::clone(&outbox), barred_for));
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
            ttl_ms: settings.calls.ttl.as_secs_f64() * 1_000.0,
        };
        Self {
            server_clock,
            budget,
            background: Background::new(settings.waits.retry.1),
            outbox,
            backend,
            health,
            sessions,
            pause: Arc::new(CallPause::new(parts.switches.clone())),
            audit: CallAudit { audit: parts.audit.clone(), clock, confinement },
            sealer: Sealer { redactor: parts.redactor.clone(), outputs: parts.outputs.clone() },
            signatures: Arc::new(signatures),
            registry: Arc::clone(&parts.registry),
            socket: Arc::default(),
            liveness: Arc::default(),
            timer: Arc::default(),
            beat_soon: Arc::default(),
            machine_wakes: WakeSignal::default(),
            waker,
            journal,
            settings,
        }
    }

    fn delivery(&self) -> Delivery {
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

    fn health_report(&self) -> HealthReport {
        HealthReport {
            state: Arc::clone(&self.health),
            backend: Arc::clone(&self.backend),
            server_clock: self.server_clock.clone(),
            pause: Arc::clone(&self.pause),
            audit: self.audit.audit.clone(),
            journal: self.journal.clone(),
        }
    }

    fn presence(&self, report: &Arc<HealthReport>, counts: &Arc<OpenCounts>) -> Presence {
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
            beat_soon: Arc::clone(&self.beat_soon),
            parted: RwLock::new(false),
            time_asked: OnceCell::new(),
            phases: self.background.phases.clone(),
        }
    }

    fn housekeeping(
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
            beat_soon: Arc::clone(&self.beat_soon),
            started_at: Instant::now(),
            phases: self.background.phases.clone(),
        }
    }

    fn claims(&self) -> Claims {
        Claims {
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

    fn approvals(&self, approvals: Approvals, supervision: Supervision) -> ApprovalDesk {
        ApprovalDesk {
            memory: ApprovalMemory::new(approvals),
            stopped: StoppedConversations { supervision, registry: Arc::clone(&self.registry) },
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

    fn catalog(&self, catalog: Arc<dyn Catalog>) -> CatalogPublisher {
        CatalogPublisher {
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

    fn recovery(&self, survivors: Arc<dyn Survivors>) -> Recovery {
        Recovery {
            journal: self.journal.clone(),
            audit: self.audit.clone(),
            signatures: Arc::clone(&self.signatures),
            registry: Arc::clone(&self.registry),
            sealer: self.sealer.clone(),
            survivors,
        }
    }

    fn admissions(&self, lease: LeaseId) -> Admissions {
        Admissions {
            journal: self.journal.clone(),
            audit: self.audit.clone(),
            signatures: Arc::clone(&self.signatures),
            registry: Arc::clone(&self.registry),
            sealer: self.sealer.clone(),
            lease,
        }
    }

    fn disk_room(&self, waits: bool) -> DiskRoom {
        DiskRoom {
            journal: self.journal.clone(),
            health: Arc::clone(&self.health),
            least_free: self.settings.least_free,
            waits,
            beat_soon: Arc::clone(&self.beat_soon),
        }
    }
}

impl Assembly {
    fn new(mut parts: Parts, waker: Waker, mode: Mode) -> Self {
        let handles = Handles::new(&mut parts, waker);
        let report = Arc::new(handles.health_report());
        let counts = Arc::new(OpenCounts::new(handles.journal.clone()));
        let delivery = Arc::new(handles.delivery());
        let presence = Arc::new(handles.presence(&report, &counts));
        let claims = Arc::new(handles.claims());
        let progress = ProgressReports {
            claims: Arc::clone(&claims),
            redactor: handles.sealer.redactor.clone(),
            background: handles.background.clone(),
        };
        let calls = CallRunner {
            journal: handles.journal.clone(),
            audit: handles.audit.clone(),
            registry: Arc::clone(&handles.registry),
            gate: parts.gate,
            observer: parts.observer,
            sealer: handles.sealer.clone(),
            threads: parts.tool_threads,
            settings: handles.settings.clone(),
            server_clock: handles.server_clock.clone(),
            signatures: Arc::clone(&handles.signatures),
            claims,
            approvals: handles.approvals(parts.approvals, parts.supervision),
            progress: Arc::new(progress),
            pause: Arc::clone(&handles.pause),
            presence: Arc::clone(&presence),
            delivery: Arc::clone(&delivery),
            machine_wakes: handles.machine_wakes.clone(),
            background: handles.background.clone(),
        };
        Self {
            mode,
            disk: Arc::new(handles.disk_room(mode == Mode::Stay)),
            delivery,
            presence,
            housekeeping: Arc::new(handles.housekeeping(parts.watchdog, report, counts)),
            calls: Arc::new(calls),
            catalog: Arc::new(handles.catalog(parts.catalog)),
            recovery: handles.recovery(parts.survivors),
            admissions: handles.admissions(parts.lease),
            handles,
        }
    }

    /// Handles the leftovers of an earlier process, and creates the loop.
    async fn begin(self, wakes: Wakes) -> Result<MainLoop, RunnerError> {
        crash_loop::record_start(&self.housekeeping).await?;
        let backlog = self.recovery.settle(&self.handles.sessions).await?;
        let reader = self.handles.journal.reader()?;
        if let Some(offset) = reader.recall("clock_offset_ms")?.and_then(|offset| offset.parse().ok()) {
            self.handles.server_clock.recall(offset);
        }
        let cursor = reader.recall("cursor")?;
        let mut intake = Intake::new(IntakeParts {
            mode: self.mode,
            admissions: self.admissions.clone(),
            sessions: Arc::clone(&self.handles.sessions),
            outbox: Arc::clone(&self.delivery.outbox),
            health: Arc::clone(&self.disk.health),
            socket: Arc::clone(&self.handles.socket),
            disk: Arc::clone(&self.disk),
            liveness: Arc::clone(&self.handles.liveness),
            budget: Arc::clone(&self.handles.budget),
            settings: self.handles.settings.clone(),
            clock: self.handles.server_clock.local().clone(),
            server_clock: self.handles.server_clock.clone(),
            machine_wakes: self.handles.machine_wakes.clone(),
            waker: self.handles.waker.clone(),
            background: self.handles.background.clone(),
        });
        intake.take_up_cursor(cursor).await?;
        let held = Arc::clone(&self.calls.claims);
        self.handles.background.keep_running("leases", move || claims::keep_renewing(Arc::clone(&held)));
        if self.mode == Mode::Stay {
            self.start_tasks();
        }
        Ok(MainLoop {
            intake,
            executor: Executor::new(self.calls, backlog, self.disk, self.handles.waker),
            delivery: self.delivery,
            presence: self.presence,
            housekeeping: self.housekeeping,
            journal: self.handles.journal,
            sessions: self.handles.sessions,
            settings: self.handles.settings,
            machine_wakes: self.handles.machine_wakes,
            wakes,
            background: self.handles.background,
            summary: OnePassSummary::default(),
        })
    }

    /// Starts the tasks that run until the runner is over.
    fn start_tasks(&self) {
        let (background, phases) = (&self.handles.background, &self.handles.background.phases);
        let delivery = Arc::clone(&self.delivery);
        background.keep_running("outbox", move || delivery::work_outbox(Arc::clone(&delivery)));
        let delivery = Arc::clone(&self.delivery);
        background.keep_running("sending", move || delivery::record_sending(Arc::clone(&delivery)));
        self.delivery.outbox.ring();
        let presence = Arc::clone(&self.presence);
        background.keep_running("heartbeat", move || presence::keep_beating(Arc::clone(&presence)));
        let (backend, journal, over) =
            (Arc::clone(&self.handles.backend), self.handles.journal.clone(), phases.clone());
        background.keep_running("problem", move || {
            connection_record::record_problem(Arc::clone(&backend), journal.clone(), over.clone())
        });
        let socket = Arc::new(WakeupSocket {
            state: Arc::clone(&self.handles.socket),
            backend: Arc::clone(&self.handles.backend),
            sessions: Arc::clone(&self.handles.sessions),
            settings: self.handles.settings.clone(),
            waker: self.handles.waker.clone(),
            machine_wakes: self.handles.machine_wakes.clone(),
            phases: phases.clone(),
        });
        background.keep_running("wakeups", move || wakeup_socket::keep_open(Arc::clone(&socket)));
        let (backend, journal, over) =
            (Arc::clone(&self.handles.backend), self.handles.journal.clone(), phases.clone());
        let state =
            (self.handles.settings.poll.wakeup != WakeUp::Off).then(|| Arc::clone(&self.handles.socket));
        background.keep_running("link", move || {
            connection_record::record_link(Arc::clone(&backend), state.clone(), journal.clone(), over.clone())
        });
        let catalog = Arc::clone(&self.catalog);
        background.keep_running("catalog", move || catalog::keep_published(Arc::clone(&catalog)));
        let keeper = Arc::clone(&self.housekeeping);
        background.keep_running("retention", move || housekeeping::keep_tidy(Arc::clone(&keeper)));
        let keeper = Arc::clone(&self.housekeeping);
        background.keep_running("switches", move || housekeeping::watch_switches(Arc::clone(&keeper)));
        let keeper = Arc::clone(&self.housekeeping);
        background.keep_running("housekeeping", move || housekeeping::keep_looking(Arc::clone(&keeper)));
    }
}
