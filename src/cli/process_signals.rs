//! Handling of SIGINT, SIGTERM and SIGHUP (a closed terminal): the first asks the runner to stop, the second to hurry.
//! Even if the stop hangs, the process ends in time. SIGINT and SIGHUP stay ignored if the process inherited them so
//! (`nohup`, a shell's background).

use std::thread;
use std::time::{Duration, Instant};

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

use super::exit::Exit;
#[cfg(unix)]
use super::ignored_signals::is_ignored;
use punie_engine::runner::{STOP_RESERVE, ShutdownSignal};

/// The time limit after the second request; the remaining work takes two seconds.
const HURRY_LIMIT: Duration = Duration::from_secs(4);

/// Listens for signals until the returned value is dropped. After the first one, running calls may take `grace` and the
/// rest of the stop 30 s.
pub fn listen_for_signals(stop: &ShutdownSignal, grace: Duration) -> anyhow::Result<JoinSet<()>> {
    let limits = [grace + STOP_RESERVE, HURRY_LIMIT];
    let mut listening = JoinSet::new();
    let stop = stop.clone();
    #[cfg(unix)]
    {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = listen_unless_ignored(SignalKind::interrupt())?;
        let mut hangup = listen_unless_ignored(SignalKind::hangup())?;
        listening.spawn(async move {
            let mut limits = limits.into_iter();
            loop {
                tokio::select! {
                    () = wait_for_signal(&mut interrupt) => {}
                    _ = terminate.recv() => {}
                    () = wait_for_signal(&mut hangup) => {}
                }
                tracing::info!("asked to stop");
                stop.request_stop();
                limits.next().into_iter().for_each(exit_after_limit);
            }
        });
    }
    #[cfg(not(unix))]
    listening.spawn(async move {
        let mut limits = limits.into_iter();
        while tokio::signal::ctrl_c().await.is_ok() {
            stop.request_stop();
            limits.next().into_iter().for_each(exit_after_limit);
        }
    });
    Ok(listening)
}

/// The presses of Ctrl-C, for a command that decides by itself what each of them means.
pub struct Interrupts {
    #[cfg(unix)]
    listener: Option<Signal>,
}

impl Interrupts {
    /// Begins to listen.
    #[cfg_attr(
        not(unix),
        expect(clippy::unnecessary_wraps, reason = "listening can fail on Unix")
    )]
    pub fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            listener: listen_unless_ignored(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next press.
    pub async fn next_press(&mut self) {
        #[cfg(unix)]
        wait_for_signal(&mut self.listener).await;
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Listens for a signal; `None` if it is ignored, because listening would end that.
#[cfg(unix)]
fn listen_unless_ignored(kind: SignalKind) -> std::io::Result<Option<Signal>> {
    if is_ignored(kind.as_raw_value()) {
        Ok(None)
    } else {
        signal(kind).map(Some)
    }
}

/// Waits for the next signal; forever without a listener.
#[cfg(unix)]
async fn wait_for_signal(listener: &mut Option<Signal>) {
    match listener {
        Some(listener) => drop(listener.recv().await),
        None => std::future::pending().await,
    }
}

/// Ends the process after this time limit. It uses a separate thread, since everything else may hang. The journal is
/// consistent whenever the process ends.
fn exit_after_limit(limit: Duration) {
    let until = Instant::now() + limit;
    let waiting = move || {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                tracing::error!(
                    "the stop took too long and is cut short; the journal has what is not done"
                );
                std::process::exit(Exit::Failed.code().into());
            }
            // Only spurious wakeups end this early.
            thread::park_timeout(left);
        }
    };
    if let Err(cause) = thread::Builder::new()
        .name("hard-stop".to_owned())
        .spawn(waiting)
    {
        tracing::warn!(%cause, "no thread to see to the end of the stop");
    }
}
