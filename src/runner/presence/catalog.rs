//! The catalog of this device, published to the backend at start and after changes: its tools, and the skills and
//! agents of its home. A catalog that the backend accepted within the last day is not sent again.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::backend::{Backend as _, BackendError, CatalogItem, CatalogKind, Disposition, Pause};
use crate::ids::hex;
use crate::journal::Journal;
use crate::runner::backend_client::BackendClient;
use crate::runner::background::ShutdownPhases;
use crate::runner::backoff::{Budget, Retry};
use crate::runner::clock::Clock;
use crate::runner::parts::Catalog;
use crate::runner::session::SessionKeeper;
use crate::runner::settings::Settings;
use crate::runner::tool_threads::on_a_thread;
use crate::tool::{Entry, Registry};

/// The delay that combines changes of tools that come together.
const BURST: Duration = Duration::from_millis(200);
/// The time for which a backend is assumed to have the catalogs that it accepted.
const BELIEVED: Duration = Duration::from_hours(24);
const EVERYTHING: &[CatalogKind] = &[CatalogKind::Tool, CatalogKind::Skill, CatalogKind::Agent];

/// Publishes all catalogs, then each change, until the runner is over.
pub(in crate::runner) async fn keep_published(publisher: Arc<CatalogPublisher>) {
    let mut news = News { home: publisher.catalog.changes(), tools: publisher.registry.changes() };
    let mut due = EVERYTHING;
    loop {
        let mut retry = Retry::new(publisher.settings.waits.retry).within(&publisher.budget);
        while let Err(error) = publisher.publish_kinds(due).await {
            tracing::debug!(%error, "the catalog could not be published now");
            let pause = match error.disposition() {
                Disposition::Never => break,
                Disposition::Retry(pause) => pause,
                _ => Pause::Asked(publisher.settings.waits.slow_retry.0),
            };
            tokio::select! {
                () = tokio::time::sleep(retry.after(pause)) => {}
                () = publisher.phases.over.cancelled() => return,
            }
        }
        due = tokio::select! {
            due = news.next() => due,
            () = publisher.phases.over.cancelled() => return,
        };
    }
}

/// The change signals of the catalogs.
struct News {
    home: Option<watch::Receiver<u64>>,
    tools: watch::Receiver<u64>,
}

impl News {
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
                        return EVERYTHING;
                    }
                    self.home = None;
                }
                _ = self.tools.changed() => break,
            }
        }
        tokio::time::sleep(BURST).await;
        self.tools.borrow_and_update();
        &[CatalogKind::Tool]
    }
}

/// Publishes the catalogs of tools, skills and agents.
pub(in crate::runner) struct CatalogPublisher {
    pub registry: Arc<Registry>,
    pub catalog: Arc<dyn Catalog>,
    pub journal: Journal,
    pub backend: Arc<BackendClient>,
    pub sessions: Arc<SessionKeeper>,
    pub settings: Settings,
    pub clock: Clock,
    pub budget: Arc<Budget>,
    pub phases: ShutdownPhases,
}

impl CatalogPublisher {
    /// Publishes those of these catalogs that the backend does not have.
    async fn publish_kinds(&self, kinds: &'static [CatalogKind]) -> Result<(), BackendError> {
        let mut revision = None;
        for (kind, published) in kinds.iter().zip(self.published(kinds).await) {
            let items = match kind {
                CatalogKind::Tool => self.tool_items(),
                CatalogKind::Skill | CatalogKind::Agent => {
                    let (catalog, kind) = (Arc::clone(&self.catalog), *kind);
                    on_a_thread(move || catalog.items(kind)).await
                }
            };
            let fingerprint = fingerprint_of(&items);
            if published.as_ref() == Some(&fingerprint) {
                continue;
            }
            let revision = match revision {
                Some(revision) => revision,
                None => *revision.insert(self.next_revision().await),
            };
            self.publish_kind(*kind, revision, &items).await?;
            let fact = format!("{fingerprint} {}", self.clock.now_ms());
            if let Err(error) = self.journal.remember(published_key(*kind), fact).await {
                tracing::warn!(%error, "what was published is not written down, and is published again");
            }
        }
        let offered = self.registry.entries().iter().filter(|entry| entry.spec().offered).count();
        tracing::info!(tools = offered, "the catalog is published");
        Ok(())
    }

