//! The one connection to the worker. It is opened on demand, and a ping or a call must arrive before it is used.
//!
//! The time of a retry after a failure is the caller's choice (the runner's back-off). Only connections that end soon
//! after they were opened are delayed here, because each of them looks like a success.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::TokenSource;
use super::inbox::CallInbox;
use super::socket_task::{PingPolicy, SocketCommand, SocketTask};
use crate::backend::dial::WebSocketDialer;
use crate::backend::error::BackendError;

/// A connection that ended before this was short-lived.
const LASTING: Duration = Duration::from_secs(10);

/// The longest wait between short-lived connections.
const LONGEST_GAP: Duration = Duration::from_secs(30);

/// Opens the connection when it is needed, and keeps it.
pub(super) struct WorkerConnector {
    dialer: Arc<WebSocketDialer>,
    token: TokenSource,
    inbox: Arc<CallInbox>,
    pace: PingPolicy,
    slot: Mutex<ConnectionSlot>,
    is_up: watch::Sender<bool>,
}

#[derive(Default)]
struct ConnectionSlot {
    link: Option<Arc<WorkerConnection>>,
    /// The number of short-lived connections in a row.
    short_lived_count: u32,
    /// The time and the error of the last failure to connect.
    failed: Option<(Instant, BackendError)>,
    work: JoinSet<()>,
}

pub(super) struct WorkerConnection {
    orders: mpsc::Sender<SocketCommand>,
    ended: watch::Receiver<Option<BackendError>>,
    opened_at: Instant,
    seen: AtomicBool,
}

impl WorkerConnector {
    pub(super) fn new(
        dialer: WebSocketDialer,
        token: TokenSource,
        inbox: Arc<CallInbox>,
        pace: PingPolicy,
    ) -> Self {
        let dialer = Arc::new(dialer);
        Self {
            dialer,
            token,
            inbox,
            pace,
            slot: Mutex::default(),
            is_up: watch::Sender::new(false),
        }
    }

    /// Subscribes to the status of the connection: true while it is up.
    pub(super) fn subscribe_status(&self) -> watch::Receiver<bool> {
        self.is_up.subscribe()
    }

