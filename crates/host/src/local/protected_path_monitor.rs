//! Compares the protected paths while commands live: after a change in one of their folders, after a command's last
//! process, and every minute. Looks for new repositories in the whole workspaces beside the calls.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use ignore::WalkBuilder;
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::protected_path_guard::SharedGuard;
use crate::protected_path;
use punie_core::clock::unix_time_ms;

/// The interval in which processes that a command left are looked for.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The interval in which the thread looks whether it is still of use, while no command lives.
const REST_INTERVAL: Duration = Duration::from_mins(30);
/// The interval in which all paths are compared.
const COMPARE_INTERVAL: Duration = Duration::from_mins(1);
/// The time without a further change after which the paths are compared.
const QUIET_PERIOD: Duration = Duration::from_millis(10);
/// The number of quiet periods that are waited for at most.
const MAX_QUIET_PERIODS: usize = 5;
/// The number of folders that are watched.
const MAX_WATCHED_FOLDERS: usize = 1_024;
/// A walk is followed by a pause of so many times its duration.
const WALK_PAUSE_FACTOR: u32 = 20;

/// A reason to look at the paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeReason {
    Begun,
    Changed,
    /// A covered file changed, or is about to be replaced: commands are frozen until it is covered again.
    Replaced,
    Ended,
    /// A repository's index changed: it may name a repository inside, into which git then looks.
    Indexed,
    /// A walk is over: more folders may be known.
    Walked,
}

/// The thread that compares the paths; started with the first command.
#[derive(Default)]
pub(super) struct Monitor(OnceLock<Sender<WakeReason>>);

/// The folders in which the system reports changes, with their inodes.
struct FolderWatch {
    sender: Sender<WakeReason>,
    watcher: Option<RecommendedWatcher>,
    folders: HashMap<PathBuf, u64>,
}

impl Monitor {
    pub fn wake(&self, guard: &Arc<SharedGuard>, reason: WakeReason) {
        let sender = self.0.get_or_init(|| start_monitor(Arc::downgrade(guard)));
        // Without a thread the paths are still compared at each command's end.
        let _ = sender.send(reason);
    }
}

fn start_monitor(guard: Weak<SharedGuard>) -> Sender<WakeReason> {
    let (sender, wakes) = channel();
    let watch = FolderWatch::new(sender.clone(), guard.clone());
    let thread = thread::Builder::new().name("protected-paths".to_owned());
    if let Err(cause) = thread.spawn(move || run_monitor(&guard, &wakes, watch)) {
        tracing::warn!(%cause, "protected paths are only compared at a command's end");
    }
    sender
}

