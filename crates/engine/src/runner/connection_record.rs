//! The state of the connection to the backend, stored in the journal for `status`, which runs in another process.

use std::sync::Arc;
use std::time::Duration;

use super::backend_client::BackendClient;
use super::background::ShutdownPhases;
use super::wakeup_state::WakeupState;
use crate::backend::{Backend as _, ConnectionProblem};
use crate::journal::Journal;
use punie_core::clock::Clock;

/// The journal key of the connection problem.
const PROBLEM_KEY: &str = "backend_trouble";
/// The journal key of the link state, for backends with a lasting connection.
const LINK_KEY: &str = "backend_link";
/// The journal key of the time of the last contact.
pub(super) const CONTACT_KEY: &str = "last_contact_ms";
/// The least time between two stored contacts.
const CONTACT_INTERVAL: Duration = Duration::from_secs(1);

/// Stores the state of the connection.
pub(super) struct ConnectionRecord {
    pub backend: Arc<BackendClient>,
    /// The wake-up socket's state, for a backend without a lasting connection of its own.
    pub socket: Option<Arc<WakeupState>>,
    pub journal: Journal,
    pub clock: Clock,
    pub phases: ShutdownPhases,
}

/// Stores the connection problem until the runner is over.
pub(super) async fn store_problem(record: Arc<ConnectionRecord>) {
    let mut news = record.backend.subscribe_problem();
    loop {
        let word = news
            .borrow_and_update()
            .map_or("", ConnectionProblem::as_str);
        if let Err(error) = record
            .journal
            .store_fact(PROBLEM_KEY, word.to_owned())
            .await
        {
            tracing::warn!(%error, "the state of the backend could not be noted");
        }
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return },
            () = record.phases.over.cancelled() => return,
        }
    }
}

/// Stores whether the lasting connection is up, until the runner is over.
pub(super) async fn store_link(record: Arc<ConnectionRecord>) {
    let own = record.backend.connection_status();
    let socket = record.socket.as_ref().filter(|_| own.is_none());
    let mut link = own.or_else(|| socket.map(|socket| socket.subscribe_connected()));
    loop {
        let word = match link.as_mut().map(|link| *link.borrow_and_update()) {
            Some(true) => "up",
            // A link that is not needed counts as no link.
            Some(false) if socket.is_some_and(|socket| !socket.is_wanted()) => "",
            Some(false) => "down",
            None => "",
        };
        if let Err(error) = record.journal.store_fact(LINK_KEY, word.to_owned()).await {
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
            () = record.phases.over.cancelled() => return,
        }
    }
}

/// Stores the time of the last contact that was no poll and no heartbeat, until the runner is over.
pub(super) async fn store_contact(record: Arc<ConnectionRecord>) {
    let mut contacts = record.backend.subscribe_contacts();
    let store_contacts = async {
        while contacts.changed().await.is_ok() {
            let now_ms = record.clock.now_ms().to_string();
            record
                .journal
                .store_facts_later(vec![(CONTACT_KEY, now_ms)]);
            tokio::time::sleep(CONTACT_INTERVAL).await;
        }
    };
    tokio::select! {
        () = store_contacts => {}
        () = record.phases.over.cancelled() => {}
    }
}
