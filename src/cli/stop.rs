//! SIGINT, SIGTERM and SIGHUP (a closed terminal): the first asks the runner to stop, the second to hurry. Whatever
//! hangs meanwhile, the process ends. SIGINT and SIGHUP stay ignored where the process was started so (`nohup`, a shell's
//! background).

use std::thread;
use std::time::{Duration, Instant};

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

use super::exit::Exit;
#[cfg(unix)]
use super::ignored_signals::is_ignored;
use crate::runner::Stop;

/// How long the process may live on after the first request to stop. A stop that goes well takes twenty seconds at
/// most.
const HARD_STOP: Duration = Duration::from_secs(30);
/// The same after the second; all that has to be done then takes two seconds.
const HARD_HURRY: Duration = Duration::from_secs(4);

/// Listens for signals as long as what it returns is kept.
pub fn on_signals(stop: &Stop) -> anyhow::Result<JoinSet<()>> {
    let mut listening = JoinSet::new();
    let stop = stop.clone();
    #[cfg(unix)]
    {
        let mut terminate = signal(SignalKind::terminate())?;
        let (mut interrupt, mut hangup) =
            (unless_ignored(SignalKind::interrupt())?, unless_ignored(SignalKind::hangup())?);
        listening.spawn(async move {
            let mut limits = [HARD_STOP, HARD_HURRY].into_iter();
            loop {
                tokio::select! {
                    () = received(&mut interrupt) => {}
                    _ = terminate.recv() => {}
                    () = received(&mut hangup) => {}
                }
                tracing::info!("asked to stop");
                stop.ask();
                limits.next().into_iter().for_each(end_within);
            }
        });
    }
    #[cfg(not(unix))]
    listening.spawn(async move {
        let mut limits = [HARD_STOP, HARD_HURRY].into_iter();
        while tokio::signal::ctrl_c().await.is_ok() {
            stop.ask();
            limits.next().into_iter().for_each(end_within);
        }
    });
    Ok(listening)
}

/// Listens for a signal, which would no longer be ignored then; none for one that is.
#[cfg(unix)]
fn unless_ignored(kind: SignalKind) -> std::io::Result<Option<Signal>> {
    if is_ignored(kind.as_raw_value()) { Ok(None) } else { signal(kind).map(Some) }
}

/// Waits for the next one; for ever where it is not listened for.
#[cfg(unix)]
async fn received(listener: &mut Option<Signal>) {
    match listener {
        Some(listener) => drop(listener.recv().await),
        None => std::future::pending().await,
    }
}

/// Ends the process, should it still be there by then. A thread of its own sees to it, since what hangs may be
/// everything else. The journal is written for a process that ends at any moment.
fn end_within(limit: Duration) {
    let until = Instant::now() + limit;
    let waiting = move || {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                tracing::error!("the stop took too long and is cut short; the journal has what is not done");
                std::process::exit(Exit::Failed.code().into());
            }
            // Nobody wakes it but the system, for no reason.
            thread::park_timeout(left);
        }
    };
    if let Err(cause) = thread::Builder::new().name("hard-stop".to_owned()).spawn(waiting) {
        tracing::warn!(%cause, "no thread to see to the end of the stop");
    }
}
