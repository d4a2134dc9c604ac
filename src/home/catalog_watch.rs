//! Reports changes in `skills/`, `agents/` or `plugins/`, so that they are read again. It sleeps until the system sends
//! an event. If the system cannot, it reports that once and stays silent.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use notify::Event;
use notify::event::{AccessKind, AccessMode, EventKind};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::folder_watch::FolderWatch;
use super::home_document;
use super::home_problem::HomeProblem;
use super::layout::Home;

/// The time without events before a change is reported, because an editor writes a file in several steps.
const QUIET_PERIOD: Duration = Duration::from_millis(300);
/// The longest time before a change is reported, even if events continue.
const MAX_REPORT_DELAY: Duration = Duration::from_secs(3);

/// The signal of changes. Changes before [`CatalogWatch::open`] returns are not in it, so read the files after
/// opening.
#[derive(Debug)]
pub struct CatalogWatch {
    signal: watch::Receiver<()>,
    /// The start of the change that is not yet reported.
    since: Option<Instant>,
    folders: Arc<CatalogFolders>,
}

#[derive(Debug)]
struct CatalogFolders {
    watch: FolderWatch,
    roots: [PathBuf; 3],
}

impl CatalogWatch {
    /// Watches the home's skills, agents and plugins. Lists folders: call it where blocking is allowed.
    pub fn open(home: &Home) -> (Self, Vec<HomeProblem>) {
        let (sender, signal) = watch::channel(());
        let watch = FolderWatch::new(move |event| {
            if event.is_none_or(is_change) {
                sender.send_replace(());
            }
        });
        let roots = [home.skills_dir(), home.agents_dir(), home.plugins_dir()];
        let folders = CatalogFolders { watch, roots };
        let blind = |error: notify::Error| {
            let text = format!(
                "changes to skills, agents and plugins are not noticed until a restart: {error}"
            );
            HomeProblem::not_loaded(home.root_dir().to_owned(), text)
        };
        let problems = folders.watch_folders().err().map(blind);
        (
            Self {
                signal,
                since: None,
                folders: Arc::new(folders),
            },
            problems.into_iter().collect(),
        )
    }

    /// Waits for the next change, and then until no event has come for a moment. Events after the return are the next
    /// change. Cancelling the wait loses no change.
    pub async fn wait_for_change(&mut self) {
        let since = if let Some(since) = self.since {
            since
        } else {
            if self.signal.changed().await.is_err() {
                // The sender cannot be gone while this holds the watch; if it were, this must sleep and not spin.
                std::future::pending::<()>().await;
            }
            *self.since.insert(Instant::now())
        };
        while since.elapsed() < MAX_REPORT_DELAY
            && timeout(QUIET_PERIOD, self.signal.changed()).await.is_ok()
        {}
        self.rewatch_folders().await;
        self.since = None;
    }

    /// Watches new folders before the change is reported, so that no file written into them is missed.
    async fn rewatch_folders(&self) {
        let folders = Arc::clone(&self.folders);
        match tokio::task::spawn_blocking(move || folders.watch_folders()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "some changes to skills, agents and plugins will not be noticed");
            }
            Err(error) => {
                tracing::warn!(%error, "the folders of skills, agents and plugins were not looked at again");
            }
        }
    }
}

impl CatalogFolders {
    /// Watches the folders and their direct subfolders, but not deeper, because a skill may contain a whole project. In a
    /// plugin, the folders of its skills and agents are watched, too. A folder that is already watched is watched again, because it may be a new one with an old name.
    fn watch_folders(&self) -> notify::Result<()> {
        let mut worst = Ok(());
        for root in &self.roots {
            let mut ignored = Vec::new();
            let mut inner = home_document::document_folders(root, &mut ignored);
            if root.ends_with("plugins") {
                for plugin in inner.clone() {
                    for brought in [plugin.join("skills"), plugin.join("agents")] {
                        inner.extend(home_document::document_folders(&brought, &mut ignored));
                        inner.push(brought);
                    }
                }
            }
            for dir in std::iter::once(root)
                .chain(&inner)
                .filter(|dir| dir.is_dir())
            {
                if let Err(error) = self.watch.watch(dir) {
                    worst = Err(error);
                }
            }
        }
        worst
    }
}

/// Returns whether an event is a change. Reading is not, because reading the skills would trigger another event.
fn is_change(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{AccessKind, CreateKind, ModifyKind, RemoveKind};

    use super::*;

    #[test]
    fn reading_is_not_a_change_and_everything_else_is() {
        let event = |kind| is_change(&Event::new(kind));
        for reading in [
            AccessKind::Open(AccessMode::Any),
            AccessKind::Close(AccessMode::Read),
            AccessKind::Read,
        ] {
            assert!(!event(EventKind::Access(reading)), "{reading:?}");
        }
        assert!(event(EventKind::Access(AccessKind::Close(
            AccessMode::Write
        ))));
        assert!(event(EventKind::Create(CreateKind::Any)));
        assert!(event(EventKind::Modify(ModifyKind::Any)));
        assert!(event(EventKind::Remove(RemoveKind::Any)));
        assert!(
            event(EventKind::Other),
            "the system may say so when it lost events"
        );
    }
}
