//! Reports changes in folders. All watches of the process share one thread and one queue of the system, because a
//! process that rests pays for each. Commands' protected paths have a queue of their own
//! (host::local::protected_path_monitor), which a busy workspace may overflow.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::Mutex;
use tokio::sync::watch;

/// Watches folders, but not their subfolders, until it is dropped.
#[derive(Debug)]
pub struct FolderWatch {
    id: u64,
}

/// A folder's changes as a signal.
#[derive(Debug)]
pub struct FolderSignal {
    /// Notified whenever something may have changed.
    pub changes: watch::Receiver<()>,
    _watch: FolderWatch,
}

/// Hears of an event in the folders; `None` if an event was lost, which may hide any change.
type EventListener = Arc<dyn Fn(Option<&Event>) + Send + Sync>;

/// The system's watcher, while there is a listener. It waits for its thread, which reads the listeners: nobody may hold
/// those while calling it.
static WATCHER: Mutex<Option<RecommendedWatcher>> = Mutex::new(None);
static LISTENERS: Mutex<Vec<FolderListener>> = Mutex::new(Vec::new());
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

struct FolderListener {
    id: u64,
    /// Without symbolic links, because the system names one folder by one path only.
    folders: BTreeSet<PathBuf>,
    hear_event: EventListener,
}

impl FolderWatch {
    /// Watches no folder yet.
    pub fn new(hear_event: impl Fn(Option<&Event>) + Send + Sync + 'static) -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        LISTENERS.lock().push(FolderListener {
            id,
            folders: BTreeSet::new(),
            hear_event: Arc::new(hear_event),
        });
        Self { id }
    }

    /// Watches a folder too. One that is already watched is watched again, because it may be a new one with an old name.
    ///
    /// # Errors
    /// The system cannot, or the folder does not exist.
    pub fn watch(&self, folder: &Path) -> notify::Result<()> {
        let folder = folder.canonicalize()?;
        let mut shared = WATCHER.lock();
        let watcher = match &mut *shared {
            Some(watcher) => watcher,
            None => shared.insert(notify::recommended_watcher(tell_listeners)?),
        };
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
        let mut listeners = LISTENERS.lock();
        if let Some(listener) = listeners.iter_mut().find(|one| one.id == self.id) {
            listener.folders.insert(folder);
        }
        Ok(())
    }

    /// Watches one folder for these events. Reading is never one, because reading a changed file would be the next.
    ///
    /// # Errors
    /// As [`FolderWatch::watch`].
    pub fn signal_changes(
        folder: &Path,
        is_change: impl Fn(&Event) -> bool + Send + Sync + 'static,
    ) -> notify::Result<FolderSignal> {
        let (sender, changes) = watch::channel(());
        let watch = Self::new(move |event| {
            if event.is_none_or(|event| !event.kind.is_access() && is_change(event)) {
                sender.send_replace(());
            }
        });
        watch.watch(folder)?;
        Ok(FolderSignal {
            changes,
            _watch: watch,
        })
    }
}

impl Drop for FolderWatch {
    fn drop(&mut self) {
        let mut shared = WATCHER.lock();
        let mut listeners = LISTENERS.lock();
        let Some(place) = listeners.iter().position(|one| one.id == self.id) else {
            return;
        };
        let gone = listeners.swap_remove(place);
        let is_watched =
            |folder: &PathBuf| listeners.iter().any(|one| one.folders.contains(folder));
        let unused: Vec<PathBuf> = gone
            .folders
            .iter()
            .filter(|one| !is_watched(one))
            .cloned()
            .collect();
        let is_last = listeners.is_empty();
        drop(listeners);
        if is_last {
            *shared = None;
        } else if let Some(watcher) = &mut *shared {
            for folder in unused {
                // It may be gone.
                let _ = watcher.unwatch(&folder);
            }
        }
    }
}

/// Tells an event to all who watch its folder, and a lost one to all.
fn tell_listeners(event: notify::Result<Event>) {
    let event = event.ok().filter(|event| !event.need_rescan());
    let concerns = |listener: &&FolderListener| {
        let is_inside = |path: &PathBuf| {
            let folders = &listener.folders;
            folders.contains(path) || path.parent().is_some_and(|folder| folders.contains(folder))
        };
        event
            .as_ref()
            .is_none_or(|event| event.paths.iter().any(is_inside))
    };
    let heard: Vec<EventListener> = LISTENERS
        .lock()
        .iter()
        .filter(concerns)
        .map(|listener| Arc::clone(&listener.hear_event))
        .collect();
    for hear_event in heard {
        hear_event(event.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[cfg(unix)]
    #[tokio::test]
    async fn a_watch_hears_of_its_own_folder_only_while_others_come_and_go() {
        let dir = tempfile::tempdir().expect("a folder");
        let [folder, other, link] = ["folder", "other", "link"].map(|name| dir.path().join(name));
        std::fs::create_dir(&folder).expect("made");
        std::fs::create_dir(&other).expect("made");
        std::os::unix::fs::symlink(&folder, &link).expect("made");
        let signal =
            |folder: &Path| FolderWatch::signal_changes(folder, |_| true).expect("watched");
        let elsewhere = signal(&other);
        let gone = signal(&folder);
        let mut linked = signal(&link);
        drop(gone);
        std::fs::write(folder.join("a"), "text").expect("written");
        tokio::time::timeout(Duration::from_secs(90), linked.changes.changed())
            .await
            .expect("reported")
            .expect("the watch is held");
        assert!(!elsewhere.changes.has_changed().expect("the watch is held"));
    }
}
