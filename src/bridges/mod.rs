//! Bridges: small Node programs that the owner deploys and the runner keeps running, each confined to its own folders and
//! hosts. Here: npm, one running copy, and its supervision. Not here: their files and state (home), and the command (cli).

mod bridge_copy;
mod bridge_log;
mod npm_install;
mod restart_backoff;
mod supervisor;

pub use npm_install::{RegistryAddress, check_registry, install_dependencies};
pub use supervisor::{BridgeDeps, BridgeSupervisor, stop_sequence};

use punie_home::{BridgeError, BridgeLock, BridgeStore};
use punie_host::local::process_kill::end_request_processes;
use punie_host::terminals::StopSequence;

/// The exit that is shown of a copy whose runner was killed.
const LOST_EXIT: &str = "the runner's end";

/// Ends the copy of a bridge that an earlier process of the runner left running. Blocks.
///
/// # Errors
/// [`BridgeError`] when it cannot be ended, or the state cannot be read or written.
pub fn end_leftover(
    store: &BridgeStore,
    name: &str,
    _lock: &BridgeLock,
) -> Result<(), BridgeError> {
    let mut runs = store.read_runs()?;
    let Some(mut run) = runs.remove(name) else {
        return Ok(());
    };
    let Some(request) = run.request.take() else {
        return Ok(());
    };
    let stopped = end_request_processes(&request, &StopSequence::kill_at_once());
    if let Some(survivor) = stopped.survivors.first() {
        let text = format!("an earlier copy of {name} cannot be ended: {survivor}");
        return Err(BridgeError::Unusable(text));
    }
    if run.pid.take().is_some() {
        run.last_exit = Some(LOST_EXIT.to_owned());
    }
    run.since_ms = None;
    Ok(store.record_run(name, Some(&run))?)
}

/// Completes the decided changes of all bridges that no process supervises, and removes what was staged and not decided
/// on. Blocks.
///
/// # Errors
/// [`BridgeError`] when the state cannot be read; a change that cannot be completed is logged and stays.
pub fn complete_changes(store: &BridgeStore) -> Result<(), BridgeError> {
    for name in store.read_state()?.pending.keys() {
        let Some(lock) = store.try_lock(name)? else {
            continue;
        };
        let completed =
            end_leftover(store, name, &lock).and_then(|()| store.finish_change(name, &lock));
        if let Err(error) = completed {
            tracing::warn!(bridge = name, %error, "a change of a bridge is not complete");
        }
    }
    Ok(store.remove_stale_staging()?)
}
