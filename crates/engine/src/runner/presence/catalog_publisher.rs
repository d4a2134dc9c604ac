//! The catalog of this device, published to the backend at start and after changes: its tools, and the skills and
//! agents of its home. Entries that the backend accepted within the last day are not sent again.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::backend::{
    Backend as _, BackendError, CatalogEntry, CatalogKind, RecoveryAction, RetryDelay,
};
use crate::runner::handles::Handles;
use crate::runner::parts::CatalogSource;
use crate::runner::presence::published_catalog::{CatalogPage, PublishedCatalog, plan_pages};
use crate::runner::tool_threads::run_on_blocking_thread;
use punie_core::ids::to_hex;
use punie_tool::ToolEntry;

/// The delay that combines changes of tools that come together.
const BURST_DELAY: Duration = Duration::from_millis(200);
/// The time for which a backend is assumed to have the catalogs that it accepted.
const PUBLISHED_FOR: Duration = Duration::from_hours(24);
const ALL_KINDS: &[CatalogKind] = &[
    CatalogKind::Tool,
    CatalogKind::Skill,
    CatalogKind::Agent,
    CatalogKind::Plugin,
];
/// The kinds that change when tools come and go.
const TOOL_KINDS: &[CatalogKind] = &[CatalogKind::Tool, CatalogKind::Plugin];

/// Publishes all catalogs, then each change, until the runner is over.
pub async fn run_publisher(publisher: Arc<CatalogPublisher>) {
    let handles = &publisher.handles;
    let mut news = CatalogSignals {
        home: publisher.catalog.subscribe_catalog(),
        tools: handles.registry.subscribe_changes(),
    };
    let mut due = ALL_KINDS;
    loop {
        let mut retry = handles.retry_intervals();
        while let Err(error) = publisher.publish_kinds(due).await {
            tracing::debug!(%error, "the catalog could not be published now");
            let pause = match error.recovery_action() {
                RecoveryAction::GiveUp => break,
                // The poll finds out when the backend is back.
                RecoveryAction::Retry(RetryDelay::Reconnect) => RetryDelay::BackOff,
                RecoveryAction::Retry(pause) => pause,
                _ => RetryDelay::Requested(handles.settings.waits.slow_retry.0),
            };
            tokio::select! {
                () = handles.backend.wait_to_retry(retry.delay_after(pause)) => {}
                () = handles.phases.over.cancelled() => return,
            }
        }
        publisher.published.cancel();
        due = tokio::select! {
            due = news.next() => due,
            () = handles.phases.over.cancelled() => return,
        };
    }
}

/// The change signals of the catalogs.
struct CatalogSignals {
    home: Option<watch::Receiver<u64>>,
    tools: watch::Receiver<u64>,
}

impl CatalogSignals {
    /// Waits for a change and the end of its burst; returns the catalogs to publish.
    async fn next(&mut self) -> &'static [CatalogKind] {
        loop {
            let changed = async {
                match &mut self.home {
                    Some(home) => home.changed().await.is_ok(),
                    None => std::future::pending().await,
                }
            };
            // The runner holds the registry, so its sender exists.
            tokio::select! {
                noticed = changed => {
                    if noticed {
                        return ALL_KINDS;
                    }
                    self.home = None;
                }
                _ = self.tools.changed() => break,
            }
        }
        tokio::time::sleep(BURST_DELAY).await;
        self.tools.borrow_and_update();
        TOOL_KINDS
    }
}

/// Publishes the catalogs of tools, skills, agents and plugins.
pub(in crate::runner) struct CatalogPublisher {
    pub handles: Arc<Handles>,
    pub catalog: Arc<dyn CatalogSource>,
    /// Cancelled once the catalogs were offered to the backend.
    pub published: CancellationToken,
}

