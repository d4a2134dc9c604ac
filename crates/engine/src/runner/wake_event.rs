//! The events that can wake the loop.

use tokio::sync::mpsc;

use super::executor::lanes::LaneShare;
use crate::backend::{BackendError, EventPage, OfferedEvent};
use crate::journal::AcceptedRequest;
use punie_core::ids::{ConversationId, RequestId};
use punie_home::StopOrder;

/// An event that wakes the loop.
#[derive(Debug)]
pub(super) enum WakeEvent {
    /// The poll of this number came back after it was held for this long.
    Polled(u64, Result<EventPage, BackendError>, std::time::Duration),
    /// The list of everything open came back.
    OpenListed(Result<Vec<OfferedEvent>, BackendError>),
    /// A call ended, whatever its outcome; its result is recorded or its request closed.
    CallFinished(EndedCall),
    /// A Task tool created a request.
    TaskCreated(AcceptedRequest),
    /// The caller cancelled a request, as reported by a lease renewal or a progress report.
    CancelSeen(RequestId),
    /// A call waits for approval and needs no place meanwhile.
    ApprovalBegan(AcceptedRequest),
    /// The question was answered; the call goes on or is over.
    ApprovalEnded(AcceptedRequest),
    /// A call has run for so long that others may use its place.
    RunsLong(RequestId),
    /// The pause of calls began or ended.
    PauseChanged,
    /// The owner ordered that calls and commands end.
    StopOrdered(StopOrder),
    /// The machine slept for about this long.
    MachineWoke(std::time::Duration),
    /// The backend reports that there may be new events.
    Pushed,
    PollDue,
    /// A list of everything open is due.
    ListOpenDue,
    /// The runner is to stop.
    Stop,
}

#[derive(Debug, Clone)]
pub(super) struct EndedCall {
    pub id: RequestId,
    pub conversation: ConversationId,
    pub share: LaneShare,
    /// The size of its arguments.
    pub bytes: usize,
}

/// Wakes the loop from other tasks.
#[derive(Debug, Clone)]
pub struct LoopWaker(pub(super) mpsc::UnboundedSender<WakeEvent>);

impl LoopWaker {
    pub(super) fn wake(&self, wake: WakeEvent) {
        // A loop that has ended needs no events; the journal has the request.
        let _ = self.0.send(wake);
    }
}

/// The receiver of the loop's events.
#[derive(Debug)]
pub struct WakeReceiver(pub(super) mpsc::UnboundedReceiver<WakeEvent>);

/// Creates a waker and its receiver. The number of queued events is bounded by the existing calls and timers.
pub fn wake_channel() -> (LoopWaker, WakeReceiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (LoopWaker(sender), WakeReceiver(receiver))
}
