//! The state of the connection to the backend, stored in the journal for `status`, which runs in another process.

use std::sync::Arc;
use std::time::Duration;

use super::handles::Handles;
use super::runner_settings::WakeupMode;
use super::wakeup_state::WakeupState;
use crate::backend::{Backend as _, ConnectionProblem};

/// The journal key of the connection problem.
const PROBLEM_KEY: &str = "backend_trouble";
/// The journal key of the link state, for backends with a lasting connection.
const LINK_KEY: &str = "backend_link";
/// The journal key of the time of the last contact.
pub(super) const CONTACT_KEY: &str = "last_contact_ms";
/// The least time between two stored contacts.
const CONTACT_INTERVAL: Duration = Duration::from_secs(1);

/// Stores the connection problem until the runner is over.
pub(super) async fn store_problem(handles: Arc<Handles>) {
    let mut news = handles.backend.subscribe_problem();
    loop {
        let word = news
            .borrow_and_update()
            .map_or("", ConnectionProblem::as_str);
        let stored = handles.journal.store_fact(PROBLEM_KEY, word.to_owned());
        if let Err(error) = stored.await {
            tracing::warn!(%error, "the state of the backend could not be noted");
        }
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return },
            () = handles.phases.over.cancelled() => return,
        }
    }
}

/// Stores whether the lasting connection is up, until the runner is over.
pub(super) async fn store_link(handles: Arc<Handles>) {
    let own = handles.backend.connection_status();
    // The state of the wake-up socket, for a backend without a lasting connection of its own.
    let has_socket = own.is_none() && handles.settings.poll.wakeup != WakeupMode::Off;
    let socket = has_socket.then_some(&handles.socket);
    let mut link = own.or_else(|| socket.map(WakeupState::subscribe_connected));
    loop {
        let word = match link.as_mut().map(|link| *link.borrow_and_update()) {
            Some(true) => "up",
            // A link that is not needed counts as no link.
            Some(false) if socket.is_some_and(|socket| !socket.is_wanted()) => "",
            Some(false) => "down",
            None => "",
        };
        let stored = handles.journal.store_fact(LINK_KEY, word.to_owned());
        if let Err(error) = stored.await {
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
            () = handles.phases.over.cancelled() => return,
        }
    }
}

/// Stores the time of the last contact that was no poll and no heartbeat, until the runner is over.
pub(super) async fn store_contact(handles: Arc<Handles>) {
    let mut contacts = handles.backend.subscribe_contacts();
    let store_contacts = async {
        while contacts.changed().await.is_ok() {
            let fact = (CONTACT_KEY, handles.clock.now_ms().to_string());
            handles.journal.store_facts_later(vec![fact]);
            tokio::time::sleep(CONTACT_INTERVAL).await;
        }
    };
    tokio::select! {
        () = store_contacts => {}
        () = handles.phases.over.cancelled() => {}
    }
}
