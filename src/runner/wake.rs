//! Everything that can wake the loop, in one list.

use tokio::sync::mpsc;

use super::executor::lanes::Share;
use crate::backend::{BackendError, Offered, Page};
use crate::ids::{ConversationId, RequestId};
use crate::journal::Accepted;

/// What woke the loop.
#[derive(Debug)]
pub(super) enum Wake {
    /// The poll of this number came back, having been held for as long as said.
    Polled(u64, Result<Page, BackendError>, std::time::Duration),
    /// The list of everything open came back.
    OpenListed(Result<Vec<Offered>, BackendError>),
    /// A call ended, whatever its outcome; its result is recorded or its request closed.
    CallFinished(Ended),
    /// A Task tool made a request of its own.
    TaskMade(Accepted),
    /// The caller took a request back; learned while renewing its lease.
    CancelSeen(RequestId),
    /// A call waits for somebody's word, and takes no place meanwhile.
    Asks(Accepted),
    /// It has it, and goes on or is over.
    Asked(Accepted),
    /// A call has run for so long that others may have its place.
    TakesLong(RequestId),
    /// Calls may begin again, or no longer.
    HoldChanged,
    /// The machine slept for about so long.
    Woke(std::time::Duration),
    /// The backend says that there may be something to poll for.
    Pushed,
    /// It is time to poll again.
    PollDue,
    /// It is time to look at everything open.
    ListOpenDue,
    /// Stop.
    Stop,
}

/// A call that ended.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    pub id: RequestId,
    pub conversation: ConversationId,
    pub share: Share,
    /// Of its arguments.
    pub bytes: usize,
}

/// Wakes the loop from elsewhere.
#[derive(Debug, Clone)]
pub struct Waker(pub(super) mpsc::UnboundedSender<Wake>);

impl Waker {
    pub(super) fn wake(&self, wake: Wake) {
        // A loop that has ended needs no waking; the journal keeps what this was about.
        let _ = self.0.send(wake);
    }
}

/// The loop's end of all wakers.
#[derive(Debug)]
pub struct Wakes(pub(super) mpsc::UnboundedReceiver<Wake>);

/// A waker and the loop's end of it. The number in flight is bounded by the calls and timers that exist.
pub fn wakes() -> (Waker, Wakes) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Waker(sender), Wakes(receiver))
}
