//! The assembly of the components from the parts that wiring hands over, and the start of their tasks.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::connection_record::{self, ConnectionRecord};
use super::delivery::{self, Delivery};
use super::disk_space::DiskSpaceGate;
use super::error::RunnerError;
use super::executor::Executor;
use super::executor::call_runner::CallRunner;
use super::executor::claims::{self};
use super::executor::progress_report::ProgressReports;
use super::executor::recovery::Recovery;
use super::finished_call::FinishedCallListener;
use super::handles::Handles;
use super::housekeeping::{self, Housekeeping, crash_loop};
use super::intake::admission::OfferAdmission;
use super::intake::wakeup_socket::{self, WakeupSocket};
use super::intake::{Intake, IntakeParts, RunMode};
use super::keep_awake::{self, KeepAwake, RunningCalls};
use super::main_loop::{MainLoop, OnePassSummary};
use super::open_counts::OpenCounts;
use super::parts::RunnerParts;
use super::presence::canary::{self, Canary};
use super::presence::catalog_publisher::{self, CatalogPublisher};
use super::presence::{self, Presence};
use super::runner_settings::WakeupMode;
use super::shutdown_signal::ShutdownSignal;
use super::wake_event::{LoopWaker, WakeReceiver};

/// The runner: built by wiring, run once.
pub struct Runner {
    parts: RunnerParts,
    wakes: (LoopWaker, WakeReceiver),
    connected: CancellationToken,
    published: CancellationToken,
}

impl Runner {
    /// Creates a runner of these parts.
    pub fn new(parts: RunnerParts, wakes: (LoopWaker, WakeReceiver)) -> Self {
        Self {
            parts,
            wakes,
            connected: CancellationToken::new(),
            published: CancellationToken::new(),
        }
    }

    /// Returns the token that is cancelled once the backend accepts this device.
    pub fn connected_token(&self) -> CancellationToken {
        self.connected.clone()
    }

    /// Returns the token that is cancelled once the backend has the catalogs of this device.
    pub fn published_token(&self) -> CancellationToken {
        self.published.clone()
    }

    /// Tells this listener of every finished call.
    #[must_use]
    pub fn with_call_listener(mut self, listener: Option<FinishedCallListener>) -> Self {
        self.parts.finished_calls = listener;
        self
    }

    /// Runs until it is stopped, then shuts down.
    ///
    /// # Errors
    /// [`RunnerError::Journal`], [`RunnerError::Barred`], [`RunnerError::OtherBackend`].
    pub async fn run_until_stopped(self, stop: &ShutdownSignal) -> Result<(), RunnerError> {
        let assembly = RunnerAssembly::new(
            self.parts,
            self.wakes.0,
            (self.connected, self.published),
            RunMode::UntilStopped,
        );
        let mut main = assembly.begin_loop(self.wakes.1).await?;
        main.start_ready_calls().await;
        main.intake.request_open_list();
        main.intake.poll();
        let ended = main.run(stop).await;
        main.shut_down(stop).await;
        ended
    }

    /// Makes a one-shot pass: recovers, accepts everything that is offered now, answers and delivers it.
    ///
    /// # Errors
    /// As [`Runner::run_until_stopped`], and [`RunnerError::Backend`] if the backend does not answer.
    pub async fn run_once(self, stop: &ShutdownSignal) -> Result<OnePassSummary, RunnerError> {
        let begun = std::time::Instant::now();
        let assembly = RunnerAssembly::new(
            self.parts,
            self.wakes.0,
            (self.connected, self.published),
            RunMode::OnePass,
        );
        let main = assembly.begin_loop(self.wakes.1).await?;
        main.run_one_pass(stop, begun).await
    }
}

/// The components, before the loop begins.
struct RunnerAssembly {
    mode: RunMode,
    handles: Handles,
    disk: Arc<DiskSpaceGate>,
    delivery: Arc<Delivery>,
    presence: Arc<Presence>,
    housekeeping: Arc<Housekeeping>,
    canary: Arc<Canary>,
    keep_awake: Option<Arc<KeepAwake>>,
    calls: Arc<CallRunner>,
    catalog: Arc<CatalogPublisher>,
    recovery: Recovery,
    admissions: OfferAdmission,
}

