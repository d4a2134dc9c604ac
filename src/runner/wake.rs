//! The events that can wake the loop.

use tokio::sync::mpsc;

use super::executor::lanes::Share;
use crate::backend::{BackendError, Offered, Page};
use crate::ids::{ConversationId, RequestId};
use crate::journal::Accepted;

/// An event that wakes the loop.
#[derive(Debug)]
pub(super) enum Wake {
    /// The poll of this number came back after it was held for this long.
    Polled(u64, Result<Page, BackendError>, std::time::Duration),
    /// The list of everything open came back.
    OpenListed(Result<Vec<Offered>, BackendError>),
    /// A call ended, whatever its outcome; its result is recorded or its request closed.
    CallFinished(Ended),
    /// A Task tool created a request.
    TaskMade(Accepted),
    /// The caller cancelled a request, as reported by a lease renewal or a progress report.
    CancelSeen(RequestId),
    /// A call waits for approval and needs no place meanwhile.
    Asks(Accepted),
    /// The question was answered; the call goes on or is over.
    Asked(Accepted),
    /// A call has run for so long that others may use its place.
    TakesLong(RequestId),
    /// The pause of calls began or ended.
    HoldChanged,
    /// The machine slept for about this long.
    Woke(std::time::Duration),
    /// The backend reports that there may be new events.
    Pushed,
    /// A poll is due.
    PollDue,
    /// A list of everything open is due.
    ListOpenDue,
    /// The runner is to stop.
    Stop,
}

/// A call that ended.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    pub id: RequestId,
    pub conversation: ConversationId,
    pub share: Share,
    /// The size of its arguments.
    pub bytes: usize,
}

/// Wakes the loop from other tasks.
#[derive(Debug, Clone)]
pub struct Waker(pub(super) mpsc::UnboundedSender<Wake>);

impl Waker {
    pub(super) fn wake(&self, wake: Wake) {
        // A loop that has ended needs no events; the journal has the request.
        let _ = self.0.send(wake);
    }
}

/// The receiver of the loop's events.
#[derive(Debug)]
pub struct Wakes(pub(super) mpsc::UnboundedReceiver<Wake>);

/// Creates a waker and its receiver. The number of queued events is bounded by the existing calls and timers.
pub fn wakes() -> (Waker, Wakes) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Waker(sender), Wakes(receiver))
}
