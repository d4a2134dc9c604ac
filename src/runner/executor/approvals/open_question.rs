//! Where a call stands while somebody is asked about it: out of its lane, and on the list of the person here. Not here:
//! the asking.

use tokio::task::JoinHandle;

use crate::home::{Approvals, OpenQuestion};
use crate::ids::RequestId;
use crate::journal::Accepted;
use crate::runner::wake::{Wake, Waker};

/// A call that waits holds up no other conversation; dropping this brings it back to its place.
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

/// A question that is on the person's list, or on its way there. Dropping it takes it off, too.
pub(in crate::runner) struct OpenHere(JoinHandle<Listed>);

impl OpenHere {
    /// Puts a question on it.
    pub fn list(desk: Approvals, question: OpenQuestion) -> Self {
        let listed = Listed { desk, id: question.id.clone() };
        Self(tokio::task::spawn_blocking(move || {
            if let Err(error) = listed.desk.open(&question) {
                tracing::warn!(%error, "the person at this device cannot be asked");
            }
            listed
        }))
    }

    /// Takes it off the list, which is files again.
    pub async fn close(self) {
        if let Ok(listed) = self.0.await {
            let _ = tokio::task::spawn_blocking(move || drop(listed)).await;
        }
    }
}

/// A question on the person's list; dropping it takes it off.
struct Listed {
    desk: Approvals,
    id: RequestId,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.desk.close(&self.id);
    }
}
