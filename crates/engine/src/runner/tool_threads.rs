//! Threads for blocking work. Each tool call runs on its own thread, so that a hanging path on a network disk blocks
//! neither polls nor heartbeats nor other calls.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The threads for tasks that tools start, and for the timers and pipes that they wait for.
const WORKER_THREADS: usize = 2;

/// The threads of tools; clones share them. The default is the runner's own runtime.
#[derive(Debug, Clone, Default)]
pub struct ToolThreads(Option<Arc<ToolThreadPool>>);

/// Created for the first tool, so that a runner without work has none. The threads sleep while there is nothing to
/// do.
#[derive(Debug, Default)]
struct ToolThreadPool(Mutex<Option<Runtime>>);

/// A running tool call.
pub(super) struct RunningTool<T> {
    task: JoinHandle<Option<T>>,
    abandoned: CancellationToken,
}

impl<T> RunningTool<T> {
    /// Waits for the tool's result; `None` once it is abandoned.
    ///
    /// # Errors
    /// The tool panicked.
    pub(super) async fn wait_for_result(&mut self) -> Result<Option<T>, JoinError> {
        (&mut self.task).await
    }

    /// Drops the call where it waits. A call that blocks its thread is dropped when it continues.
    pub(super) fn abandon(&self) {
        self.abandoned.cancel();
    }
}

impl ToolThreads {
    /// Creates separate threads, for a runner with only one thread. Tasks that a tool started continue there, so keep
    /// this value while they may matter.
    pub fn with_own_threads() -> Self {
        Self(Some(Arc::default()))
    }

    pub(super) fn spawn<T: Send + 'static>(
        &self,
        tasks: &TaskTracker,
        tool: impl Future<Output = T> + Send + 'static,
    ) -> RunningTool<T> {
        let abandoned = CancellationToken::new();
        let until = abandoned.clone();
        let tool = async move { until.run_until_cancelled(tool).await };
        let task = match self.0.as_ref().and_then(|threads| threads.runtime_handle()) {
            Some(beside) => {
                let here = beside.clone();
                tasks.spawn_blocking_on(move || here.block_on(tool), &beside)
            }
            None => tasks.spawn(tool),
        };
        RunningTool { task, abandoned }
    }
}

impl ToolThreadPool {
    fn runtime_handle(&self) -> Option<Handle> {
        let mut runtime = self.0.lock();
        if runtime.is_none() {
            let made = Builder::new_multi_thread()
                .worker_threads(WORKER_THREADS)
                .thread_name("tools")
                .enable_all()
                .build()
                .map_err(|error| tracing::warn!(%error, "no threads for tools; one that hangs stops all"));
            *runtime = made.ok();
        }
        runtime.as_ref().map(|runtime| runtime.handle().clone())
    }
}

impl Drop for ToolThreadPool {
    fn drop(&mut self) {
        // A thread that hangs must not be waited for.
        if let Some(runtime) = self.0.get_mut().take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs work that does file I/O or computes for long on a blocking thread. A panic of the work is passed on.
pub(super) async fn run_on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(cause) if cause.is_panic() => std::panic::resume_unwind(cause.into_panic()),
        // The runtime is shutting down, and with it the caller.
        Err(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tools_that_hold_up_their_threads_hold_up_no_other() {
        let bench = ToolThreads::with_own_threads();
        let tasks = TaskTracker::new();
        let (let_go, gate) = std::sync::mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let (holds, mut held) = tokio::sync::mpsc::unbounded_channel();
        let mut hanging = Vec::new();
        for _ in 0..4 {
            let gate = Arc::clone(&gate);
            let holds = holds.clone();
            hanging.push(bench.spawn(&tasks, async move {
                holds.send(()).expect("it is waited for");
                // Like access to a path on a disk that does not answer.
                gate.lock().recv().ok()
            }));
        }
        let one_more = async {
            for _ in 0..4 {
                held.recv().await.expect("it holds up its thread");
            }
            bench.spawn(&tasks, async { 7 }).wait_for_result().await
        };
        let said = tokio::time::timeout(std::time::Duration::from_mins(1), one_more).await;
        drop(let_go);
        assert_eq!(
            said.expect("it waits for none of them").expect("no panic"),
            Some(7)
        );
    }

    #[tokio::test]
    async fn a_tool_that_waits_is_dropped_when_it_is_abandoned() {
        let bench = ToolThreads::with_own_threads();
        let tasks = TaskTracker::new();
        let (held, dropped) = tokio::sync::oneshot::channel::<()>();
        let mut running = bench.spawn(&tasks, async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        running.abandon();
        assert_eq!(running.wait_for_result().await.expect("no panic"), None);
        dropped.await.expect_err("what it held is gone");
    }
}
