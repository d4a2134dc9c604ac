//! The one loop: it waits for the next wake, makes one short call, and waits again. Polling, executing, posting,
//! beating and renewing happen in tasks that it starts and that wake it; what they share is the engine.

mod backoff;
mod catalog;
mod clock;
mod delivery;
mod drain;
mod engine;
mod execute;
mod heartbeat;
mod intake;
mod lanes;
mod leases;
mod pass;
mod periodic;
mod polling;
mod recovery;
mod session;
mod settings;
mod tasks;
mod wake;

pub use clock::Clock;
pub use drain::Stop;
pub use engine::{Catalog, Parts, Survivors};
pub use pass::Pass;
pub use settings::Settings;
pub use tasks::Tasks;
pub use wake::{Waker, Wakes, wakes};

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::backend::{BackendError, Offered, Page};
use crate::ids::{ConversationId, RequestId};
use crate::journal::{Accepted, Admission, JournalError};
use crate::request::Effect;
use crate::tool::Lane;
use engine::Engine;
use execute::Call;
use lanes::{Lanes, Share};
use polling::Rhythm;
use wake::{Ended, Wake};

/// Why the runner ended without being asked to.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// What must survive a crash cannot be written or read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The backend will not have this device.
    #[error("the backend will not have this device: {0}")]
    Barred(BackendError),
    /// One pass needs a backend that answers.
    #[error(transparent)]
    Backend(BackendError),
}

/// How long the loop goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Until it is stopped.
    Stay,
    /// Until nothing is left to do.
    OnePass,
}

/// The runner: made by wiring, run once.
pub struct Runner {
    engine: Arc<Engine>,
    wakes: Wakes,
    mode: Mode,
    lanes: Lanes<Waiting>,
    /// The token of every call that is placed or runs.
    calls: HashMap<RequestId, CallToken>,
    rhythm: Rhythm,
    cursor: Option<String>,
    polling: bool,
    poll_at: Option<tokio::time::Instant>,
    listed: bool,
    drained: bool,
    pass: Pass,
}

struct CallToken {
    conversation: ConversationId,
    cancel: CancellationToken,
}

struct Waiting {
    call: Call,
    share: Share,
}

impl Runner {
    /// A runner of these parts.
    pub fn new(parts: Parts, wakes: (Waker, Wakes)) -> Self {
        let lanes = Lanes::new(parts.settings.reads, parts.settings.total);
        let rhythm = Rhythm::new(parts.settings.clone());
        Self {
            engine: Engine::new(parts, wakes.0),
            wakes: wakes.1,
            mode: Mode::Stay,
            lanes,
            calls: HashMap::new(),
            rhythm,
            cursor: None,
            polling: false,
            poll_at: None,
            listed: false,
            drained: false,
            pass: Pass::default(),
        }
    }

    /// Runs until it is stopped, then drains.
    ///
    /// # Errors
    /// [`RunnerError::Journal`], [`RunnerError::Barred`].
    pub async fn run(mut self, stop: &Stop) -> Result<(), RunnerError> {
        let left = self.begin().await?;
        let engine = Arc::clone(&self.engine);
        engine.tasks.spawn(delivery::work_outbox(Arc::clone(&engine)));
        engine.outbox.notify_one();
        engine.tasks.spawn(heartbeat::beat(Arc::clone(&engine)));
        engine.tasks.spawn(catalog::publish(Arc::clone(&engine)));
        engine.tasks.spawn(periodic::tick(Arc::clone(&engine)));
        self.place_all(left);
        self.list_open();
        self.poll();
        let ended = self.work(stop).await;
        self.drain(stop).await;
        ended
    }

    /// Settles what an earlier life left, and starts what every life needs.
    async fn begin(&mut self) -> Result<Vec<Accepted>, RunnerError> {
        let left = recovery::settle(&self.engine).await?;
        self.cursor = self.engine.journal.reader()?.recall("cursor")?;
        self.engine.tasks.spawn(leases::renew(Arc::clone(&self.engine)));
        Ok(left)
    }

