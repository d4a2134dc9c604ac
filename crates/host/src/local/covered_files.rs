//! The files that running commands find read-only one by one. Such a cover falls off when the owner's own program
//! replaces the file, as `git config` does, and a command may wait for that. So at the first sign of it the commands
//! are frozen, and go on once the file is compared and covered again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use notify::event::{Event, EventKind, ModifyKind};
use parking_lot::Mutex;

use super::frozen_processes::FrozenProcesses;
use super::guard_state::Writers;
use super::process_kill::is_so_within;
use super::process_tree::ProcessTree;
use super::protected_path_guard::SharedGuard;
use super::protected_path_stamp::path_stamp;
use super::protected_paths::ProtectedPathState;
use crate::protected_path::{REPOSITORY, find_protection, may_concern};
use punie_core::bounded_file::{FinalLink, open_nonblocking};
use punie_sandbox::running_covers::{cover_files, has_lost_cover, is_open_for_writing};

/// The longest time for which covers are renewed before the commands go on.
const MAX_RENEWAL: Duration = Duration::from_millis(200);
/// The time in which a program that has made a lock file replaces the file, and in which one that writes a file closes it.
/// Git needs less than a millisecond.
const MAX_WAIT: Duration = Duration::from_millis(20);

/// The covered files of the commands of a guard.
#[derive(Default)]
pub(super) struct CoveredFiles(Mutex<CoverState>);

#[derive(Default)]
struct CoverState {
    commands: Vec<CoveredCommand>,
    frozen: Option<Vec<FrozenProcesses>>,
    /// The lock files that were made since the commands were frozen.
    locks: HashSet<PathBuf>,
    /// The files into which a program wrote since they were last replaced.
    written: HashSet<PathBuf>,
    events: u64,
}

#[derive(Clone)]
struct CoveredCommand {
    id: u64,
    tree: ProcessTree,
    files: Vec<PathBuf>,
}

/// The files of a command that have no cover any more.
struct LostCovers {
    id: u64,
    process: u32,
    files: Vec<PathBuf>,
}

impl CoveredFiles {
    /// Adds a command that has started.
    pub fn add_command(&self, id: u64, tree: ProcessTree, files: Vec<PathBuf>) {
        if !files.is_empty() {
            self.0
                .lock()
                .commands
                .push(CoveredCommand { id, tree, files });
        }
    }

    /// Forgets the commands that have ended.
    pub fn retain_commands(&self, is_living: impl Fn(u64) -> bool) {
        self.0
            .lock()
            .commands
            .retain(|command| is_living(command.id));
    }

    /// Returns the number of events about protected files so far.
    pub fn count_events(&self) -> u64 {
        self.0.lock().events
    }

    /// Freezes the commands if this event is about a covered file, or about the lock file that git renames over one.
    /// Returns whether it is.
    pub fn record_event(&self, event: &Event) -> bool {
        let is_write = matches!(event.kind, EventKind::Modify(ModifyKind::Data(_)));
        let is_creation = matches!(event.kind, EventKind::Create(_));
        let is_replacement = matches!(
            event.kind,
            EventKind::Modify(ModifyKind::Name(_)) | EventKind::Remove(_)
        );
        if !is_write && !is_creation && !is_replacement {
            return false;
        }
        let mut state = self.0.lock();
        let mut concerns = false;
        for path in &event.paths {
            if state.is_covered(path) {
                if is_write {
                    state.written.insert(path.clone());
                } else {
                    state.written.remove(path);
                }
                concerns = true;
            } else if is_creation
                && path
                    .extension()
                    .is_some_and(|extension| extension == "lock")
                && state.is_covered(&path.with_extension(""))
            {
                state.locks.insert(path.clone());
                concerns = true;
            }
        }
        // A command that is just starting may find a file that was replaced since its covers were planned.
        if concerns || event.paths.iter().any(|path| may_concern(path)) {
            state.events += 1;
        }
        if concerns {
            state.freeze_commands();
        }
        concerns
    }

    /// Waits until the program that made a lock file has replaced the file, or has given up, or takes too long.
    fn wait_for_locks(&self) {
        let locks = std::mem::take(&mut self.0.lock().locks);
        let is_gone = |lock: &PathBuf| lock.symlink_metadata().is_err();
        is_so_within(MAX_WAIT, || locks.iter().all(is_gone));
    }

