//! Where work is done that may hold up its thread: tools on threads of their own beside the loop's, so that a path on a
//! network disk that hangs stops neither polls nor heartbeats. Not here: when a tool is ended (execute).

use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

/// One tool that holds up its thread leaves one for the others.
const THREADS: usize = 2;

/// Where tools run; clones are the same place. The default is wherever the runner itself runs.
#[derive(Debug, Clone, Default)]
pub struct Bench(Option<Arc<Threads>>);

/// Made for the first tool: a runner without work has none of them. They rest when there is nothing to do.
#[derive(Debug, Default)]
struct Threads(Mutex<Option<Runtime>>);

impl Bench {
    /// Threads beside those of the runner, for a runner that has only one. What a tool began goes on there: this is to
    /// be kept for as long as that may matter.
    pub fn beside() -> Self {
        Self(Some(Arc::default()))
    }

    pub(super) fn spawn<T: Send + 'static>(
        &self,
        tasks: &TaskTracker,
        tool: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        match self.0.as_ref().and_then(|threads| threads.handle()) {
            Some(beside) => tasks.spawn_on(tool, &beside),
            None => tasks.spawn(tool),
        }
    }
}

impl Threads {
    fn handle(&self) -> Option<Handle> {
        let mut runtime = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if runtime.is_none() {
            let made = Builder::new_multi_thread()
                .worker_threads(THREADS)
                .thread_name("tools")
                .enable_all()
                .build()
                .map_err(|error| tracing::warn!(%error, "no threads for tools; one that hangs stops all"));
            *runtime = made.ok();
        }
        runtime.as_ref().map(|runtime| runtime.handle().clone())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // One that hangs must not be waited for.
        if let Some(runtime) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            runtime.shutdown_background();
        }
    }
}

/// Does what reads or writes files, or computes for long, on a thread that may be held up. It fails as the work does.
pub(super) async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(cause) if cause.is_panic() => std::panic::resume_unwind(cause.into_panic()),
        // The runtime is over, and with it whoever awaits this.
        Err(_) => std::future::pending().await,
    }
}
