//! The runner's tasks and the phases of its shutdown.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::backend::BackendError;

/// The phases of the runner's shutdown, each begun by cancelling its token.
#[derive(Debug, Clone, Default)]
pub(super) struct ShutdownPhases {
    /// No new work is accepted.
    pub stopping: CancellationToken,
    /// Running calls must end.
    pub ending: CancellationToken,
    /// No call is waited for any more; the end of a later one is ignored.
    pub calls_over: CancellationToken,
    /// Everything must end.
    pub over: CancellationToken,
}

/// The tasks of one runner; a stop waits for them. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct BackgroundTasks {
    tasks: TaskTracker,
    restart_delay: Duration,
    pub phases: ShutdownPhases,
}

impl BackgroundTasks {
    /// Creates the set without tasks. A task that panics is restarted after this delay.
    pub(super) fn new(restart_delay: Duration) -> Self {
        Self {
            tasks: TaskTracker::new(),
            restart_delay,
            phases: ShutdownPhases::default(),
        }
    }

    pub(super) fn tracker(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Starts a task.
    pub(super) fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tasks.spawn(task)
    }

    /// Runs a task of a component until it ends by itself; one that panics is restarted.
    pub(super) fn spawn_component<C, F>(
        &self,
        name: &'static str,
        component: &Arc<C>,
        task: impl Fn(Arc<C>) -> F + Send + 'static,
    ) where
        C: Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let own = self.clone();
        let component = Arc::clone(component);
        self.tasks.spawn(async move {
            while let Err(cause) = own.tasks.spawn(task(Arc::clone(&component))).await {
                tracing::error!(task = name, %cause, "a task of the runner failed and is started again");
                tokio::select! {
                    () = tokio::time::sleep(own.restart_delay) => {}
                    () = own.phases.over.cancelled() => return,
                }
            }
        });
    }

    /// Makes a backend call in its own task, so that a panic in it becomes an error like any other. Dropping the
    /// future ends the call.
    pub(super) async fn call_in_task<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, BackendError>> + Send + 'static,
    ) -> Result<T, BackendError> {
        let call = AbortOnDropHandle::new(self.tasks.spawn(call));
        call.await.unwrap_or_else(|cause| {
            Err(BackendError::Function {
                message: format!("the call failed inside the runner: {cause}"),
            })
        })
    }
}
