//! A call that is placed in a lane or runs, as the executor sees it.

use tokio_util::sync::CancellationToken;

use super::lanes::LaneShare;
use crate::runner::wake_event::{EndedCall, LoopWaker, WakeEvent};
use punie_core::ids::{ConversationId, ToolName};

/// The handle that cancels a call that is placed or runs.
pub(in crate::runner) struct PlacedCall {
    pub tool: ToolName,
    pub conversation: ConversationId,
    pub cancel: CancellationToken,
    /// Cancelled before `cancel` when the owner stops the call.
    pub owner_stop: CancellationToken,
    /// Cancelled when its tool has ended, or will not begin.
    pub over: CancellationToken,
    pub share: LaneShare,
    pub place: PlaceState,
}

/// The state of a call's place among the running ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::runner) enum PlaceState {
    /// The call waits in its lane.
    Queued,
    /// The call holds its place.
    Held,
    /// The place is free while the call waits for a person.
    Waiting,
    /// The place was given up because the call takes long.
    Released,
}

impl PlaceState {
    /// Returns whether the call has left its lane and waits for no person.
    pub fn is_running(self) -> bool {
        matches!(self, Self::Held | Self::Released)
    }
}

/// Wakes the loop when dropped, so that the lane is freed however the call's task ends.
pub(super) struct LaneGuard {
    pub waker: LoopWaker,
    pub ended: EndedCall,
    pub over: CancellationToken,
}

impl Drop for LaneGuard {
    fn drop(&mut self) {
        self.over.cancel();
        self.waker.wake(WakeEvent::CallFinished(self.ended.clone()));
    }
}
