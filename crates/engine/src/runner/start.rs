//! The assembly of the components from the parts that wiring hands over, and the start of their tasks.

use std::sync::Arc;

use tokio::sync::{OnceCell, RwLock};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connection_record;
use super::delivery::{self, Delivery};
use super::disk_space::DiskSpaceGate;
use super::error::RunnerError;
use super::executor::Executor;
use super::executor::approvals::ApprovalService;
use super::executor::call_runner::CallRunner;
use super::executor::claims::{self, ClaimService, HeldClaims};
use super::executor::recovery::Recovery;
use super::finished_call::FinishedCallListener;
use super::handles::Handles;
use super::housekeeping::{self, Housekeeping, crash_loop};
use super::intake::{Intake, RunMode, wakeup_socket};
use super::keep_awake::{self, KeepAwake, RunningCalls};
use super::main_loop::{MainLoop, OnePassSummary};
use super::parts::RunnerParts;
use super::presence::canary::{self, Canary};
use super::presence::catalog_publisher::{self, CatalogPublisher};
use super::presence::{self, Presence};
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
    handles: Arc<Handles>,
    disk: Arc<DiskSpaceGate>,
    delivery: Arc<Delivery>,
    presence: Arc<Presence>,
    housekeeping: Arc<Housekeeping>,
    canary: Arc<Canary>,
    keep_awake: Option<Arc<KeepAwake>>,
    calls: Arc<CallRunner>,
    catalog: Arc<CatalogPublisher>,
    recovery: Recovery,
}

impl RunnerAssembly {
    fn new(
        mut parts: RunnerParts,
        waker: LoopWaker,
        (connected, published): (CancellationToken, CancellationToken),
        mode: RunMode,
    ) -> Self {
        let handles = Arc::new(Handles::new(&mut parts, waker, connected));
        let delivery = Arc::new(Delivery {
            handles: Arc::clone(&handles),
        });
        let presence = Arc::new(Presence {
            handles: Arc::clone(&handles),
            said_goodbye: RwLock::new(false),
            time_asked: OnceCell::new(),
        });
        let claims = ClaimService {
            handles: Arc::clone(&handles),
            held: HeldClaims::default(),
        };
        let approvals = ApprovalService::new(&handles, parts.approvals, parts.supervision);
        let approvals = Arc::new(approvals);
        parts.people.set(approvals.clone());
        let canary = Canary {
            handles: Arc::clone(&handles),
            file: parts.canary_file,
            commands: Arc::clone(&parts.background_commands),
        };
        let calls = CallRunner {
            handles: Arc::clone(&handles),
            gate: parts.gate,
            observer: parts.observer,
            threads: parts.tool_threads,
            claims: Arc::new(claims),
            approvals,
            presence: Arc::clone(&presence),
            delivery: Arc::clone(&delivery),
            finished_calls: parts.finished_calls,
            background_commands: parts.background_commands,
            running: RunningCalls::default(),
        };
        let keep_awake = parts.sleep_inhibitor.map(|inhibitor| KeepAwake {
            inhibitor,
            running: calls.running.clone(),
            calls: handles.settings.calls.clone(),
            phases: handles.phases.clone(),
        });
        let disk = DiskSpaceGate {
            handles: Arc::clone(&handles),
            waits: mode == RunMode::UntilStopped,
        };
        let housekeeping = Housekeeping {
            handles: Arc::clone(&handles),
            watchdog: parts.watchdog,
            started_at: Instant::now(),
        };
        let catalog = CatalogPublisher {
            handles: Arc::clone(&handles),
            catalog: parts.catalog,
            published,
        };
        Self {
            mode,
            disk: Arc::new(disk),
            delivery,
            presence,
            housekeeping: Arc::new(housekeeping),
            canary: Arc::new(canary),
            keep_awake: keep_awake.map(Arc::new),
            calls: Arc::new(calls),
            catalog: Arc::new(catalog),
            recovery: Recovery {
                handles: Arc::clone(&handles),
                survivors: parts.survivors,
            },
            handles,
        }
    }

    /// Handles the leftovers of an earlier process, and creates the loop.
    async fn begin_loop(self, wakes: WakeReceiver) -> Result<MainLoop, RunnerError> {
        let handles = &self.handles;
        crash_loop::record_process_start(&self.housekeeping).await?;
        let backlog = self.recovery.handle_leftovers().await?;
        let reader = handles.journal.open_reader()?;
        if let Some(offset) = reader
            .read_fact("clock_offset_ms")?
            .and_then(|offset| offset.parse().ok())
        {
            handles.server_clock.apply_stored_offset(offset);
        }
        let cursor = reader.read_fact("cursor")?;
        let mut intake = Intake::new(Arc::clone(handles), self.mode, Arc::clone(&self.disk));
        intake.restore_cursor(cursor).await?;
        let background = &handles.background;
        let held = &self.calls.claims;
        background.spawn_component("leases", held, claims::run_claim_renewal);
        // Also in a one-shot pass, which the owner may pause and stop too.
        let housekeeping = &self.housekeeping;
        background.spawn_component("switches", housekeeping, housekeeping::run_switch_watch);
        if self.mode == RunMode::UntilStopped {
            self.start_background_tasks();
        }
        Ok(MainLoop {
            intake,
            executor: Executor::new(self.calls, backlog, self.disk),
            delivery: self.delivery,
            presence: self.presence,
            housekeeping: self.housekeeping,
            handles: self.handles,
            wakes,
            summary: OnePassSummary::default(),
        })
    }

    /// Starts the tasks that run until the runner is over.
    fn start_background_tasks(&self) {
        let handles = &self.handles;
        let background = &self.handles.background;
        background.spawn_component("outbox", &self.delivery, delivery::run_outbox);
        background.spawn_component("sending", handles, delivery::record_sending);
        handles.outbox.signal_work();
        background.spawn_component("heartbeat", &self.presence, presence::run_heartbeats);
        background.spawn_component("contact", handles, connection_record::store_contact);
        background.spawn_component("problem", handles, connection_record::store_problem);
        background.spawn_component("link", handles, connection_record::store_link);
        background.spawn_component("wakeups", handles, wakeup_socket::run_wakeup_socket);
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
