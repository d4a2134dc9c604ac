//! SIGINT, SIGTERM and SIGHUP (a closed terminal): the first asks the runner to stop, the second to hurry.

use tokio::task::JoinSet;

use crate::runner::Stop;

/// Listens for signals as long as what it returns is kept.
pub fn on_signals(stop: &Stop) -> anyhow::Result<JoinSet<()>> {
    let mut listening = JoinSet::new();
    let stop = stop.clone();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let mut hangup = signal(SignalKind::hangup())?;
        listening.spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                tracing::info!("asked to stop");
                stop.ask();
            }
        });
    }
    #[cfg(not(unix))]
    listening.spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            stop.ask();
        }
    });
    Ok(listening)
}
