//! Where rooms that do not know each other are joined: each joint is a trait of one room served by a type of another.

use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

use crate::acp::local::children::{ChildLog, Unlogged};
use crate::acp::local::identity::ProcessIdentity;
use crate::acp::local::kill::kill_survivor;
use crate::backend::{CatalogItem, CatalogKind};
use crate::home::{self, Home, Watch};
use crate::ids::RequestId;
use crate::journal::Journal;
use crate::output::{FilterFactory, StreamFilter};
use crate::redact::{Masker, Redactor};
use crate::runner::{Catalog, Clock, Survivors};

/// The redactor, at work on streams of output.
pub(super) fn masking(redactor: &Redactor) -> FilterFactory {
    let redactor = redactor.clone();
    Arc::new(move || Box::new(Masking(redactor.stream())))
}

struct Masking(Masker);

impl StreamFilter for Masking {
    fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        self.0.push(chunk, out);
    }
    fn finish(&mut self, out: &mut Vec<u8>) {
        self.0.finish(out);
    }
    fn rewritten(&self) -> u64 {
        self.0.rewritten()
    }
}

/// The journal, told of processes.
pub(super) fn child_log(journal: Option<&Journal>) -> Arc<dyn ChildLog> {
    match journal {
        Some(journal) => Arc::new(Journalled { journal: journal.clone(), clock: Clock::system() }),
        None => Arc::new(Unlogged),
    }
}

struct Journalled {
    journal: Journal,
    clock: Clock,
}

impl ChildLog for Journalled {
    fn started(&self, request: &RequestId, identity: &ProcessIdentity, command: &str) {
        let shown: String = command.chars().take(200).collect();
        self.journal.child_started(request, identity.to_string(), shown, self.clock.now_ms());
    }

    fn ended(&self, identity: &ProcessIdentity) {
        self.journal.child_ended(identity.to_string());
    }
}

/// Ends what an earlier life left running.
pub(super) struct Killer;

impl Survivors for Killer {
    fn end(&self, request: &RequestId, identity: &str) {
        match identity.parse::<ProcessIdentity>() {
            Ok(identity) => {
                let stopped = kill_survivor(&identity, request);
                tracing::info!(request.id = %request, pid = identity.pid(), ?stopped, "a process of an earlier life was looked for");
            }
            Err(error) => {
                tracing::warn!(request.id = %request, %error, "a process of an earlier life cannot be identified");
            }
        }
    }
}

/// The home's skills and agents, and the news of their changes.
pub(super) fn home_catalog(home: &Home) -> Arc<dyn Catalog> {
    Arc::new(HomeCatalog { home: home.clone(), news: OnceLock::new() })
}

struct HomeCatalog {
    home: Home,
    /// There once somebody wants to know: one pass does not, and ending a watch takes the system a while.
    news: OnceLock<News>,
}

struct News {
    changes: watch::Receiver<u64>,
    _forwarding: tokio::task::JoinSet<()>,
}

impl News {
    fn of(home: &Home) -> Self {
        let (bell, changes) = watch::channel(0_u64);
        let (mut watched, problems) = Watch::open(home);
        for problem in problems {
            tracing::warn!(%problem, "changes of the home may go unnoticed");
        }
        let mut forwarding = tokio::task::JoinSet::new();
        forwarding.spawn(async move {
            loop {
                watched.changed().await;
                if bell.is_closed() {
                    return;
                }
                bell.send_modify(|n| *n += 1);
            }
        });
        Self { changes, _forwarding: forwarding }
    }
}

impl Catalog for HomeCatalog {
    fn items(&self, kind: CatalogKind) -> Vec<CatalogItem> {
        let (items, problems) = match kind {
            CatalogKind::Tool => return Vec::new(),
            CatalogKind::Skill => {
                let (skills, problems) = home::load_skills(&self.home);
                (skills.iter().map(home::Skill::catalog_item).collect::<Vec<_>>(), problems)
            }
            CatalogKind::Agent => {
                let (agents, problems) = home::load_agents(&self.home);
                (agents.iter().map(home::Agent::catalog_item).collect(), problems)
            }
        };
        for problem in problems {
            tracing::warn!(%problem, "something in the home could not be loaded");
        }
        items
            .into_iter()
            .map(|item| CatalogItem { key: item.key, hash: item.hash, body: item.body })
            .collect()
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.news.get_or_init(|| News::of(&self.home)).changes.clone())
    }
}