    /// Finds the files that commands find writable by now.
    fn find_lost_covers(&self) -> Vec<LostCovers> {
        let commands = self.0.lock().commands.clone();
        let lost = commands.into_iter().filter_map(|mut command| {
            let process = command.tree.find_any_member()?;
            // A process that has ended meanwhile needs no cover.
            command
                .files
                .retain(|file| has_lost_cover(process, file).unwrap_or(false));
            (!command.files.is_empty()).then_some(LostCovers {
                id: command.id,
                process,
                files: command.files,
            })
        });
        lost.collect()
    }

    /// Finds the uncovered files that a command may have written, or is about to write, with the commands that can. Git
    /// never writes a configuration in its place, but editors do.
    fn find_written(&self, lost: &[LostCovers]) -> HashMap<PathBuf, Writers> {
        let mut found: HashMap<PathBuf, Writers> = HashMap::new();
        let written = std::mem::take(&mut self.0.lock().written);
        for command in lost {
            for file in &command.files {
                // Asked once for each file: that may take a while.
                let is_held = found
                    .get(file)
                    .map_or_else(|| is_held(file), |known| known.is_held);
                if is_held || written.contains(file) {
                    let writers = found.entry(file.clone()).or_default();
                    writers.commands.push(command.id);
                    writers.is_held = is_held;
                }
            }
        }
        found
    }

    fn freeze_commands(&self) {
        self.0.lock().freeze_commands();
    }

    /// Lets the commands go on if that is right at this number of events. Returns whether it was.
    fn thaw_commands(&self, is_right: impl FnOnce(u64) -> bool) -> bool {
        let mut state = self.0.lock();
        if !is_right(state.events) {
            return false;
        }
        state.frozen = None;
        true
    }
}

impl CoverState {
    fn is_covered(&self, path: &Path) -> bool {
        self.commands
            .iter()
            .any(|command| command.files.iter().any(|file| file == path))
    }

    fn freeze_commands(&mut self) {
        if self.frozen.is_none() {
            let trees = self.commands.iter().map(|command| &command.tree);
            self.frozen = Some(trees.map(FrozenProcesses::freeze_tree).collect());
        }
    }
}

impl SharedGuard {
    /// Compares the covered files that were replaced, covers them again, and lets the commands go on.
    pub fn renew_covers(&self) {
        let until = Instant::now() + MAX_RENEWAL;
        loop {
            self.covered.wait_for_locks();
            let events = self.covered.count_events();
            let lost = self.covered.find_lost_covers();
            if !lost.is_empty() {
                self.covered.freeze_commands();
                self.compare_uncovered(&lost);
                // A file that was put back is a new one.
                for lost in self.covered.find_lost_covers() {
                    self.cover_again(&lost);
                }
            }
            let is_late = Instant::now() >= until;
            if self
                .covered
                .thaw_commands(|latest| is_late || latest == events)
            {
                return;
            }
        }
    }

    fn compare_uncovered(&self, lost: &[LostCovers]) {
        let written = self.covered.find_written(lost);
        let mut state = self.lock_state();
        state.written_by = written;
        // These alone, at once: a program of the owner's may be about to read them.
        let files: BTreeSet<&PathBuf> = lost.iter().flat_map(|lost| &lost.files).collect();
        for file in files {
            if let Ok(metadata) = file.symlink_metadata() {
                let now = ProtectedPathState {
                    why: find_protection(file).map_or(REPOSITORY, |found| found.why),
                    cover: None,
                    stamp: path_stamp(&metadata),
                };
                self.check_path(&mut state, file, &now);
            }
        }
        state.written_by.clear();
    }

    /// Covers the files of a command again. A command for which that fails is ended.
    fn cover_again(&self, lost: &LostCovers) {
        let Err(cause) = cover_files(lost.process, &lost.files) else {
            return;
        };
        let is_lost = |file: &PathBuf| has_lost_cover(lost.process, file).unwrap_or(false);
        if lost.files.iter().any(is_lost) {
            tracing::warn!(
                %cause,
                "a protected file that was replaced cannot be made read-only for a running command, which is ended"
            );
            self.lock_state().kill_commands(&[lost.id]);
        }
    }
}

/// Returns whether a frozen command has a regular file open for writing: any other program closes it soon.
fn is_held(path: &Path) -> bool {
    let opened = open_nonblocking(path, FinalLink::Refuse);
    opened.is_ok_and(|file| !is_so_within(MAX_WAIT, || !is_open_for_writing(&file)))
}
