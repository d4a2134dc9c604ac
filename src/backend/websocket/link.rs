//! The one connection to the worker. It is opened on demand, and a ping or a call must arrive before it is used.
//!
//! The time of a retry after a failure is the caller's choice (the runner's back-off). Only connections that end soon
//! after they were opened are delayed here, because each of them looks like a success.
//! Not here: the messages.

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

/// A connection that ended before this was short-lived.
const LASTING: Duration = Duration::from_secs(10);

/// The longest wait between short-lived connections.
const LONGEST_GAP: Duration = Duration::from_secs(30);

/// Opens the connection when it is needed, and keeps it.
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
    /// The number of short-lived connections in a row.
    short: u32,
    /// The time and the error of the last failure to connect.
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

    /// Subscribes to the status of the connection: true while it is up.
    pub(super) fn is_up(&self) -> watch::Receiver<bool> {
        self.is_up.subscribe()
    }

    /// Returns the connection; opens one if there is none.
    ///
    /// # Errors
    /// The reason why no connection can be opened. Callers that waited meanwhile get the same error.
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

    /// Drops the connection after a sleep of the machine: it may be dead without a sign of it.
    pub(super) fn drop_link(&self) {
        // While another task opens a connection there is none to drop.
        if let Ok(mut slot) = self.slot.try_lock() {
            slot.link = None;
            slot.work.abort_all();
            self.is_up.send_replace(false);
        }
    }

    /// Closes the connection, if there is one, and waits for its end.
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
        // The replaced connection has ended, or has no users.
        slot.work.abort_all();
        slot.work = JoinSet::new();
        slot.work.spawn(async move {
            let end = traffic.run().await;
            tracing::info!(cause = %end, "the connection with the worker is down");
            tell_end.send_replace(Some(end));
            is_up.send_replace(false);
        });
        // A worker that refuses this device after the handshake does so before it answers or sends anything.
        tokio::select! {
            answered = self.arrives(&link, None) => answered?,
            () = self.inbox.arrival() => {}
        }
        self.is_up.send_replace(true);
        Ok(link)
    }

    /// Sends this text, if any, and waits until the worker has received it.
    ///
    /// # Errors
    /// The reason why the arrival is unknown.
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
    /// Sends this text without waiting for a confirmation.
    pub(super) async fn tell(&self, text: String) -> Result<(), BackendError> {
        match self.orders.send(Order::Tell(text)).await {
            Ok(()) => Ok(()),
            Err(_closed) => Err(self.end().await),
        }
    }

    /// Returns true for the first caller only.
    pub(super) fn is_new(&self) -> bool {
        !self.seen.swap(true, Ordering::Relaxed)
    }

    /// Waits for the connection's end and returns its reason.
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

/// Returns the error for a connection that was dropped on this side.
fn dropped() -> BackendError {
    BackendError::Unreachable {
        url: "the worker".to_owned(),
        cause: "the connection was let go of".to_owned(),
    }
}

impl Slot {
    /// Returns the delay before a connection replaces the last one.
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