impl CatalogPublisher {
    /// Brings these catalogs up to date at the backend. One that fails does not stop the others.
    async fn publish_kinds(&self, kinds: &'static [CatalogKind]) -> Result<(), BackendError> {
        let mut failure = Ok(());
        for kind in kinds {
            let items = match kind {
                CatalogKind::Tool => self.tool_items(),
                CatalogKind::Skill | CatalogKind::Agent | CatalogKind::Plugin => {
                    let catalog = Arc::clone(&self.catalog);
                    let kind = *kind;
                    run_on_blocking_thread(move || catalog.catalog_items(kind)).await
                }
            };
            if let Err(error) = self.publish_changes(*kind, &items).await {
                if matches!(error.recovery_action(), RecoveryAction::Retry(_)) {
                    return Err(error);
                }
                tracing::debug!(kind = kind.as_str(), %error, "a catalog could not be published");
                failure = Err(error);
            }
        }
        failure?;
        let tools = self.handles.registry.callable_entries();
        let offered = tools.iter().filter(|entry| entry.tool_spec().offered);
        let offered = offered.count();
        tracing::info!(tools = offered, "the catalog is published");
        Ok(())
    }

    /// Sends the entries of a catalog that the backend does not have.
    async fn publish_changes(
        &self,
        kind: CatalogKind,
        items: &[CatalogEntry],
    ) -> Result<(), BackendError> {
        let mut published = self.read_published(kind).await;
        let now_ms = self.handles.clock.now_ms();
        if let Some(published) = &mut published {
            let age = u64::try_from(now_ms - published.at_ms);
            if !age.is_ok_and(|age| Duration::from_millis(age) < PUBLISHED_FOR) {
                published.expire_entries();
                published.at_ms = now_ms;
            }
        }
        let mut revision = None;
        // Entries that the backend refuses are sent again once: others may have become shorter meanwhile.
        for _ in 0..2 {
            let pages = plan_pages(items, published.as_ref());
            if pages.is_empty() {
                return Ok(());
            }
            let revision = match revision {
                Some(revision) => revision,
                None => *revision.insert(self.next_revision().await),
            };
            let record = published.get_or_insert_with(|| PublishedCatalog::created_at(now_ms));
            for page in pages {
                self.publish_page(kind, revision, &page, record).await?;
                self.store_published(kind, record).await;
            }
        }
        for page in plan_pages(items, published.as_ref()) {
            let keys: Vec<&str> = page.items.iter().map(|item| item.key.as_str()).collect();
            let kind = kind.as_str();
            tracing::warn!(
                kind,
                ?keys,
                "the backend refuses entries of the catalog until they change"
            );
        }
        Ok(())
    }

    /// Sends a page. If the backend refuses its content, the entries are sent one by one, and those that it refuses are
    /// left out.
    async fn publish_page(
        &self,
        kind: CatalogKind,
        revision: u64,
        page: &CatalogPage,
        record: &mut PublishedCatalog,
    ) -> Result<(), BackendError> {
        let refusal = match self.send_page(kind, revision, page).await {
            Ok(()) => {
                record.record_page(page);
                return Ok(());
            }
            Err(error) if is_content_refused(&error) => error,
            Err(error) => return Err(error),
        };
        if let (false, [item]) = (page.is_complete, page.items.as_slice()) {
            tracing::debug!(key = item.key, error = %refusal, "an entry of the catalog is refused");
            return Ok(());
        }
        let removed = if page.is_complete {
            record.removed_entries(&page.items)
        } else {
            Vec::new()
        };
        for item in page.items.iter().cloned().chain(removed) {
            let single = CatalogPage {
                is_complete: false,
                items: vec![item],
            };
            Box::pin(self.publish_page(kind, revision, &single, record)).await?;
        }
        Ok(())
    }

    async fn send_page(
        &self,
        kind: CatalogKind,
        revision: u64,
        page: &CatalogPage,
    ) -> Result<(), BackendError> {
        let complete = page.is_complete;
        let items = &page.items;
        let backend = &self.handles.backend;
        let publish = || backend.publish_catalog(kind, revision, complete, items);
        self.handles.sessions.with_session(publish).await
    }

