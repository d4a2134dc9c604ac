//! What every call shares: made once at start, never changed. Not here: what is done with it.

use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::aftermath::LookedAfter;
use super::approvals::Desk;
use super::backoff::Budget;
use super::bench::Bench;
use super::clock::{Clock, ServerClock};
use super::condition::Condition;
use super::hold::Hold;
use super::leases::Leases;
use super::line::Line;
use super::moves::Moves;
use super::outbox::{Outbox, Waits};
use super::session::Sessions;
use super::settings::Settings;
use super::wake::Waker;
use super::wakeups::Ears;
use super::watchdog::Watchdog;
use crate::audit::Audit;
use crate::backend::{Backend, BackendError, CatalogItem, CatalogKind};
use crate::home::{Approvals, Supervision, Switches};
use crate::ids::{LeaseId, RequestId};
use crate::journal::Journal;
use crate::output::OutputStore;
use crate::redact::Redactor;
use crate::request::RequestAuth;
use crate::tool::{Gate, Intent, Observer, Registry};

/// The parts that wiring hands over.
pub struct Parts {
    /// The event backend.
    pub backend: Arc<dyn Backend>,
    /// What survives a crash.
    pub journal: Journal,
    /// What was asked, decided and done.
    pub audit: Audit,
    /// Whose signature every request must have; none where the backend's word is enough.
    pub request_auth: Option<RequestAuth>,
    /// The tools.
    pub registry: Arc<Registry>,
    /// Who may say no.
    pub gate: Arc<dyn Gate>,
    /// Masks secrets.
    pub redactor: Redactor,
    /// Keeps what is clipped.
    pub outputs: OutputStore,
    /// The lease of this process life.
    pub lease: LeaseId,
    /// Ends processes that an earlier life left running.
    pub survivors: Arc<dyn Survivors>,
    /// What the home offers beside the tools.
    pub catalog: Arc<dyn Catalog>,
    /// The figures.
    pub settings: Settings,
    /// The time of day.
    pub clock: Clock,
    /// Which confinement is in force, for results and heartbeats.
    pub confinement: Arc<dyn Confines>,
    /// What the owner has switched on.
    pub switches: Switches,
    /// What waits for the word of the person here.
    pub approvals: Approvals,
    /// The conversations that a person has stopped.
    pub supervision: Supervision,
    /// The service manager, where there is one.
    pub watchdog: Option<Watchdog>,
    /// Who follows calls.
    pub observer: Arc<dyn Observer>,
    /// Where tools run.
    pub bench: Bench,
}

/// Ends processes of an earlier life, and sees what became of its effects.
pub trait Survivors: Send + Sync + 'static {
    /// Ends the process of this identity, which this request started, with everything that it started in turn; a
    /// stranger that got its number is left alone. Returns whether nothing of it is left.
    fn end(&self, request: &RequestId, identity: &str) -> bool;

    /// Looks what became of what this request's call declared, in the order in which it did.
    fn look_after<'a>(&'a self, request: &'a RequestId, intents: Vec<Intent>) -> LookedAfter<'a>;
}

/// How far this device's commands are confined.
pub trait Confines: Send + Sync + 'static {
    /// In words; those are others once it is proven.
    fn in_words(&self) -> String;

    /// Completes once it is proven.
    fn proven(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The catalogs of the home, and when they change.
pub trait Catalog: Send + Sync + 'static {
    /// What is there now.
    fn items(&self, kind: CatalogKind) -> Vec<CatalogItem>;
    /// Changes its value whenever something changed; none where changes are not noticed.
    fn changes(&self) -> Option<tokio::sync::watch::Receiver<u64>>;
}

