//! The one connection to the worker: opened when somebody needs it and it is not there, proven by a ping or a call before
//! it is used. When it is tried again after a failure is for whoever asks (the runner's back-off); only links that do not
//! last are slowed down here, because each of them looks like a success. Not here: what goes on it (traffic).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::ShownToken;
use super::inbox::Inbox;
use super::traffic::{Order, Pace, Traffic};
use crate::backend::dial::Dialer;
use crate::backend::error::BackendError;

/// A link that ended before this did not last.
const LASTING: Duration = Duration::from_secs(10);

/// The longest wait between links that do not last.
const LONGEST_GAP: Duration = Duration::from_secs(30);

/// The connection and what makes it anew.
pub(super) struct Links {
    dialer: Arc<Dialer>,
    token: ShownToken,
    inbox: Arc<Inbox>,
    pace: Pace,
    slot: Mutex<Slot>,
    is_up: watch::Sender<bool>,
}

#[derive(Default)]
struct Slot {
    link: Option<Arc<Link>>,
    /// Links on end that did not last.
    short: u32,
    /// When and how opening one failed last.
    failed: Option<(Instant, BackendError)>,
    work: JoinSet<()>,
}

/// One connection.
pub(super) struct Link {
    orders: mpsc::Sender<Order>,
    ended: watch::Receiver<Option<BackendError>>,
    born: Instant,
    seen: AtomicBool,
}

impl Links {
    pub(super) fn new(dialer: Dialer, token: ShownToken, inbox: Arc<Inbox>, pace: Pace) -> Self {
        let dialer = Arc::new(dialer);
        Self { dialer, token, inbox, pace, slot: Mutex::default(), is_up: watch::Sender::new(false) }
    }

    /// Whether there is one.
    pub(super) fn is_up(&self) -> watch::Receiver<bool> {
        self.is_up.subscribe()
    }

    /// The connection, opened now if there is none.
    ///
    /// # Errors
    /// Why none can be opened; to whoever waited meanwhile too.
    pub(super) async fn get(&self) -> Result<Arc<Link>, BackendError> {
        let asked = Instant::now();
        let mut slot = self.slot.lock().await;
        if let Some(link) = &slot.link
            && link.why_ended().is_none()
        {
            return Ok(Arc::clone(link));
        }
        if let Some((at, error)) = &slot.failed
            && *at >= asked
        {
            return Err(error.clone());
        }
        tokio::time::sleep(slot.gap()).await;
        match self.open(&mut slot).await {
            Ok(link) => {
                slot.failed = None;
                slot.link = Some(Arc::clone(&link));
                tracing::info!(url = self.dialer.url(), "the connection with the worker is up");
                Ok(link)
            }
            Err(error) => {
                slot.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Lets go of the connection, after a sleep of the machine: it may be dead and not know it.
    pub(super) fn drop_link(&self) {
        // While somebody opens one there is none to let go.
        if let Ok(mut slot) = self.slot.try_lock() {
            slot.link = None;
            slot.work.abort_all();
            self.is_up.send_replace(false);
        }
    }

    /// Closes the connection, if there is one, and waits until that is done.
    pub(super) async fn close(&self) {
        let mut slot = self.slot.lock().await;
        if let Some(link) = slot.link.take() {
            let _ = link.orders.send(Order::Close).await;
            while slot.work.join_next().await.is_some() {}
        }
    }

    async fn open(&self, slot: &mut Slot) -> Result<Arc<Link>, BackendError> {
        let socket = self.dialer.dial((self.token)().as_ref(), &[]).await?;
        let (orders, taken) = mpsc::channel(16);
        let (tell_end, ended) = watch::channel(None);
        let link = Arc::new(Link { orders, ended, born: Instant::now(), seen: AtomicBool::new(false) });
        let (dialer, inbox) = (Arc::clone(&self.dialer), Arc::clone(&self.inbox));
        let traffic = Traffic::new(socket, dialer, inbox, taken, self.pace);
        let is_up = self.is_up.clone();
        // A link that was replaced is over, or nobody uses it.
        slot.work.abort_all();
        slot.work = JoinSet::new();
        slot.work.spawn(async move {
            let end = traffic.run().await;
            tracing::info!(cause = %end, "the connection with the worker is down");
            tell_end.send_replace(Some(end));
            is_up.send_replace(false);
        });
        // A worker that refuses us after the handshake does so before it answers or asks anything.
        tokio::select! {
            answered = self.arrives(&link, None) => answered?,
            () = self.inbox.arrival() => {}
        }
        self.is_up.send_replace(true);
        Ok(link)
    }

    /// Sends this, if it is anything, and waits until the other end has it.
    ///
    /// # Errors
    /// Why that is not known.
    pub(super) async fn arrives(&self, link: &Link, text: Option<String>) -> Result<(), BackendError> {
        let (done, heard) = oneshot::channel();
        let sending = async {
            if link.orders.send(Order::Send(text, done)).await.is_err() || heard.await.is_err() {
                return Err(link.end().await);
            }
            Ok(())
        };
        let limit = self.pace.idle + self.pace.patience;
        tokio::time::timeout(limit, sending).await.unwrap_or_else(|_elapsed| {
            let seconds = limit.as_secs();
            Err(self.dialer.unreachable(&format!("no pong came within {seconds} s of a frame")))
        })
    }
}

impl Link {
    /// Sends this and waits for nothing.
    pub(super) async fn tell(&self, text: String) -> Result<(), BackendError> {
        match self.orders.send(Order::Tell(text)).await {
            Ok(()) => Ok(()),
            Err(_closed) => Err(self.end().await),
        }
    }

    /// Whether this is the first look at it.
    pub(super) fn is_new(&self) -> bool {
        !self.seen.swap(true, Ordering::Relaxed)
    }

    /// Why it ended, once it has.
    pub(super) async fn end(&self) -> BackendError {
        let mut ended = self.ended.clone();
        let told = ended.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        told.unwrap_or_else(dropped)
    }

    fn why_ended(&self) -> Option<BackendError> {
        let told = self.ended.borrow().clone();
        told.or_else(|| self.orders.is_closed().then(dropped))
    }
}

/// It was let go of from here.
fn dropped() -> BackendError {
    BackendError::Unreachable {
        url: "the worker".to_owned(),
        cause: "the connection was let go of".to_owned(),
    }
}

impl Slot {
    /// How long to wait before a link is opened in place of the last one.
    fn gap(&mut self) -> Duration {
        let Some(last) = self.link.take() else { return Duration::ZERO };
        if last.born.elapsed() >= LASTING {
            self.short = 0;
            return Duration::ZERO;
        }
        let gap = Duration::from_millis(100 << self.short.min(9)).min(LONGEST_GAP);
        self.short += 1;
        gap
    }
}
