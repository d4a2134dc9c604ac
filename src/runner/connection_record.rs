//! The state of the connection to the backend, stored in the journal for `status`, which runs in another process. Not
//! here: the calls (`backend_client`).

use std::sync::Arc;

use super::backend_client::BackendClient;
use super::background::ShutdownPhases;
use super::wakeup_state::WakeupState;
use crate::backend::{Backend as _, ConnectionProblem};
use crate::journal::Journal;

/// The journal key of the connection problem.
const PROBLEM_KEY: &str = "backend_trouble";
/// The journal key of the link state, for backends with a lasting connection.
const LINK_KEY: &str = "backend_link";

/// Stores the connection problem in the journal for `status`, which runs in another process.
pub(super) async fn store_problem(
    backend: Arc<BackendClient>,
    journal: Journal,
    phases: ShutdownPhases,
) {
    let mut news = backend.subscribe_problem();
    loop {
        let word = news
            .borrow_and_update()
            .map_or("", ConnectionProblem::as_str);
        if let Err(error) = journal.store_fact(PROBLEM_KEY, word.to_owned()).await {
            tracing::warn!(%error, "the state of the backend could not be noted");
        }
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return },
            () = phases.over.cancelled() => return,
        }
    }
}

/// Stores in the journal, also for `status`, whether the lasting connection is up. `socket` is the wake-up socket's
/// state, for a backend without a lasting connection of its own.
pub(super) async fn store_link(
    backend: Arc<BackendClient>,
    socket: Option<Arc<WakeupState>>,
    journal: Journal,
    phases: ShutdownPhases,
) {
    let own = backend.connection_status();
    let socket = socket.filter(|_| own.is_none());
    let mut link = own.or_else(|| socket.as_ref().map(|socket| socket.subscribe_connected()));
    loop {
        let word = match link.as_mut().map(|link| *link.borrow_and_update()) {
            Some(true) => "up",
            // A link that is not needed counts as no link.
            Some(false) if socket.as_ref().is_some_and(|socket| !socket.is_wanted()) => "",
            Some(false) => "down",
            None => "",
        };
        if let Err(error) = journal.store_fact(LINK_KEY, word.to_owned()).await {
            tracing::warn!(%error, "the state of the connection could not be noted");
        }
        let changed = async {
            match &mut link {
                Some(link) => link.changed().await.is_ok(),
                None => false,
            }
        };
        tokio::select! {
            changed = changed => if !changed { return },
            () = phases.over.cancelled() => return,
        }
    }
}
