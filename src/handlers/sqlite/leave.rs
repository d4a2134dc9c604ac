//! Waiting for a call's thread, and leaving it where it does not come back: SQLite looks at its guard between the steps of
//! its machine, and one step may be long. Not here: what stops a statement between its steps (guard).

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use super::guard::{Guard, Scope};
use crate::tool::{ErrorCode, ToolCx, ToolError};

/// How long a thread may take to come back once its time is up or its call is cancelled.
const GRACE: Duration = Duration::from_secs(2);
/// How many threads may be left behind before no further one is started.
const MOST: usize = 2;

const RUNS: u8 = 0;
const COMMITS: u8 = 1;
const LEFT: u8 = 2;
const ENDED: u8 = 3;

/// Threads that nobody waits for any more, counted.
#[derive(Debug, Clone, Default)]
pub(super) struct Left(Arc<AtomicUsize>);

/// Who has the last word on a call: its thread, which may commit, or who waits for it, and may leave. Never both.
#[derive(Debug, Clone, Default)]
pub(super) struct Claim(Arc<AtomicU8>);

impl Claim {
    fn goes_from(&self, phase: u8, to: u8) -> bool {
        self.0.compare_exchange(phase, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// To be asked by the thread before it commits. False where its call was answered already: then it must not.
    pub(super) fn commit(&self) -> bool {
        self.goes_from(RUNS, COMMITS)
    }

    /// Whether the thread is left now, so that it will commit nothing. False where it commits or has ended: then it is
    /// waited for.
    pub(super) fn leave(&self, left: &Left) -> bool {
        left.0.fetch_add(1, Ordering::SeqCst);
        let leaves = self.goes_from(RUNS, LEFT);
        if !leaves {
            left.0.fetch_sub(1, Ordering::SeqCst);
        }
        leaves
    }
}

/// Held by the thread.
struct AtWork {
    claim: Claim,
    left: Left,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        if self.claim.0.swap(ENDED, Ordering::SeqCst) == LEFT {
            self.left.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Held by who waits: whoever stops waiting, for whatever reason, leaves the thread.
struct Waiting<'a> {
    guard: &'a Guard,
    left: &'a Left,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // After the thread's end this does nothing.
        self.guard.cancel();
        self.guard.claim().leave(self.left);
    }
}

/// Runs the work on a thread of its own until its end, or until a little after its time is up or it is cancelled.
pub(super) async fn run<T: Send + 'static>(
    cx: &ToolCx,
    guard: &Guard,
    limit: Duration,
    left: &Left,
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    if left.0.load(Ordering::SeqCst) >= MOST {
        return Err(ToolError::new(
            ErrorCode::Busy,
            "Earlier queries that were stopped are still in a step that SQLite cannot interrupt. Ask again when they are \
             done, and keep the values in a query smaller.",
        ));
    }
    let at_work = AtWork { claim: guard.claim().clone(), left: left.clone() };
    let mut running = tokio::task::spawn_blocking(move || {
        let _at_work = at_work;
        work()
    });
    let waiting = Waiting { guard, left };
    let in_time = tokio::select! {
        biased;
        () = cx.cancelled() => {
            guard.cancel();
            None
        }
        finished = &mut running => Some(finished),
        () = tokio::time::sleep(limit) => None,
    };
    let finished = match in_time {
        Some(finished) => finished,
        None => match tokio::time::timeout(GRACE, &mut running).await {
            Ok(finished) => finished,
            Err(_) if guard.claim().leave(left) => {
                let error = left_behind(guard);
                drop(waiting);
                return Err(error);
            }
            // It commits at this moment, or has just ended.
            Err(_) => running.await,
        },
    };
    finished.unwrap_or_else(|_| {
        Err(ToolError::internal(
            "The query failed in a way that it should not. Names in this database may not be valid text.",
        ))
    })
}

fn left_behind(guard: &Guard) -> ToolError {
    let (code, what) = if guard.cancelled() {
        (ErrorCode::Cancelled, "The query was cancelled")
    } else {
        (ErrorCode::Timeout, "The query took longer than timeout_ms")
    };
    let kept = match guard.scope() {
        Scope::Reading => "",
        Scope::Changing => {
            " Nothing is changed: it will not be committed. Until it ends, the database may stay locked."
        }
    };
    ToolError::new(
        code,
        format!(
            "{what}, and is in a step that SQLite cannot interrupt, such as one function over long values. It was left, and \
             ends by itself after that step. Take parts of long values with substr().{kept}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::ids::RequestId;

    /// Work in one step that ends when the test says so.
    fn long_step() -> (Sender<()>, impl FnOnce() -> Result<(), ToolError> + Send + 'static) {
        let (end, ends) = channel::<()>();
        let work = move || {
            let _ = ends.recv();
            Ok(())
        };
        (end, work)
    }

    /// What comes of it while the clock goes on.
    async fn asked(
        cx: &ToolCx,
        guard: &Guard,
        left: &Left,
        work: impl FnOnce() -> Result<(), ToolError> + Send + 'static,
    ) -> Result<(), ToolError> {
        tokio::select! {
            answer = run(cx, guard, Duration::from_secs(10), left, work) => answer,
            () = async { loop { tokio::time::advance(Duration::from_secs(1)).await } } => unreachable!(),
        }
    }

    fn guard(scope: Scope) -> Guard {
        Guard::new(scope, Duration::from_secs(10))
    }

    async fn none_left(left: &Left) {
        while left.0.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_answered_although_its_thread_does_not_come_back() {
        let left = Left::default();
        let cx = ToolCx::detached(RequestId::new());
        let mut ends = Vec::new();
        for scope in [Scope::Reading, Scope::Changing] {
            let guard = guard(scope);
            let (end, work) = long_step();
            let answer = asked(&cx, &guard, &left, work).await.expect_err("no end");
            assert_eq!(answer.code(), ErrorCode::Timeout, "{answer}");
            assert_eq!(answer.text().contains("Nothing is changed"), scope == Scope::Changing, "{answer}");
            assert!(!guard.claim().commit(), "what was left commits nothing");
            ends.push(end);
        }
        let refused = asked(&cx, &guard(Scope::Reading), &left, || Ok(())).await.expect_err("two are left");
        assert_eq!(refused.code(), ErrorCode::Busy, "{refused}");
        drop(ends);
        none_left(&left).await;
        asked(&cx, &guard(Scope::Reading), &left, || Ok(())).await.expect("room again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_call_is_answered_soon_and_a_dropped_one_is_left() {
        let left = Left::default();
        let cx = ToolCx::detached(RequestId::new());
        cx.cancel.cancel();
        let (end, work) = long_step();
        let answer = asked(&cx, &guard(Scope::Changing), &left, work).await.expect_err("a cancel");
        assert_eq!(answer.code(), ErrorCode::Cancelled, "{answer}");
        drop(end);
        none_left(&left).await;

        let (end, work) = long_step();
        let (cx, guard) = (ToolCx::detached(RequestId::new()), guard(Scope::Changing));
        let started = run(&cx, &guard, Duration::from_secs(10), &left, work);
        assert!(tokio::time::timeout(Duration::ZERO, started).await.is_err());
        assert!(!guard.claim().commit(), "nobody would hear of it");
        drop(end);
        none_left(&left).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_commits_is_waited_for() {
        let left = Left::default();
        let cx = ToolCx::detached(RequestId::new());
        let guard = guard(Scope::Changing);
        assert!(guard.claim().commit());
        let (end, work) = long_step();
        let waited = asked(&cx, &guard, &left, work);
        let later = async {
            for _ in 0..60 {
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            drop(end);
        };
        let (answer, ()) = tokio::join!(waited, later);
        answer.expect("its end");
    }
}
