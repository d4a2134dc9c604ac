//! Guards the workspaces' protected paths while commands live: remembers the files that were there before, and puts
//! them back when one appears or changes that may run a program later. Not here: the paths (protected_paths), when they
//! are compared (protected_path_monitor), and the trash.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};

use super::covered_files::CoveredFiles;
use super::git_config;
use super::guard_state::{GuardState, LiveCommand};
use super::guarded_places::GuardedPlaces;
use super::process_tree::ProcessTree;
use super::protected_path_monitor::{Monitor, WakeReason};
use super::protected_path_records::{FileContent, ProtectedPathRecords};
use super::protected_path_stamp::PathStamp;
use super::protected_paths::{ProtectedPathScan, ProtectedPathState};
use crate::protected_path;
use punie_core::clock::unix_time_ms;
use punie_sandbox::SandboxRules;

/// The resolution of the kernel's time stamps, in milliseconds, at its coarsest.
const STAMP_RESOLUTION_MS: i64 = 10;

/// The guard of a runner's workspaces. Clones share it.
#[derive(Clone)]
pub(super) struct ProtectedPathGuard(Arc<SharedGuard>);

pub(super) struct SharedGuard {
    places: GuardedPlaces,
    pub records: OnceLock<Arc<dyn ProtectedPathRecords>>,
    pub monitor: Monitor,
    pub covered: CoveredFiles,
    state: Mutex<GuardState>,
}

/// The state at a command's start.
pub(super) struct GuardStart {
    pub id: u64,
    pub told: usize,
    pub seen: BTreeMap<PathBuf, ProtectedPathState>,
}

impl ProtectedPathGuard {
    /// Creates the guard of these workspaces. It starts no thread before the first command.
    pub fn new(rules: SandboxRules) -> Self {
        Self(Arc::new(SharedGuard {
            places: GuardedPlaces::new(rules),
            records: OnceLock::new(),
            monitor: Monitor::default(),
            covered: CoveredFiles::default(),
            state: Mutex::default(),
        }))
    }

    /// Returns a guard with other rules and the same trash and notices. Commands that run stay with this one.
    pub fn with_rules(&self, rules: SandboxRules) -> Self {
        if self.0.places.has_same_places(&rules) {
            return self.clone();
        }
        let guard = Self::new(rules);
        if let Some(records) = self.0.records.get() {
            guard.set_records(Arc::clone(records));
        }
        guard
    }

    /// Sets the trash and the notices. Without them changes are only reported.
    pub fn set_records(&self, records: Arc<dyn ProtectedPathRecords>) {
        // Called once; the first ones stay.
        let _ = self.0.records.set(records);
    }

    /// Starts guarding for a command in this folder. While no other command lives, every path is accepted as it is:
    /// the owner may have changed it. With `covers_paths` the command finds the covered ones read-only. Blocks for some
    /// tens of system calls.
    pub fn begin_command(&self, cwd: &Path, covers_paths: bool) -> GuardStart {
        let shared = &self.0;
        let now_ms = unix_time_ms();
        // Before the scan: what comes later may be about a file that the command does not find covered.
        let events = shared.covered.count_events();
        let mut state = shared.state.lock();
        let is_first = state.live.is_empty();
        if is_first {
            state.folders.clear();
            state.told.clear();
            state.put_backs.clear();
        } else {
            shared.compare_paths(&mut state);
        }
        let roots = shared.roots();
        if let Some(root) = roots.iter().find(|root| cwd.starts_with(root)) {
            let above = cwd.ancestors().take_while(|folder| folder != root);
            state.folders.extend(above.map(Path::to_owned));
        }
        let (seen, _) = shared.places.scan_paths(&state.folders);
        for (path, now) in &seen {
            let known = state.known.get(path);
            if known.is_none_or(|known| is_first && known.stamp != now.stamp) {
                let content = FileContent::read_small(path);
                state.remember(path, now.stamp, content);
            }
        }
        if is_first {
            let is_gone =
                |path: &&PathBuf| !seen.contains_key(*path) && path.symlink_metadata().is_err();
            for path in state
                .known
                .keys()
                .filter(is_gone)
                .cloned()
                .collect::<Vec<_>>()
            {
                state.forget(&path);
            }
        }
        state.unwalked_ms.get_or_insert(now_ms);
        state.last_alive_ms = now_ms;
        state.last_id += 1;
        let id = state.last_id;
        let live = LiveCommand::starting(id, &seen, covers_paths, events);
        state.live.push(live);
        let told = state.told.len();
        drop(state);
        shared.places.repositories.record_command_start();
        shared.monitor.wake(shared, WakeReason::Begun);
        GuardStart { id, told, seen }
    }

