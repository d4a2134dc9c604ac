//! The state of a call during a question: out of its lane, and listed for the person at this device. Not here: the
//! asking.

use tokio::task::JoinHandle;

use crate::home::{Approvals, OpenQuestion};
use crate::ids::RequestId;
use crate::journal::Accepted;
use crate::runner::wake::{Wake, Waker};

/// Lets other conversations use the place of a waiting call; dropping this returns the place.
pub(in crate::runner) struct Aside {
    waker: Waker,
    call: Accepted,
}

impl Aside {
    pub fn step(waker: &Waker, call: &Accepted) -> Self {
        waker.wake(Wake::Asks(call.clone()));
        Self { waker: waker.clone(), call: call.clone() }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.waker.wake(Wake::Asked(self.call.clone()));
    }
}

/// A question that is listed for the person at this device, or is being listed. Dropping it also removes it.
pub(in crate::runner) struct OpenHere(JoinHandle<Listed>);

impl OpenHere {
    /// Lists a question.
    pub fn list(desk: Approvals, question: OpenQuestion) -> Self {
        let listed = Listed { desk, id: question.id.clone() };
        Self(tokio::task::spawn_blocking(move || {
            if let Err(error) = listed.desk.open(&question) {
                tracing::warn!(%error, "the person at this device cannot be asked");
            }
            listed
        }))
    }

    /// Removes the question from the list, which writes files again.
    pub async fn close(self) {
        if let Ok(listed) = self.0.await {
            let _ = tokio::task::spawn_blocking(move || drop(listed)).await;
        }
    }
}

/// A listed question; dropping it removes it.
struct Listed {
    desk: Approvals,
    id: RequestId,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.desk.close(&self.id);
    }
}