fn run_monitor(guard: &Weak<SharedGuard>, wakes: &Receiver<WakeReason>, mut watch: FolderWatch) {
    let walks = start_walker(guard.clone(), watch.sender.clone());
    let mut compared = Instant::now();
    loop {
        let Some(has_live) = guard.upgrade().map(|guard| guard.has_live_commands()) else {
            return;
        };
        let wait = if has_live {
            POLL_INTERVAL
        } else {
            REST_INTERVAL
        };
        let mut reasons = Vec::new();
        match wakes.recv_timeout(wait) {
            Ok(reason) => reasons.push(reason),
            Err(RecvTimeoutError::Timeout) if !has_live => continue,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let mut quiet_periods = 0;
        // Frozen commands wait for no quiet period.
        while reasons.last() != Some(&WakeReason::Replaced) && quiet_periods < MAX_QUIET_PERIODS {
            let Ok(reason) = wakes.recv_timeout(QUIET_PERIOD) else {
                break;
            };
            reasons.push(reason);
            quiet_periods += 1;
        }
        let Some(guard) = guard.upgrade() else { return };
        let has = |reason| reasons.contains(&reason);
        let is_new_watch =
            (has(WakeReason::Begun) || has(WakeReason::Walked)) && watch.watch_folders(&guard);
        let is_due = compared.elapsed() >= COMPARE_INTERVAL && guard.has_live_commands();
        let must_compare = is_due || is_new_watch || has(WakeReason::Changed);
        if must_compare || has(WakeReason::Replaced) {
            guard.renew_covers();
        }
        let has_ended = guard.check_live_commands(must_compare);
        if must_compare {
            watch.watch_folders(&guard);
            compared = Instant::now();
        }
        // A foreground command is followed by a walk, and may be making a repository now.
        let is_left_alone = has_live && !guard.has_foreground_command();
        let is_at_work = is_left_alone && (has(WakeReason::Changed) || has(WakeReason::Indexed));
        if has_ended || is_due || is_at_work || has(WakeReason::Begun) || has(WakeReason::Ended) {
            // One walk that waits is enough.
            let _ = walks.try_send(());
        }
    }
}

impl FolderWatch {
    fn new(sender: Sender<WakeReason>, guard: Weak<SharedGuard>) -> Self {
        let wakes = sender.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // Here and not in the thread that compares, which may be at work.
            let is_covered = |event: &Event| {
                let guard = guard.upgrade();
                guard.is_some_and(|guard| guard.covered.record_event(event))
            };
            if event.as_ref().is_ok_and(is_covered) {
                let _ = wakes.send(WakeReason::Replaced);
            }
            // A lost event may hide a change, so it counts.
            let concerns = |event: &Event| {
                !event.kind.is_access()
                    && event
                        .paths
                        .iter()
                        .any(|path| protected_path::may_concern(path))
            };
            let names_index = |event: &Event| {
                let is_index = |path: &PathBuf| path.ends_with(".git/index");
                !event.kind.is_access() && event.paths.iter().any(is_index)
            };
            if event.as_ref().map_or(true, concerns) {
                let _ = wakes.send(WakeReason::Changed);
            } else if event.as_ref().is_ok_and(names_index) {
                let _ = wakes.send(WakeReason::Indexed);
            }
        });
        let watcher = watcher
            .inspect_err(
                |cause| tracing::warn!(%cause, "protected paths are compared once a minute only"),
            )
            .ok();
        Self {
            sender,
            watcher,
            folders: HashMap::new(),
        }
    }

    /// Watches the folders of the protected paths. Returns whether one is new.
    fn watch_folders(&mut self, guard: &SharedGuard) -> bool {
        let Some(watcher) = &mut self.watcher else {
            return false;
        };
        let mut is_any_new = false;
        for folder in guard.watched_folders() {
            let Ok(metadata) = folder.symlink_metadata() else {
                continue;
            };
            let is_same = self.folders.get(&folder) == Some(&metadata.ino());
            if is_same || !metadata.is_dir() || self.folders.len() >= MAX_WATCHED_FOLDERS {
                continue;
            }
            // A new folder under an old name.
            if self.folders.contains_key(&folder) {
                let _ = watcher.unwatch(&folder);
            }
            match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.folders.insert(folder, metadata.ino());
                    is_any_new = true;
                }
                Err(error) => tracing::debug!(%error, "a folder of protected paths is not watched"),
            }
        }
        is_any_new
    }
}

/// Starts the thread that walks through the workspaces, one walk at a time.
fn start_walker(guard: Weak<SharedGuard>, wakes: Sender<WakeReason>) -> SyncSender<()> {
    let (sender, orders) = sync_channel(1);
    let walk = move || {
        while let Ok(()) = orders.recv() {
            let Some(guard) = guard.upgrade() else { return };
            let began = Instant::now();
            let began_ms = unix_time_ms();
            let found: Vec<PathBuf> = guard
                .workspaces()
                .iter()
                .flat_map(|root| find_repositories(root))
                .collect();
            guard.check_found_repositories(&found, began_ms);
            drop(guard);
            let _ = wakes.send(WakeReason::Walked);
            thread::park_timeout(began.elapsed() * WALK_PAUSE_FACTOR);
        }
    };
    let thread = thread::Builder::new().name("repository-walk".to_owned());
    if let Err(cause) = thread.spawn(walk) {
        tracing::warn!(%cause, "new repositories deep in the workspaces are not found");
    }
    sender
}

/// Finds each `.git`, and each other folder that git takes for a repository.
fn find_repositories(root: &Path) -> Vec<PathBuf> {
    let is_git = |path: &Path| {
        path.file_name()
            .is_some_and(|name| name.eq_ignore_ascii_case(".git"))
    };
    let mut walk = WalkBuilder::new(root);
    walk.standard_filters(false).follow_links(false);
    walk.filter_entry(move |entry| !entry.path().parent().is_some_and(is_git));
    let mut found = Vec::new();
    for entry in walk.build().filter_map(Result::ok) {
        let path = entry.path();
        if is_git(path) {
            found.push(path.to_owned());
        } else if path.ends_with("HEAD")
            && let Some(folder) = path.parent()
            && protected_path::is_repository(|name| folder.join(name).symlink_metadata().is_ok())
        {
            found.push(folder.to_owned());
        }
    }
    found
}