    /// The loop.
    async fn work(&mut self, stop: &Stop) -> Result<(), RunnerError> {
        loop {
            match self.next_wake(stop).await {
                Wake::Polled(Ok(page), held) => self.take_page(page, held).await?,
                Wake::Polled(Err(error), _) => self.poll_failed(error)?,
                Wake::OpenListed(Ok(open)) => self.take_open(open).await?,
                Wake::OpenListed(Err(error)) => self.list_failed(&error)?,
                Wake::CallFinished(ended) => self.call_finished(&ended),
                Wake::TaskMade(accepted) => self.place_all([accepted]),
                Wake::CancelSeen(id) => self.cancel(&id),
                Wake::PollDue => self.poll(),
                Wake::ListOpenDue => self.list_open(),
                Wake::Stop => return Ok(()),
            }
            if self.mode == Mode::OnePass && self.is_idle() {
                return Ok(());
            }
        }
    }

    async fn next_wake(&mut self, stop: &Stop) -> Wake {
        let poll_at = self.poll_at;
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

    /// Whether one pass has nothing left to do but deliver.
    fn is_idle(&self) -> bool {
        self.listed && self.drained && !self.polling && self.calls.is_empty()
    }

    async fn take_page(&mut self, page: Page, held: Duration) -> Result<(), RunnerError> {
        self.polling = false;
        let (events, is_done) = (page.events.len(), page.is_done);
        let moved = page.cursor.filter(|cursor| self.cursor.as_ref() != Some(cursor));
        let admitted = match self.engine.admit(page.events, moved.clone()).await {
            Ok(admitted) => admitted,
            Err(error) => return self.page_refused(error),
        };
        if moved.is_some() {
            self.cursor = moved;
        }
        self.take_in(admitted);
        let (wait, recovered) = self.rhythm.page(events, is_done, held);
        if recovered {
            tracing::info!("the backend answers again");
            self.engine.outbox.notify_one();
        }
        self.drained = is_done;
        if self.mode == Mode::Stay || !is_done {
            self.poll_after(wait);
        }
        Ok(())
    }

    /// A page that the journal could not take was not taken: it is asked for again.
    fn page_refused(&mut self, error: JournalError) -> Result<(), RunnerError> {
        if self.mode == Mode::OnePass {
            return Err(error.into());
        }
        tracing::error!(%error, "a page of requests could not be accepted; it will be asked for again");
        self.poll_after(self.engine.settings.retry.1);
        Ok(())
    }

    async fn take_open(&mut self, open: Vec<Offered>) -> Result<(), RunnerError> {
        self.listed = true;
        match self.engine.admit(open, None).await {
            Ok(admitted) => self.take_in(admitted),
            Err(error) => return self.page_refused(error),
        }
        Ok(())
    }

    fn list_failed(&mut self, error: &BackendError) -> Result<(), RunnerError> {
        tracing::debug!(%error, "the open requests could not be listed now");
        self.listed = true;
        failed_for_good(error)
    }

    fn poll_failed(&mut self, error: BackendError) -> Result<(), RunnerError> {
        self.polling = false;
        failed_for_good(&error)?;
        if self.mode == Mode::OnePass {
            return Err(RunnerError::Backend(error));
        }
        let wait = self.rhythm.error(&error);
        tracing::warn!(%error, retry_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX), "the backend could not be polled");
        self.poll_after(wait);
        Ok(())
    }

    fn take_in(&mut self, admitted: Vec<Admission>) {
        for admission in admitted {
            match admission {
                Admission::Fresh(accepted) => {
                    self.pass.polled += 1;
                    self.place(accepted);
                }
                Admission::Answered(reply) => {
                    let engine = Arc::clone(&self.engine);
                    self.engine.tasks.spawn(async move { engine.deliver(reply).await });
                }
                Admission::Cancel(id) => self.cancel(&id),
                Admission::Conflict(conflict) => {
                    tracing::warn!(request.id = %conflict.id, "a second request under a known id was not run");
                }
                Admission::InFlight(_) | Admission::Closed(_) => {}
            }
        }
        self.start_ready();
    }

