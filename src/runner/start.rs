//! The assembly of the components from the parts that wiring hands over, and the start of their tasks.

use std::sync::Arc;

use super::connection_record;
use super::delivery::{self, Delivery};
use super::disk_room::DiskRoom;
use super::error::RunnerError;
use super::executor::Executor;
use super::executor::call_runner::CallRunner;
use super::executor::claims::{self};
use super::executor::progress_report::ProgressReports;
use super::executor::recovery::Recovery;
use super::handles::Handles;
use super::housekeeping::{self, Housekeeping, crash_loop};
use super::intake::admission::Admissions;
use super::intake::wakeup_socket::{self, WakeupSocket};
use super::intake::{Intake, IntakeParts, Mode};
use super::main_loop::{MainLoop, OnePassSummary};
use super::open_counts::OpenCounts;
use super::parts::Parts;
use super::presence::catalog::{self, CatalogPublisher};
use super::presence::{self, Presence};
use super::settings::WakeUp;
use super::stop::Stop;
use super::wake::{Waker, Wakes};

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