    /// Sets the processes of a command.
    pub fn attach_processes(&self, id: u64, tree: Option<ProcessTree>, in_background: bool) {
        let mut state = self.0.state.lock();
        let Some(live) = state.live.iter_mut().find(|live| live.id == id) else {
            return;
        };
        (live.tree, live.in_background) = (tree.clone(), in_background);
        let files = live.covered_files.clone();
        let events = live.events;
        drop(state);
        let shared = &self.0;
        if let Some(tree) = tree {
            shared.covered.add_command(id, tree, files);
        }
        if shared.covered.count_events() != events {
            shared.monitor.wake(shared, WakeReason::Replaced);
        }
    }

    /// Compares the paths at a command's end. Returns the sentences of the changes since its start, and of the limits
    /// that are new. Unless the command left no process, it is guarded against further.
    pub fn end_command(
        &self,
        id: u64,
        told: usize,
        is_all_over: bool,
    ) -> (Vec<String>, Vec<String>) {
        let shared = &self.0;
        let mut state = shared.state.lock();
        if let Some(live) = state.live.iter_mut().find(|live| live.id == id) {
            live.is_running = false;
        }
        let limits = shared.compare_paths(&mut state);
        let changes = state.told.get(told..).unwrap_or_default().to_vec();
        if is_all_over {
            state.live.retain(|live| live.id != id);
            shared.covered.retain_commands(|living| living != id);
        }
        state.last_alive_ms = unix_time_ms();
        drop(state);
        shared.monitor.wake(shared, WakeReason::Ended);
        (changes, shared.places.repositories.new_limits(limits))
    }

    /// Forgets a command that did not start, or has ended without processes.
    pub fn forget_command(&self, id: u64) {
        let is_gone = |live: &LiveCommand| live.id == id && live.tree.is_none();
        self.0.state.lock().live.retain(|live| !is_gone(live));
    }
}