    fn place_all(&mut self, calls: impl IntoIterator<Item = Accepted>) {
        for accepted in calls {
            self.place(accepted);
        }
        self.start_ready();
    }

    fn place(&mut self, accepted: Accepted) {
        let request = accepted.request();
        let (id, conversation) = (request.id.clone(), request.conversation.clone());
        let control = self
            .engine
            .registry
            .find(request.tool.as_str())
            .is_ok_and(|tool| tool.spec().lane == Lane::Control);
        let share = match accepted.effect() {
            _ if control => Share::Free,
            Effect::AsksUser => Share::Free,
            Effect::Reads => Share::Read,
            Effect::Writes | Effect::Executes => Share::Effect,
        };
        let cancel = CancellationToken::new();
        if request.cancelled {
            cancel.cancel();
        }
        self.calls.insert(id, CallToken { conversation: conversation.clone(), cancel: cancel.clone() });
        self.lanes.place(&conversation, share, Waiting { call: Call { accepted, cancel }, share });
    }

    fn start_ready(&mut self) {
        while let Some(waiting) = self.lanes.next() {
            self.start(waiting.call, waiting.share);
        }
        if self.poll_at.is_none() && !self.polling && self.mode == Mode::Stay {
            self.poll();
        }
    }

    fn start(&self, call: Call, share: Share) {
        let engine = Arc::clone(&self.engine);
        let request = call.accepted.request();
        let ended = Ended { id: request.id.clone(), conversation: request.conversation.clone(), share };
        self.engine.tasks.spawn(async move {
            engine.answer(call).await;
            engine.waker.wake(Wake::CallFinished(ended));
        });
    }

    fn call_finished(&mut self, ended: &Ended) {
        self.pass.executed += 1;
        self.calls.remove(&ended.id);
        self.lanes.finished(&ended.conversation, ended.share);
        self.start_ready();
    }

    /// Cancels a call that runs; takes one that waits out of its lane, to be answered at once.
    fn cancel(&mut self, id: &RequestId) {
        let Some(token) = self.calls.get(id) else { return };
        token.cancel.cancel();
        let conversation = token.conversation.clone();
        let waiting = self.lanes.remove(&conversation, |waiting| waiting.call.accepted.request().id == *id);
        if let Some(waiting) = waiting {
            self.start(waiting.call, Share::Free);
        }
    }

    fn poll_after(&mut self, wait: Duration) {
        if wait.is_zero() {
            self.poll();
        } else {
            self.poll_at = Some(tokio::time::Instant::now() + wait);
        }
    }

    /// Asks for the next page, unless that is under way or enough is waiting.
    fn poll(&mut self) {
        self.poll_at = None;
        if self.polling || self.lanes.waiting() >= self.engine.settings.queue {
            return;
        }
        self.polling = true;
        let (engine, cursor) = (Arc::clone(&self.engine), self.cursor.clone());
        let wait = if self.mode == Mode::OnePass { Duration::ZERO } else { engine.settings.hold };
        self.engine.tasks.spawn(async move {
            let asked = Instant::now();
            let poll =
                engine.with_session(|| engine.backend.poll(cursor.as_deref(), engine.settings.page, wait));
            tokio::select! {
                polled = poll => engine.waker.wake(Wake::Polled(polled, asked.elapsed())),
                () = engine.stopping.cancelled() => {}
            }
        });
    }

    fn list_open(&self) {
        let engine = Arc::clone(&self.engine);
        self.engine.tasks.spawn(async move {
            tokio::select! {
                open = engine.with_session(|| engine.backend.list_open()) => engine.waker.wake(Wake::OpenListed(open)),
                () = engine.stopping.cancelled() => {}
            }
        });
    }
}

/// A refusal that no further asking can change ends the runner: only the owner can mend it.
fn failed_for_good(error: &BackendError) -> Result<(), RunnerError> {
    if error.disposition() == crate::backend::Disposition::Never {
        return Err(RunnerError::Barred(error.clone()));
    }
    Ok(())
}
