//! The state of a call during a question: out of its lane, and listed for the person at this device.

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::journal::AcceptedRequest;
use crate::runner::wake_event::{LoopWaker, WakeEvent};
use punie_home::{ApprovalQuestions, ListedQuestion, OpenQuestion};

/// Lets other conversations use the place of a waiting call; dropping this returns the place.
pub(in crate::runner) struct LanePlaceRelease {
    waker: LoopWaker,
    call: AcceptedRequest,
}

impl LanePlaceRelease {
    pub fn release(waker: &LoopWaker, call: &AcceptedRequest) -> Self {
        waker.wake(WakeEvent::ApprovalBegan(call.clone()));
        Self {
            waker: waker.clone(),
            call: call.clone(),
        }
    }
}

impl Drop for LanePlaceRelease {
    fn drop(&mut self) {
        self.waker.wake(WakeEvent::ApprovalEnded(self.call.clone()));
    }
}

/// A question that is listed for the person at this device, or is being listed. Dropping it removes the question, or leaves
/// it for the next runner if this one stops.
pub(in crate::runner) struct DeviceQuestion(JoinHandle<Option<StoppableQuestion>>);

impl DeviceQuestion {
    pub fn list_question(
        desk: ApprovalQuestions,
        question: OpenQuestion,
        stopping: CancellationToken,
    ) -> Self {
        Self(tokio::task::spawn_blocking(move || {
            let listed = desk.list_question(&question).inspect_err(|error| {
                tracing::warn!(%error, "the person at this device cannot be asked");
            });
            Some(StoppableQuestion {
                listed: Some(listed.ok()?),
                stopping,
            })
        }))
    }

    /// Removes the question from the list, which writes files again.
    pub async fn unlist(self) {
        if let Ok(Some(mut question)) = self.0.await {
            let listed = question.listed.take();
            let _ = tokio::task::spawn_blocking(move || drop(listed)).await;
        }
    }
}

/// A listed question whose call may be dropped because the runner stops.
struct StoppableQuestion {
    listed: Option<ListedQuestion>,
    stopping: CancellationToken,
}

impl Drop for StoppableQuestion {
    fn drop(&mut self) {
        if self.stopping.is_cancelled()
            && let Some(listed) = self.listed.take()
        {
            listed.leave_listed();
        }
    }
}