impl SharedGuard {
    pub fn lock_state(&self) -> MutexGuard<'_, GuardState> {
        self.state.lock()
    }

    fn roots(&self) -> &[PathBuf] {
        self.places.roots()
    }

    /// Returns the workspaces, in which new repositories are looked for.
    pub fn workspaces(&self) -> &[PathBuf] {
        self.places.workspaces()
    }

    pub fn has_live_commands(&self) -> bool {
        !self.state.lock().live.is_empty()
    }

    pub fn has_foreground_command(&self) -> bool {
        self.state.lock().has_foreground_command()
    }

    /// Compares the paths if asked to, and once more if a command's last process has ended. Returns whether one has.
    pub fn check_live_commands(&self, must_compare: bool) -> bool {
        let mut state = self.state.lock();
        let is_over = |live: &LiveCommand| {
            !live.is_running
                && live
                    .tree
                    .as_ref()
                    .is_none_or(|tree| tree.find_members().is_empty())
        };
        let over: Vec<u64> = state
            .live
            .iter()
            .filter(|live| is_over(live))
            .map(|live| live.id)
            .collect();
        if !state.live.is_empty() && (must_compare || !over.is_empty()) {
            self.compare_paths(&mut state);
        }
        state.live.retain(|live| !over.contains(&live.id));
        self.covered
            .retain_commands(|living| !over.contains(&living));
        if !over.is_empty() {
            state.last_alive_ms = unix_time_ms();
        }
        !over.is_empty()
    }

    /// Returns the folders in which a protected path may change.
    pub fn watched_folders(&self) -> BTreeSet<PathBuf> {
        let state = self.state.lock();
        let parents = state.known.keys().filter_map(|path| path.parent());
        let inner = state
            .known
            .iter()
            .filter(|(_, known)| known.stamp == PathStamp::Separate);
        let all = parents.chain(inner.map(|(path, _)| path.as_path()));
        all.chain(
            state
                .folders
                .iter()
                .chain(self.roots())
                .map(PathBuf::as_path),
        )
        .map(Path::to_owned)
        .collect()
    }

    /// Checks the repositories that a walk found, each by its `.git` or by its folder. `began_ms` is the walk's start.
    pub fn check_found_repositories(&self, found: &[PathBuf], began_ms: i64) {
        for path in found {
            let mut scan = ProtectedPathScan::new(self.places.free());
            if path
                .file_name()
                .is_some_and(|name| name.eq_ignore_ascii_case(".git"))
            {
                scan.add_repository(path);
            } else {
                scan.add_bare_repository(path);
            }
            let mut state = self.state.lock();
            let since = state.unwalked_ms.unwrap_or(began_ms);
            for (path, now) in &scan.seen {
                if !state.known.contains_key(path) && self.is_untouched_since(path, since) {
                    let content = FileContent::read_small(path);
                    state.remember(path, now.stamp, content);
                }
                self.check_path(&mut state, path, now);
            }
        }
        let mut state = self.state.lock();
        let has_lived = !state.live.is_empty() || state.last_alive_ms >= began_ms;
        state.unwalked_ms = has_lived.then_some(began_ms);
    }

    /// Returns whether a file, and the folders from it to the workspace, are as they were at this time. A folder that
    /// was moved there since has another time of change.
    fn is_untouched_since(&self, path: &Path, since_ms: i64) -> bool {
        let Some(root) = self.roots().iter().find(|root| path.starts_with(root)) else {
            return false;
        };
        path.ancestors()
            .take_while(|part| part != root)
            .all(|part| {
                let Ok(metadata) = part.symlink_metadata() else {
                    return false;
                };
                metadata.ctime() * 1_000 + metadata.ctime_nsec() / 1_000_000 + STAMP_RESOLUTION_MS
                    < since_ms
            })
    }

    /// Compares the paths with the known ones, and puts back those that changed. Returns the limits of the scan.
    fn compare_paths(&self, state: &mut GuardState) -> Vec<String> {
        let (seen, limits) = self.places.scan_paths(&state.folders);
        for (path, now) in &seen {
            self.check_path(state, path, now);
        }
        // Git leaves no repository without HEAD. A command that runs may be about to remove all of it.
        let is_lost = |path: &&PathBuf| {
            let git = path
                .parent()
                .filter(|git| git.ends_with(".git") && path.ends_with("HEAD"));
            let has = |git: &Path, name: &str| git.join(name).symlink_metadata().is_ok();
            git.is_some_and(|git| !has(git, "HEAD") && has(git, "objects") && has(git, "refs"))
        };
        if !state.has_foreground_command() {
            let lost: Vec<PathBuf> = state.known.keys().filter(is_lost).cloned().collect();
            for path in lost {
                self.put_back(state, &path, protected_path::REPOSITORY, None);
            }
        }
        limits
    }

    /// Accepts a path as it is now if it is harmless, and puts it back if not.
    pub fn check_path(&self, state: &mut GuardState, path: &Path, now: &ProtectedPathState) {
        let known = state.known.get(path);
        let writers = state.written_by.get(path);
        if known.is_some_and(|known| known.stamp == now.stamp) && writers.is_none() {
            return;
        }
        let is_held = writers.is_some_and(|writers| writers.is_held);
        let content = FileContent::read_small(path);
        // It may be gone since, as a file that an editor writes and then renames.
        let Ok(metadata) = path.symlink_metadata() else {
            return;
        };
        if now.stamp != PathStamp::Separate && content.is_none() && !metadata.is_dir() {
            return self.put_back(state, path, now.why, None);
        }
        if known.is_none()
            && git_config::is_created_empty(path)
            && content
                .as_ref()
                .is_some_and(|content| content.bytes.is_empty())
        {
            return;
        }
        let before = known.and_then(|known| known.content.as_ref());
        let is_harmless = now.stamp == PathStamp::Separate
            || state.is_out_of_reach(path)
            || !is_held
                && content.as_ref().is_none_or(|content| {
                    let before = before.and_then(FileContent::text);
                    content.text().is_some_and(|text| {
                        git_config::is_harmless(path, text, before, self.roots())
                    }) || state.is_known_elsewhere(path, content)
                        || self.is_undone(state, path, content)
                });
        if is_harmless {
            state.remember(path, now.stamp, content);
        // The rebase of a command that runs carries its own commands out.
        } else if !(path.ends_with(protected_path::REBASE_TODO) && state.has_foreground_command()) {
            self.put_back(state, path, now.why, content);
        }
    }
}
