//! Telling the backend what this device has: its tools, and the skills and agents of its home, at start and whenever
//! they change.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::backoff::Retry;
use super::engine::Engine;
use crate::backend::{BackendError, CatalogItem, CatalogKind, Disposition, Pause};
use crate::ids::hex;

/// Publishes everything, then again on each change, until the runner is over.
pub(super) async fn publish(engine: Arc<Engine>) {
    let mut news = engine.catalog.changes();
    loop {
        let mut retry = Retry::new(engine.settings.retry).within(&engine.budget);
        while let Err(error) = engine.publish_all().await {
            tracing::debug!(%error, "the catalog could not be published now");
            let pause = match error.disposition() {
                Disposition::Never => break,
                Disposition::Retry(pause) => pause,
                _ => Pause::Asked(engine.settings.slow_retry.0),
            };
            tokio::select! {
                () = tokio::time::sleep(retry.after(pause)) => {}
                () = engine.over.cancelled() => return,
            }
        }
        let changed = async {
            match &mut news {
                Some(news) => news.changed().await.is_ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            noticed = changed => if !noticed { news = None },
            () = engine.over.cancelled() => return,
        }
    }
}

impl Engine {
    /// Publishes the three catalogs.
    pub(super) async fn publish_all(&self) -> Result<(), BackendError> {
        let revision = self.next_revision().await;
        let tools = self.tool_items();
        self.publish_kind(CatalogKind::Tool, revision, &tools).await?;
        for kind in [CatalogKind::Skill, CatalogKind::Agent] {
            self.publish_kind(kind, revision, &self.catalog.items(kind)).await?;
        }
        tracing::info!(tools = tools.len(), "the catalog is published");
        Ok(())
    }

    /// Later than every revision before it, whatever our clock says: the backend ignores an older one.
    async fn next_revision(&self) -> u64 {
        const KEY: &str = "catalog_revision";
        let now = u64::try_from(self.clock.now_ms()).unwrap_or(0);
        let last = self.journal.reader().and_then(|reader| reader.recall(KEY)).ok().flatten();
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
        self.with_session(|| self.backend.publish(kind, revision, items)).await
    }

    fn tool_items(&self) -> Vec<CatalogItem> {
        let item = |spec: &crate::tool::ToolSpec| {
            let body = spec.catalog_body().to_string();
            CatalogItem { key: spec.name.to_owned(), hash: hex(&Sha256::digest(&body)), body }
        };
        self.registry.specs().map(item).collect()
    }
}
