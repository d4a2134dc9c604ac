//! Asking for everything that is open at the backend: what a page may have missed shows there. Not here: what comes of
//! the answer (mod).

use std::sync::Arc;

use super::Runner;
use super::wake::Wake;

impl Runner {
    /// Asks; the answer wakes the loop.
    pub(super) fn list_open(&self) {
        let engine = Arc::clone(&self.engine);
        self.engine.tasks.spawn(async move {
            let asking = Arc::clone(&engine);
            let list = async move { asking.with_session(|| asking.backend.list_open()).await };
            tokio::select! {
                open = engine.apart(list) => engine.waker.wake(Wake::OpenListed(open)),
                () = engine.stopping.cancelled() => {}
            }
        });
    }
}
