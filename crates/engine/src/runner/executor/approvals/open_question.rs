//! The state of a call during a question: out of its lane, and listed for the person at this device. Not here: the
//! asking.

use tokio::task::JoinHandle;

use crate::journal::AcceptedRequest;
use crate::runner::wake_event::{LoopWaker, WakeEvent};
use punie_home::{ApprovalQuestions, ListedQuestion, OpenQuestion};

/// Lets other conversations use the place of a waiting call; dropping this returns the place.
pub(in crate::runner) struct LanePlaceRelease {
    waker: LoopWaker,
    call: AcceptedRequest,
}

impl LanePlaceRelease {
    pub fn release_place(waker: &LoopWaker, call: &AcceptedRequest) -> Self {
        waker.wake_loop(WakeEvent::ApprovalBegan(call.clone()));
        Self {
            waker: waker.clone(),
            call: call.clone(),
        }
    }
}

impl Drop for LanePlaceRelease {
    fn drop(&mut self) {
        self.waker
            .wake_loop(WakeEvent::ApprovalEnded(self.call.clone()));
    }
}

/// A question that is listed for the person at this device, or is being listed. Dropping it also removes it.
pub(in crate::runner) struct DeviceQuestion(JoinHandle<Option<ListedQuestion>>);

impl DeviceQuestion {
    /// Lists a question.
    pub fn list_question(desk: ApprovalQuestions, question: OpenQuestion) -> Self {
        Self(tokio::task::spawn_blocking(move || {
            desk.list_question(&question)
                .inspect_err(|error| {
                    tracing::warn!(%error, "the person at this device cannot be asked");
                })
                .ok()
        }))
    }

    /// Removes the question from the list, which writes files again.
    pub async fn unlist_question(self) {
        if let Ok(listed) = self.0.await {
            let _ = tokio::task::spawn_blocking(move || drop(listed)).await;
        }
    }
}