    /// Returns the connection; opens one if there is none.
    ///
    /// # Errors
    /// The reason why no connection can be opened. Callers that waited meanwhile get the same error.
    pub(super) async fn get_or_connect(&self) -> Result<Arc<WorkerConnection>, BackendError> {
        let asked = Instant::now();
        let mut slot = self.slot.lock().await;
        if let Some(link) = &slot.link
            && link.end_reason().is_none()
        {
            return Ok(Arc::clone(link));
        }
        if let Some((at, error)) = &slot.failed
            && *at >= asked
        {
            return Err(error.clone());
        }
        tokio::time::sleep(slot.reconnect_delay()).await;
        match self.open_connection(&mut slot).await {
            Ok(link) => {
                slot.failed = None;
                slot.link = Some(Arc::clone(&link));
                tracing::debug!(
                    url = self.dialer.url(),
                    "the connection with the worker is up"
                );
                Ok(link)
            }
            Err(error) => {
                slot.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Drops the connection after a sleep of the machine: it may be dead without a sign of it.
    pub(super) fn drop_connection(&self) {
        // While another task opens a connection there is none to drop.
        if let Ok(mut slot) = self.slot.try_lock() {
            slot.link = None;
            slot.work.abort_all();
            self.is_up.send_replace(false);
        }
    }

    /// Closes the connection, if there is one, and waits for its end.
    pub(super) async fn close_connection(&self) {
        let mut slot = self.slot.lock().await;
        if let Some(link) = slot.link.take() {
            let _ = link.orders.send(SocketCommand::Close).await;
            while slot.work.join_next().await.is_some() {}
        }
    }

    async fn open_connection(
        &self,
        slot: &mut ConnectionSlot,
    ) -> Result<Arc<WorkerConnection>, BackendError> {
        let socket = self
            .dialer
            .open_socket((self.token)().as_ref(), &[])
            .await?;
        let (orders, taken) = mpsc::channel(16);
        let (tell_end, ended) = watch::channel(None);
        let link = Arc::new(WorkerConnection {
            orders,
            ended,
            opened_at: Instant::now(),
            seen: AtomicBool::new(false),
        });
        let dialer = Arc::clone(&self.dialer);
        let inbox = Arc::clone(&self.inbox);
        let traffic = SocketTask::new(socket, dialer, inbox, taken, self.pace);
        let is_up = self.is_up.clone();
        // The replaced connection has ended, or has no users.
        slot.work.abort_all();
        slot.work = JoinSet::new();
        slot.work.spawn(async move {
            let end = traffic.run_until_closed().await;
            tracing::debug!(cause = %end, "the connection with the worker is down");
            tell_end.send_replace(Some(end));
            is_up.send_replace(false);
        });
        // A worker that refuses this device after the handshake does so before it answers or sends anything.
        tokio::select! {
            answered = self.deliver_text(&link, None) => answered?,
            () = self.inbox.wait_for_arrival() => {}
        }
        self.is_up.send_replace(true);
        Ok(link)
    }

    /// Sends this text, if any, and waits until the worker has received it.
    ///
    /// # Errors
    /// The reason why the arrival is unknown.
    pub(super) async fn deliver_text(
        &self,
        link: &WorkerConnection,
        text: Option<String>,
    ) -> Result<(), BackendError> {
        let (done, heard) = oneshot::channel();
        let sending = async {
            if link
                .orders
                .send(SocketCommand::SendConfirmed(text, done))
                .await
                .is_err()
                || heard.await.is_err()
            {
                return Err(link.wait_for_end().await);
            }
            Ok(())
        };
        let limit = self.pace.idle + self.pace.patience;
        tokio::time::timeout(limit, sending)
            .await
            .unwrap_or_else(|_elapsed| {
                let seconds = limit.as_secs();
                Err(self
                    .dialer
                    .unreachable_error(&format!("no pong came within {seconds} s of a frame")))
            })
    }
}

impl WorkerConnection {
    /// Sends this text without waiting for a confirmation.
    pub(super) async fn send_unconfirmed(&self, text: String) -> Result<(), BackendError> {
        match self.orders.send(SocketCommand::SendUnconfirmed(text)).await {
            Ok(()) => Ok(()),
            Err(_closed) => Err(self.wait_for_end().await),
        }
    }

    /// Returns true for the first caller only.
    pub(super) fn is_first_use(&self) -> bool {
        !self.seen.swap(true, Ordering::Relaxed)
    }

    /// Waits for the connection's end and returns its reason.
    pub(super) async fn wait_for_end(&self) -> BackendError {
        let mut ended = self.ended.clone();
        let told = ended
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|end| end.clone());
        told.unwrap_or_else(dropped_error)
    }

    fn end_reason(&self) -> Option<BackendError> {
        let told = self.ended.borrow().clone();
        told.or_else(|| self.orders.is_closed().then(dropped_error))
    }
}

/// Returns the error for a connection that was dropped on this side.
fn dropped_error() -> BackendError {
    BackendError::Unreachable {
        url: "the worker".to_owned(),
        cause: "the connection was let go of".to_owned(),
    }
}

impl ConnectionSlot {
    /// Returns the delay before a connection replaces the last one.
    fn reconnect_delay(&mut self) -> Duration {
        let Some(last) = self.link.take() else {
            return Duration::ZERO;
        };
        if last.opened_at.elapsed() >= LASTING {
            self.short_lived_count = 0;
            return Duration::ZERO;
        }
        let gap = Duration::from_millis(100 << self.short_lived_count.min(9)).min(LONGEST_GAP);
        self.short_lived_count += 1;
        gap
    }
}