    /// Returns the entries that this backend accepted. One of an earlier version of the program cannot be read.
    async fn read_published(&self, kind: CatalogKind) -> Option<PublishedCatalog> {
        let journal = &self.handles.journal;
        let stored = journal.read_blocking(move |reader| reader.read_fact(published_key(kind)));
        serde_json::from_str(&stored.await.ok()??).ok()
    }

    async fn store_published(&self, kind: CatalogKind, record: &PublishedCatalog) {
        let fact = serde_json::to_string(record).expect("texts and numbers are always JSON");
        let journal = &self.handles.journal;
        if let Err(error) = journal.store_fact(published_key(kind), fact).await {
            tracing::warn!(%error, "what was published is not written down, and is published again");
        }
    }

    /// Returns a revision later than all before it, even if the clock went back: the backend ignores an older one.
    async fn next_revision(&self) -> u64 {
        const KEY: &str = "catalog_revision";
        let clock = &self.handles.clock;
        let journal = &self.handles.journal;
        let now = u64::try_from(clock.now_ms()).unwrap_or(0);
        let stored = journal.read_blocking(|reader| reader.read_fact(KEY));
        let last = stored.await.ok().flatten();
        let revision = last
            .and_then(|last| last.parse::<u64>().ok())
            .map_or(now, |last| now.max(last + 1));
        if let Err(error) = journal.store_fact(KEY, revision.to_string()).await {
            tracing::warn!(%error, "the catalog's revision could not be kept");
        }
        revision
    }

    fn tool_items(&self) -> Vec<CatalogEntry> {
        let item = |entry: &Arc<ToolEntry>| {
            let body = entry.tool_spec().catalog_body().to_string();
            CatalogEntry {
                key: entry.tool_spec().name.to_string(),
                hash: to_hex(&Sha256::digest(&body)),
                body,
            }
        };
        let tools = self.handles.registry.callable_entries();
        let offered = tools.iter().filter(|entry| entry.tool_spec().offered);
        offered.map(item).collect()
    }
}

fn published_key(kind: CatalogKind) -> &'static str {
    match kind {
        CatalogKind::Tool => "catalog_published_tool",
        CatalogKind::Skill => "catalog_published_skill",
        CatalogKind::Agent => "catalog_published_agent",
        CatalogKind::Plugin => "catalog_published_plugin",
    }
}

/// Returns whether the backend refuses what was sent, and not the device or the moment.
fn is_content_refused(error: &BackendError) -> bool {
    matches!(error.recovery_action(), RecoveryAction::Shrink(_))
        || error.refusal_code() == Some("INVALID_ARGUMENT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_tools_is_one_publication() {
        let home = watch::Sender::new(0);
        let tools = watch::Sender::new(0);
        let mut news = CatalogSignals {
            home: Some(home.subscribe()),
            tools: tools.subscribe(),
        };
        let burst = async {
            for n in 1..5 {
                tools.send_replace(n);
                tokio::time::sleep(BURST_DELAY / 8).await;
            }
        };
        let (due, ()) = tokio::join!(news.next(), burst);
        assert_eq!(due, TOOL_KINDS);
        assert!(
            !news.tools.has_changed().expect("the sender lives"),
            "all of it is told of"
        );
        home.send_replace(1);
        assert_eq!(news.next().await, ALL_KINDS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_home_that_is_not_watched_any_more_ends_nothing() {
        let home = watch::Sender::new(0);
        let tools = watch::Sender::new(0);
        let mut news = CatalogSignals {
            home: Some(home.subscribe()),
            tools: tools.subscribe(),
        };
        drop(home);
        tools.send_replace(1);
        assert_eq!(news.next().await, TOOL_KINDS);
    }
}
