//! The catalog of the home's skills, agents and plugins, for the engine to publish.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::watch;

use punie_engine::backend::{CatalogEntry, CatalogKind};
use punie_engine::runner::CatalogSource;
use punie_handlers::plugin::PluginHost;
use punie_home::{self, CatalogWatch, CopyTexts, Home, HomeProblem, ProblemEffect};

/// Creates a catalog of the home's skills, agents and plugins that also reports changes.
pub(super) fn home_catalog(home: &Home, plugins: PluginHost) -> Arc<dyn CatalogSource> {
    Arc::new(HomeCatalog {
        home: home.clone(),
        logged: Mutex::default(),
        plugins,
        news: OnceLock::new(),
    })
}

struct HomeCatalog {
    home: Home,
    /// The problems that were logged and still stand.
    logged: Mutex<HashMap<&'static str, BTreeSet<HomeProblem>>>,
    plugins: PluginHost,
    /// Opened on first use: a single pass does not need it, and closing a watch takes a while.
    news: OnceLock<CatalogChanges>,
}

struct CatalogChanges {
    changes: watch::Receiver<u64>,
    _forwarding: tokio::task::JoinSet<()>,
}

impl CatalogChanges {
    fn watch_home(home: &Home) -> Self {
        let (bell, changes) = watch::channel(0_u64);
        let (mut watched, problems) = CatalogWatch::open(home);
        for problem in problems {
            tracing::warn!(%problem, "changes of the home may go unnoticed");
        }
        let mut forwarding = tokio::task::JoinSet::new();
        forwarding.spawn(async move {
            loop {
                watched.wait_for_change().await;
                if bell.is_closed() {
                    return;
                }
                bell.send_modify(|n| *n += 1);
            }
        });
        Self {
            changes,
            _forwarding: forwarding,
        }
    }
}

impl HomeCatalog {
    /// Logs the problems that did not stand before: all files are read again after each change.
    fn log_new_problems(&self, kind: CatalogKind, problems: Vec<HomeProblem>) {
        let mut logged = self.logged.lock();
        let before = logged.entry(kind.as_str()).or_default();
        for problem in problems.iter().filter(|one| !before.contains(one)) {
            match problem.effect {
                ProblemEffect::Warning => tracing::info!(%problem, "a flaw of a skill or an agent"),
                effect => {
                    let effect = effect.as_heading();
                    tracing::warn!(%problem, effect, "something in the home could not be loaded");
                }
            }
        }
        *before = problems.into_iter().collect();
    }
}

impl CatalogSource for HomeCatalog {
    fn catalog_items(&self, kind: CatalogKind) -> Vec<CatalogEntry> {
        let (mut items, mut problems) = match kind {
            CatalogKind::Tool => return Vec::new(),
            CatalogKind::Plugin => (self.plugins.catalog_items(), Vec::new()),
            CatalogKind::Skill => {
                let (skills, problems) = punie_home::load_skills(&self.home, CopyTexts::Yes);
                let items: Vec<_> = skills.iter().map(punie_home::Skill::catalog_item).collect();
                (items, problems)
            }
            CatalogKind::Agent => {
                let (agents, problems) = punie_home::load_agents(&self.home, CopyTexts::Yes);
                let items = agents.iter().map(punie_home::AgentDefinition::catalog_item);
                (items.collect(), problems)
            }
        };
        let folder = match kind {
            CatalogKind::Agent => self.home.agents_dir(),
            _ => self.home.skills_dir(),
        };
        problems.extend(punie_home::fit_catalog(&mut items, &folder));
        self.log_new_problems(kind, problems);
        items
    }

    fn subscribe_catalog(&self) -> Option<watch::Receiver<u64>> {
        Some(
            self.news
                .get_or_init(|| CatalogChanges::watch_home(&self.home))
                .changes
                .clone(),
        )
    }
}