/// [`Parts`], with what the runner adds to them.
pub(super) struct Engine {
    pub backend: Arc<dyn Backend>,
    pub journal: Journal,
    pub audit: Audit,
    pub request_auth: Option<RequestAuth>,
    pub registry: Arc<Registry>,
    pub gate: Arc<dyn Gate>,
    pub redactor: Redactor,
    pub outputs: OutputStore,
    pub lease: LeaseId,
    pub survivors: Arc<dyn Survivors>,
    pub catalog: Arc<dyn Catalog>,
    pub settings: Settings,
    pub clock: Clock,
    pub server_clock: ServerClock,
    pub confinement: Arc<dyn Confines>,
    pub watchdog: Option<Watchdog>,
    pub observer: Arc<dyn Observer>,
    pub bench: Bench,
    pub sessions: Sessions,
    /// The same as `backend`, for what only the line knows.
    pub line: Arc<Line>,
    /// What may be repeated soon.
    pub budget: Arc<Budget>,
    pub leases: Leases,
    pub hold: Hold,
    /// What is heard of the wake-up socket.
    pub ears: Ears,
    pub desk: Desk,
    pub supervision: Supervision,
    pub condition: Condition,
    pub moves: Moves,
    /// How many calls were begun in this life.
    pub begun: std::sync::atomic::AtomicU64,
    /// When this life began.
    pub born: tokio::time::Instant,
    /// Rings when a heartbeat has news.
    pub beat_soon: tokio::sync::Notify,
    /// Rings when a heartbeat got through.
    pub beaten: tokio::sync::Notify,
    /// Whether goodbye is said: held for reading by every beat.
    pub parted: tokio::sync::RwLock<bool>,
    pub looks: super::looks::Looks,
    pub tally: super::tally::Last,
    /// Changes after each sleep of the machine.
    pub woken: tokio::sync::watch::Sender<u64>,
    pub waker: Waker,
    /// Every task of the runner; a stop waits for them.
    pub tasks: TaskTracker,
    /// Cancelled when no new work is taken.
    pub stopping: CancellationToken,
    /// Cancelled when running calls must end.
    pub ending: CancellationToken,
    /// Cancelled when no call is waited for any more: one that says something later is not heard.
    pub calls_over: CancellationToken,
    /// Cancelled when everything must end.
    pub over: CancellationToken,
    /// Says which recorded reply may be posted when.
    pub outbox: Arc<Outbox>,
    /// Filled once the backend was asked for its time.
    pub time_asked: tokio::sync::OnceCell<()>,
}

impl Engine {
    pub(super) fn new(parts: Parts, waker: Waker) -> Arc<Self> {
        let server_clock = ServerClock::new(parts.clock.clone());
        let waits = Waits {
            backend: parts.settings.retry,
            reply: parts.settings.slow_retry,
            refused: parts.settings.unauthorized,
        };
        let budget = Arc::new(Budget::new());
        // Shorter than the shortest wait between polls of a device that is refused: they find out when that changes.
        let barred_for = parts.settings.unauthorized * 3 / 4;
        let outbox = Arc::new(Outbox::new(waits, Arc::clone(&budget)));
        let line = Line::new(parts.backend, Arc::clone(&budget), Arc::clone(&outbox), barred_for);
        let line = Arc::new(line);
        Arc::new(Self {
            sessions: Sessions::new(Arc::clone(&line), server_clock.clone(), parts.journal.clone()),
            backend: Arc::clone(&line) as Arc<dyn Backend>,
            line,
            journal: parts.journal,
            audit: parts.audit,
            request_auth: parts.request_auth,
            registry: parts.registry,
            gate: parts.gate,
            redactor: parts.redactor,
            outputs: parts.outputs,
            lease: parts.lease,
            survivors: parts.survivors,
            catalog: parts.catalog,
            settings: parts.settings,
            clock: parts.clock,
            server_clock,
            confinement: parts.confinement,
            watchdog: parts.watchdog,
            observer: parts.observer,
            bench: parts.bench,
            leases: Leases::default(),
            ears: Ears::default(),
            hold: Hold::new(parts.switches),
            desk: Desk::new(parts.approvals),
            supervision: parts.supervision,
            condition: Condition::default(),
            moves: Moves::default(),
            begun: std::sync::atomic::AtomicU64::new(0),
            born: tokio::time::Instant::now(),
            beat_soon: tokio::sync::Notify::new(),
            beaten: tokio::sync::Notify::new(),
            parted: tokio::sync::RwLock::new(false),
            looks: super::looks::Looks::default(),
            tally: super::tally::Last::default(),
            woken: tokio::sync::watch::Sender::default(),
            waker,
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            ending: CancellationToken::new(),
            calls_over: CancellationToken::new(),
            over: CancellationToken::new(),
            outbox,
            budget,
            time_asked: tokio::sync::OnceCell::new(),
        })
    }

    /// Keeps a task of the runner going until it ends by itself: one that panics is started again.
    pub(super) fn keep<F>(self: &Arc<Self>, name: &'static str, task: fn(Arc<Self>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let engine = Arc::clone(self);
        self.tasks.spawn(async move {
            while let Err(cause) = engine.tasks.spawn(task(Arc::clone(&engine))).await {
                tracing::error!(task = name, %cause, "a task of the runner failed and is started again");
                tokio::select! {
                    () = tokio::time::sleep(engine.settings.retry.1) => {}
                    () = engine.over.cancelled() => return,
                }
            }
        });
    }

    /// Whether the disk has room for new work.
    pub(super) fn has_room(&self) -> bool {
        self.journal.has_room(self.settings.least_free)
    }

    /// Makes a backend call in a task of its own, so that a panic in it is an error like any other. Dropping the
    /// future ends the call.
    pub(super) async fn apart<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, BackendError>> + Send + 'static,
    ) -> Result<T, BackendError> {
        let call = AbortOnDropHandle::new(self.tasks.spawn(call));
        call.await.unwrap_or_else(|cause| {
            Err(BackendError::Function { message: format!("the call failed inside the runner: {cause}") })
        })
    }
}