impl RunnerAssembly {
    fn new(
        mut parts: RunnerParts,
        waker: LoopWaker,
        (connected, published): (CancellationToken, CancellationToken),
        mode: RunMode,
    ) -> Self {
        let handles = Handles::new(&mut parts, waker, connected);
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
        let approvals = Arc::new(handles.approvals(parts.approvals, parts.supervision));
        parts.people.set(approvals.clone());
        let canary = handles.canary(parts.canary_file, &parts.background_commands);
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
            approvals,
            progress: Arc::new(progress),
            pause: Arc::clone(&handles.pause),
            presence: Arc::clone(&presence),
            delivery: Arc::clone(&delivery),
            machine_wakes: handles.machine_wakes.clone(),
            background: handles.background.clone(),
            titles: handles.titles.clone(),
            finished_calls: parts.finished_calls,
            background_commands: parts.background_commands,
            running: RunningCalls::default(),
        };
        let keep_awake = parts.sleep_inhibitor.map(|inhibitor| KeepAwake {
            inhibitor,
            running: calls.running.clone(),
            calls: handles.settings.calls.clone(),
            phases: handles.background.phases.clone(),
        });
        Self {
            mode,
            disk: Arc::new(handles.disk_room(mode == RunMode::UntilStopped)),
            delivery,
            presence,
            housekeeping: Arc::new(handles.housekeeping(parts.watchdog, report, counts)),
            canary: Arc::new(canary),
            keep_awake: keep_awake.map(Arc::new),
            calls: Arc::new(calls),
            catalog: Arc::new(handles.catalog(parts.catalog, published)),
            recovery: handles.recovery(parts.survivors),
            admissions: handles.admissions(parts.lease),
            handles,
        }
    }

    /// Handles the leftovers of an earlier process, and creates the loop.
    async fn begin_loop(self, wakes: WakeReceiver) -> Result<MainLoop, RunnerError> {
        crash_loop::record_process_start(&self.housekeeping).await?;
        let backlog = self
            .recovery
            .handle_leftovers(&self.handles.sessions)
            .await?;
        let reader = self.handles.journal.open_reader()?;
        if let Some(offset) = reader
            .read_fact("clock_offset_ms")?
            .and_then(|offset| offset.parse().ok())
        {
            self.handles.server_clock.apply_stored_offset(offset);
        }
        let cursor = reader.read_fact("cursor")?;
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
        intake.restore_cursor(cursor).await?;
        let (background, held) = (&self.handles.background, &self.calls.claims);
        background.spawn_component("leases", held, claims::run_claim_renewal);
        // Also in a one-shot pass, which the owner may pause and stop too.
        let housekeeping = &self.housekeeping;
        background.spawn_component("switches", housekeeping, housekeeping::run_switch_watch);
        if self.mode == RunMode::UntilStopped {
            self.start_background_tasks();
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
    fn start_background_tasks(&self) {
        let (handles, background) = (&self.handles, &self.handles.background);
        let phases = &background.phases;
        background.spawn_component("outbox", &self.delivery, delivery::run_outbox);
        background.spawn_component("sending", &self.delivery, delivery::record_sending);
        self.delivery.outbox.signal_work();
        background.spawn_component("heartbeat", &self.presence, presence::run_heartbeats);
        let has_socket = handles.settings.poll.wakeup != WakeupMode::Off;
        let record = Arc::new(ConnectionRecord {
            backend: Arc::clone(&handles.backend),
            socket: has_socket.then(|| Arc::clone(&handles.socket)),
            journal: handles.journal.clone(),
            clock: handles.server_clock.local().clone(),
            phases: phases.clone(),
        });
        background.spawn_component("contact", &record, connection_record::store_contact);
        background.spawn_component("problem", &record, connection_record::store_problem);
        background.spawn_component("link", &record, connection_record::store_link);
        let socket = Arc::new(WakeupSocket {
            state: Arc::clone(&handles.socket),
            backend: Arc::clone(&handles.backend),
            sessions: Arc::clone(&handles.sessions),
            settings: handles.settings.clone(),
            waker: handles.waker.clone(),
            machine_wakes: handles.machine_wakes.clone(),
            phases: phases.clone(),
        });
        background.spawn_component("wakeups", &socket, wakeup_socket::run_wakeup_socket);
        background.spawn_component("catalog", &self.catalog, catalog_publisher::run_publisher);
        background.spawn_component("canary", &self.canary, canary::run_canary);
        if let Some(keeper) = &self.keep_awake {
            background.spawn_component("keep awake", keeper, keep_awake::run_keep_awake);
        }
        let housekeeping = &self.housekeeping;
        background.spawn_component("retention", housekeeping, housekeeping::run_retention);
        background.spawn_component("housekeeping", housekeeping, housekeeping::run_housekeeping);
    }
}
