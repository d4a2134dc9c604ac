//! Keeps the machine from going to sleep for want of use while a call runs.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::background::ShutdownPhases;
use super::runner_settings::LiveCallSettings;

/// The time for which calls run before the system is asked, so that short calls cost nothing.
const SHORT_CALLS: Duration = Duration::from_secs(5);

/// Keeps the machine awake until it is dropped.
pub type AwakeGuard = Box<dyn Any + Send>;

/// Completes with the guard, or with the reason why there is none.
pub type InhibitedSleep<'a> = Pin<Box<dyn Future<Output = Result<AwakeGuard, String>> + Send + 'a>>;

/// The system's way to keep the machine awake.
pub trait SleepInhibitor: Send + Sync + 'static {
    /// Asks the system not to go to sleep for want of use.
    fn inhibit_sleep(&self) -> InhibitedSleep<'_>;
}

/// The number of calls that run. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningCalls(Arc<watch::Sender<usize>>);

impl RunningCalls {
    /// Counts a call until the returned value is dropped.
    pub fn count_call(&self) -> CountedCall {
        self.0.send_modify(|count| *count += 1);
        CountedCall(self.clone())
    }
}

pub(super) struct CountedCall(RunningCalls);

impl Drop for CountedCall {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

/// Keeps the machine awake while calls run.
pub(super) struct KeepAwake {
    pub inhibitor: Arc<dyn SleepInhibitor>,
    pub running: RunningCalls,
    pub calls: LiveCallSettings,
    pub phases: ShutdownPhases,
}

/// Keeps the machine awake while calls run, until the runner is over.
pub(super) async fn run_keep_awake(keeper: Arc<KeepAwake>) {
    tokio::select! {
        () = keeper.follow_calls() => {}
        () = keeper.phases.over.cancelled() => {}
    }
}

impl KeepAwake {
    async fn follow_calls(&self) {
        let mut counts = self.running.0.subscribe();
        let mut was_told = false;
        loop {
            wait_for_calls(&mut counts, true).await;
            tokio::select! {
                () = tokio::time::sleep(SHORT_CALLS) => {}
                () = wait_for_calls(&mut counts, false) => continue,
            }
            let guard = if self.calls.current().keep_awake {
                self.inhibitor.inhibit_sleep().await.map(Some)
            } else {
                Ok(None)
            };
            if let Err(error) = &guard
                && !was_told
            {
                was_told = true;
                tracing::debug!(error, "the machine may go to sleep while calls run");
            }
            wait_for_calls(&mut counts, false).await;
            drop(guard);
        }
    }
}

/// Waits until calls run, or until none does.
async fn wait_for_calls(counts: &mut watch::Receiver<usize>, running: bool) {
    // The sender exists as long as the keeper.
    let _ = counts.wait_for(|count| (*count > 0) == running).await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::runner::RunnerSettings;

    /// Counts how often it was asked, and what it holds now.
    #[derive(Default)]
    struct Counting {
        asked: AtomicUsize,
        held: Arc<()>,
        fails: bool,
    }

    impl SleepInhibitor for Counting {
        fn inhibit_sleep(&self) -> InhibitedSleep<'_> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let guard: AwakeGuard = Box::new(Arc::clone(&self.held));
            let result = if self.fails {
                Err("no bus".to_owned())
            } else {
                Ok(guard)
            };
            Box::pin(std::future::ready(result))
        }
    }

    /// Runs three calls beside a keeper: one of a second, one of six, and one that begins beside it and ends later. Returns
    /// how often the system was asked, and whether it kept the machine awake 4, 6, 8 and 9 seconds after the second began.
    async fn run_calls(keep_awake: bool, fails: bool) -> (usize, [bool; 4]) {
        let inhibitor = Arc::new(Counting {
            fails,
            ..Counting::default()
        });
        let calls = RunnerSettings::default().calls;
        let mut settings = calls.current();
        settings.keep_awake = keep_awake;
        calls.replace(settings);
        let keeper = Arc::new(KeepAwake {
            inhibitor: inhibitor.clone(),
            running: RunningCalls::default(),
            calls,
            phases: ShutdownPhases::default(),
        });
        let running = keeper.running.clone();
        let holds = || Arc::strong_count(&inhibitor.held) > 1;
        let seconds = |count| tokio::time::sleep(Duration::from_secs(count));
        let calls = async {
            let short = running.count_call();
            seconds(1).await;
            drop(short);
            seconds(1).await;
            let long = running.count_call();
            seconds(4).await;
            let early = holds();
            let other = running.count_call();
            seconds(2).await;
            let while_both_run = holds();
            drop(long);
            seconds(2).await;
            let while_one_runs = holds();
            drop(other);
            seconds(1).await;
            [early, while_both_run, while_one_runs, holds()]
        };
        let held = tokio::select! {
            held = calls => held,
            () = run_keep_awake(Arc::clone(&keeper)) => unreachable!("it goes on"),
        };
        (inhibitor.asked.load(Ordering::Relaxed), held)
    }

    #[tokio::test(start_paused = true)]
    async fn the_machine_stays_awake_from_the_sixth_second_of_calls_to_their_end() {
        let kept = [false, true, true, false];
        assert_eq!(run_calls(true, false).await, (1, kept));
        assert_eq!(run_calls(false, false).await, (0, [false; 4]));
        assert_eq!(run_calls(true, true).await, (1, [false; 4]));
    }
}
