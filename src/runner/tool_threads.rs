//! Where work is done that may hold up its thread: each call of a tool on a thread of its own, so that a path on a
//! network disk that hangs stops neither polls nor heartbeats nor another call. Not here: when a tool is ended (execute).

use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// For what tools start beside themselves, and for the timers and pipes that they wait for.
const THREADS: usize = 2;

/// Where tools run; clones are the same place. The default is wherever the runner itself runs.
#[derive(Debug, Clone, Default)]
pub struct ToolThreads(Option<Arc<Threads>>);

/// Made for the first tool: a runner without work has none of them. They rest when there is nothing to do.
#[derive(Debug, Default)]
struct Threads(Mutex<Option<Runtime>>);

/// A call of a tool that runs.
pub(super) struct Running<T> {
    task: JoinHandle<Option<T>>,
    abandoned: CancellationToken,
}

impl<T> Running<T> {
    /// Waits for what the tool says; none once it is abandoned.
    ///
    /// # Errors
    /// It panicked.
    pub(super) async fn ended(&mut self) -> Result<Option<T>, JoinError> {
        (&mut self.task).await
    }

    /// Drops the call where it waits. One that holds up its thread is dropped when it goes on.
    pub(super) fn abandon(&self) {
        self.abandoned.cancel();
    }
}

impl ToolThreads {
    /// Threads beside those of the runner, for a runner that has only one. What a tool began goes on there: this is to
    /// be kept for as long as that may matter.
    pub fn beside() -> Self {
        Self(Some(Arc::default()))
    }

    pub(super) fn spawn<T: Send + 'static>(
        &self,
        tasks: &TaskTracker,
        tool: impl Future<Output = T> + Send + 'static,
    ) -> Running<T> {
        let abandoned = CancellationToken::new();
        let until = abandoned.clone();
        let tool = async move { until.run_until_cancelled(tool).await };
        let task = match self.0.as_ref().and_then(|threads| threads.handle()) {
            Some(beside) => {
                let here = beside.clone();
                tasks.spawn_blocking_on(move || here.block_on(tool), &beside)
            }
            None => tasks.spawn(tool),
        };
        Running { task, abandoned }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tools_that_hold_up_their_threads_hold_up_no_other() {
        let (bench, tasks) = (ToolThreads::beside(), TaskTracker::new());
        let (let_go, gate) = std::sync::mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let (holds, mut held) = tokio::sync::mpsc::unbounded_channel();
        let mut hanging = Vec::new();
        for _ in 0..4 {
            let (gate, holds) = (Arc::clone(&gate), holds.clone());
            hanging.push(bench.spawn(&tasks, async move {
                holds.send(()).expect("it is waited for");
                // As a look at a path on a disk that does not answer.
                gate.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
            }));
        }
        let one_more = async {
            for _ in 0..4 {
                held.recv().await.expect("it holds up its thread");
            }
            bench.spawn(&tasks, async { 7 }).ended().await
        };
        let said = tokio::time::timeout(std::time::Duration::from_mins(1), one_more).await;
        drop(let_go);
        assert_eq!(said.expect("it waits for none of them").expect("no panic"), Some(7));
    }

    #[tokio::test]
    async fn a_tool_that_waits_is_dropped_when_it_is_abandoned() {
        let (bench, tasks) = (ToolThreads::beside(), TaskTracker::new());
        let (held, dropped) = tokio::sync::oneshot::channel::<()>();
        let mut running = bench.spawn(&tasks, async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        running.abandon();
        assert_eq!(running.ended().await.expect("no panic"), None);
        dropped.await.expect_err("what it held is gone");
    }
}