    /// Returns, for each of these kinds, the fingerprint that this backend accepted lately.
    async fn published(&self, kinds: &'static [CatalogKind]) -> Vec<Option<String>> {
        let journal = self.journal.clone();
        let facts = on_a_thread(move || {
            let reader = journal.reader().ok();
            let fact = |kind: &CatalogKind| reader.as_ref()?.recall(published_key(*kind)).ok().flatten();
            kinds.iter().map(fact).collect::<Vec<_>>()
        })
        .await;
        let now_ms = self.clock.now_ms();
        let lately = |fact: Option<String>| {
            let (fingerprint, at_ms) = fact.as_ref()?.split_once(' ')?;
            let age = u64::try_from(now_ms - at_ms.parse::<i64>().ok()?).ok()?;
            (Duration::from_millis(age) < BELIEVED).then(|| fingerprint.to_owned())
        };
        facts.into_iter().map(lately).collect()
    }

    /// Returns a revision later than all before it, even if the clock went back: the backend ignores an older one.
    async fn next_revision(&self) -> u64 {
        const KEY: &str = "catalog_revision";
        let now = u64::try_from(self.clock.now_ms()).unwrap_or(0);
        let journal = self.journal.clone();
        let recalled = on_a_thread(move || journal.reader().and_then(|reader| reader.recall(KEY))).await;
        let last = recalled.ok().flatten();
        let revision = last.and_then(|last| last.parse::<u64>().ok()).map_or(now, |last| now.max(last + 1));
        if let Err(error) = self.journal.remember(KEY, revision.to_string()).await {
            tracing::warn!(%error, "the catalog's revision could not be kept");
        }
        revision
    }

    async fn publish_kind(
        &self,
        kind: CatalogKind,
        revision: u64,
        items: &[CatalogItem],
    ) -> Result<(), BackendError> {
        self.sessions.with_session(|| self.backend.publish(kind, revision, items)).await
    }

    fn tool_items(&self) -> Vec<CatalogItem> {
        let item = |entry: &Arc<Entry>| {
            let body = entry.spec().catalog_body().to_string();
            CatalogItem { key: entry.spec().name.to_string(), hash: hex(&Sha256::digest(&body)), body }
        };
        self.registry.entries().iter().filter(|entry| entry.spec().offered).map(item).collect()
    }
}

fn published_key(kind: CatalogKind) -> &'static str {
    match kind {
        CatalogKind::Tool => "catalog_published_tool",
        CatalogKind::Skill => "catalog_published_skill",
        CatalogKind::Agent => "catalog_published_agent",
    }
}

fn fingerprint_of(items: &[CatalogItem]) -> String {
    let mut hasher = Sha256::new();
    for item in items {
        // Neither a key nor a hash in hex has a line end.
        hasher.update(format!("{}\n{}\n", item.key, item.hash));
    }
    hex(&hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_tools_is_one_publication() {
        let (home, tools) = (watch::Sender::new(0), watch::Sender::new(0));
        let mut news = News { home: Some(home.subscribe()), tools: tools.subscribe() };
        let burst = async {
            for n in 1..5 {
                tools.send_replace(n);
                tokio::time::sleep(BURST / 8).await;
            }
        };
        let (due, ()) = tokio::join!(news.next(), burst);
        assert_eq!(due, [CatalogKind::Tool]);
        assert!(!news.tools.has_changed().expect("the sender lives"), "all of it is told of");
        home.send_replace(1);
        assert_eq!(news.next().await, EVERYTHING);
    }

    #[tokio::test(start_paused = true)]
    async fn a_home_that_is_not_watched_any_more_ends_nothing() {
        let (home, tools) = (watch::Sender::new(0), watch::Sender::new(0));
        let mut news = News { home: Some(home.subscribe()), tools: tools.subscribe() };
        drop(home);
        tools.send_replace(1);
        assert_eq!(news.next().await, [CatalogKind::Tool]);
    }
}
