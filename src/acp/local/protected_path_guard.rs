//! Guards the workspaces' protected paths while commands live: remembers the files that were there before, and puts
//! them back when one appears or changes that may run a program later. Not here: the paths (protected_paths), when they
//! are compared (protected_path_monitor), and the trash.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use parking_lot::Mutex;

use super::folder_scan::{FolderScan, MAX_SCANNED_ENTRIES, ScanExtent};
use super::git_config;
use super::known_repositories::KnownRepositories;
use super::process_tree::ProcessTree;
use super::protected_path_monitor::{Monitor, WakeReason};
use super::protected_path_stamp::{PathStamp, path_stamp};
use super::protected_paths::{ProtectedPathScan, ProtectedPathState};
use crate::acp::protected_path;
use crate::ids::RequestId;
use crate::sandbox::SandboxRules;

/// The largest file whose content is remembered, in bytes, and the most of all of them together.
const MAX_FILE_BYTES: u64 = 256 << 10;
const MAX_REMEMBERED_BYTES: usize = 16 << 20;
/// The resolution of the kernel's time stamps, in milliseconds, at its coarsest.
const STAMP_RESOLUTION_MS: i64 = 10;

/// The content and the mode of a protected file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The permission bits.
    pub mode: u32,
}

/// A change of a protected path, for the owner.
#[derive(Debug, Clone)]
pub struct ProtectedPathChange {
    /// The path.
    pub path: PathBuf,
    /// The entry of the trash that has the changed file; none if it could not be moved there.
    pub request: Option<RequestId>,
    /// The change, the reason for its danger, and its undoing.
    pub text: String,
}

/// The trash for changed files, and the owner's notices.
pub trait ProtectedPathRecords: Send + Sync {
    /// Moves a file to the trash, unless an entry `kept` has it already, and puts this content in its place, or
    /// nothing. Returns the entry; `None` if the file could not be kept or there was none.
    ///
    /// # Errors
    /// The system's; the file is where it was then.
    fn put_back(
        &self,
        path: &Path,
        content: Option<&FileContent>,
        kept: Option<&RequestId>,
    ) -> io::Result<Option<RequestId>>;

    /// Returns whether the owner undoes this entry of the trash, or did.
    fn is_undone(&self, request: &RequestId) -> bool;

    /// Tells the owner.
    fn notify_owner(&self, change: &ProtectedPathChange);
}

/// The guard of a runner's workspaces. Clones share it.
#[derive(Clone)]
pub(super) struct ProtectedPathGuard(Arc<SharedGuard>);

pub(super) struct SharedGuard {
    rules: SandboxRules,
    places: OnceLock<GuardedPlaces>,
    repositories: KnownRepositories,
    records: OnceLock<Arc<dyn ProtectedPathRecords>>,
    pub monitor: Monitor,
    state: Mutex<GuardState>,
}

/// The workspaces, resolved, and the paths that the owner lets commands write.
struct GuardedPlaces {
    roots: Vec<PathBuf>,
    free: Vec<PathBuf>,
}

#[derive(Default)]
struct GuardState {
    /// The folders in which commands started, and those above them up to a workspace.
    folders: BTreeSet<PathBuf>,
    known: HashMap<PathBuf, KnownFile>,
    /// The bytes of the remembered contents.
    known_bytes: usize,
    live: Vec<LiveCommand>,
    last_id: u64,
    /// Nothing older was overlooked by the walk: the start of the first command after the last complete one.
    unwalked_ms: Option<i64>,
    /// The files last moved to the trash.
    moved: HashMap<PathBuf, (FileContent, RequestId)>,
    told: Vec<String>,
}

/// A protected file as it is allowed to be.
struct KnownFile {
    stamp: PathStamp,
    content: Option<FileContent>,
}

/// A command of which processes live.
struct LiveCommand {
    id: u64,
    tree: Option<ProcessTree>,
    is_running: bool,
    in_background: bool,
}

/// The state at a command's start.
pub(super) struct GuardStart {
    pub id: u64,
    pub told: usize,
    pub seen: BTreeMap<PathBuf, ProtectedPathState>,
}

impl FileContent {
    /// Reads a small regular file. Never blocks on a FIFO, and follows no link.
    fn read_small_file(path: &Path) -> Option<Self> {
        let mut options = File::options();
        let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
        let file = options.read(true).custom_flags(flags).open(path).ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
            return None;
        }
        let (mut bytes, mode) = (Vec::new(), metadata.mode() & 0o7777);
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
        Some(Self { bytes, mode })
    }

    fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }
}

impl ProtectedPathGuard {
    /// Creates the guard of these workspaces. It starts no thread before the first command.
    pub fn new(rules: SandboxRules) -> Self {
        Self(Arc::new(SharedGuard {
            rules,
            places: OnceLock::new(),
            repositories: KnownRepositories::default(),
            records: OnceLock::new(),
            monitor: Monitor::default(),
            state: Mutex::default(),
        }))
    }

    /// Sets the trash and the notices. Without them changes are only reported.
    pub fn set_records(&self, records: Arc<dyn ProtectedPathRecords>) {
        // Called once; the first ones stay.
        let _ = self.0.records.set(records);
    }

    /// Starts guarding for a command in this folder. While no other command lives, every path is accepted as it is:
    /// the owner may have changed it. Blocks for some tens of system calls.
    pub fn begin_command(&self, cwd: &Path) -> GuardStart {
        let (shared, now_ms) = (&self.0, unix_time_ms());
        let mut state = shared.state.lock();
        let is_first = state.live.is_empty();
        if is_first {
            state.folders.clear();
            state.told.clear();
        } else {
            shared.compare_paths(&mut state);
        }
        let roots = &shared.places().roots;
        if let Some(root) = roots.iter().find(|root| cwd.starts_with(root)) {
            let above = cwd.ancestors().take_while(|folder| folder != root);
            state.folders.extend(above.map(Path::to_owned));
        }
        let (seen, _) = shared.scan_paths(&state.folders);
        for (path, now) in &seen {
            let known = state.known.get(path);
            if known.is_none_or(|known| is_first && known.stamp != now.stamp) {
                let content = FileContent::read_small_file(path);
                state.remember(path, now.stamp, content);
            }
        }
        if is_first {
            let is_gone = |path: &&PathBuf| !seen.contains_key(*path) && path.symlink_metadata().is_err();
            for path in state.known.keys().filter(is_gone).cloned().collect::<Vec<_>>() {
                state.forget(&path);
            }
        }
        state.unwalked_ms.get_or_insert(now_ms);
        state.last_id += 1;
        let id = state.last_id;
        state.live.push(LiveCommand {
            id,
            tree: None,
            is_running: true,
            in_background: false,
        });
        let told = state.told.len();
        drop(state);
        shared.repositories.record_command_start();
        shared.monitor.wake_monitor(shared, WakeReason::Begun);
        GuardStart { id, told, seen }
    }

    /// Sets the processes of a command.
    pub fn attach_processes(&self, id: u64, tree: Option<ProcessTree>, in_background: bool) {
        let mut state = self.0.state.lock();
        if let Some(live) = state.live.iter_mut().find(|live| live.id == id) {
            (live.tree, live.in_background) = (tree, in_background);
        }
    }

    /// Compares the paths at a command's end. Returns the sentences of the changes since its start, and of the limits
    /// that are new. Processes that it left are guarded against further.
    pub fn end_command(&self, id: u64, told: usize) -> (Vec<String>, Vec<String>) {
        let shared = &self.0;
        let mut state = shared.state.lock();
        if let Some(live) = state.live.iter_mut().find(|live| live.id == id) {
            live.is_running = false;
        }
        let limits = shared.compare_paths(&mut state);
        let changes = state.told.get(told..).unwrap_or_default().to_vec();
        drop(state);
        shared.monitor.wake_monitor(shared, WakeReason::Ended);
        (changes, shared.repositories.new_limits(limits))
    }

    /// Forgets a command that did not start, or has ended without processes.
    pub fn forget_command(&self, id: u64) {
        let is_gone = |live: &LiveCommand| live.id == id && live.tree.is_none();
        self.0.state.lock().live.retain(|live| !is_gone(live));
    }
}

impl SharedGuard {
    fn places(&self) -> &GuardedPlaces {
        self.places.get_or_init(|| {
            let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
            let roots: Vec<PathBuf> = self.rules.workspaces.iter().map(real).collect();
            let named = self
                .rules
                .write
                .iter()
                .filter(|path| roots.iter().all(|root| !root.starts_with(path)));
            let free = named.chain([&self.rules.own_home]).cloned().collect();
            GuardedPlaces { roots, free }
        })
    }

    pub fn roots(&self) -> &[PathBuf] {
        &self.places().roots
    }

    pub fn has_live_commands(&self) -> bool {
        !self.state.lock().live.is_empty()
    }

    /// Compares the paths if asked to, and once more if a command's last process has ended. Returns whether one has.
    pub fn check_live_commands(&self, must_compare: bool) -> bool {
        let mut state = self.state.lock();
        let is_over = |live: &LiveCommand| {
            !live.is_running && live.tree.as_ref().is_none_or(|tree| tree.find_members().is_empty())
        };
        let over: Vec<u64> = state.live.iter().filter(|live| is_over(live)).map(|live| live.id).collect();
        if !state.live.is_empty() && (must_compare || !over.is_empty()) {
            self.compare_paths(&mut state);
        }
        state.live.retain(|live| !over.contains(&live.id));
        !over.is_empty()
    }

    /// Returns the folders in which a protected path may change.
    pub fn watched_folders(&self) -> BTreeSet<PathBuf> {
        let state = self.state.lock();
        let parents = state.known.keys().filter_map(|path| path.parent());
        let inner = state.known.iter().filter(|(_, known)| known.stamp == PathStamp::Separate);
        let all = parents.chain(inner.map(|(path, _)| path.as_path()));
        all.chain(state.folders.iter().chain(self.roots()).map(PathBuf::as_path)).map(Path::to_owned).collect()
    }

    /// Checks the repositories that a walk found, each by its `.git` or by its folder. `began_ms` is the walk's start.
    pub fn check_found_repositories(&self, found: &[PathBuf], began_ms: i64) {
        for path in found {
            let mut scan = ProtectedPathScan::new(&self.places().free);
            if path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git")) {
                scan.add_repository(path);
            } else {
                scan.add_bare_repository(path);
            }
            let mut state = self.state.lock();
            let since = state.unwalked_ms.unwrap_or(began_ms);
            for (path, now) in &scan.seen {
                if !state.known.contains_key(path) && self.is_untouched_since(path, since) {
                    let content = FileContent::read_small_file(path);
                    state.remember(path, now.stamp, content);
                }
                self.check_path(&mut state, path, now);
            }
        }
        let mut state = self.state.lock();
        state.unwalked_ms = (!state.live.is_empty()).then_some(began_ms);
    }

    /// Returns whether a file, and the folders from it to the workspace, are as they were at this time. A folder that
    /// was moved there since has another time of change.
    fn is_untouched_since(&self, path: &Path, since_ms: i64) -> bool {
        let Some(root) = self.roots().iter().find(|root| path.starts_with(root)) else {
            return false;
        };
        path.ancestors().take_while(|part| part != root).all(|part| {
            let Ok(metadata) = part.symlink_metadata() else { return false };
            metadata.ctime() * 1_000 + metadata.ctime_nsec() / 1_000_000 + STAMP_RESOLUTION_MS < since_ms
        })
    }

    /// Compares the paths with the known ones, and puts back those that changed. Returns the limits of the scan.
    fn compare_paths(&self, state: &mut GuardState) -> Vec<String> {
        let (seen, limits) = self.scan_paths(&state.folders);
        for (path, now) in &seen {
            self.check_path(state, path, now);
        }
        // Git leaves no repository without HEAD. A command that runs may be about to remove all of it.
        let is_lost = |path: &&PathBuf| {
            let git = path.parent().filter(|git| git.ends_with(".git") && path.ends_with("HEAD"));
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

    fn scan_paths(&self, folders: &BTreeSet<PathBuf>) -> (BTreeMap<PathBuf, ProtectedPathState>, Vec<String>) {
        let GuardedPlaces { roots, free } = self.places();
        let mut found = ProtectedPathScan::new(free);
        for folder in self.repositories.repositories_below(roots) {
            found.add_repository(&folder.join(".git"));
        }
        for root in roots {
            let entries = FolderScan::scan_folder(root, MAX_SCANNED_ENTRIES);
            found.add_folder(root, Some(&entries));
            if entries.extent == ScanExtent::Refused {
                found.add_unreadable(root);
            } else if entries.extent == ScanExtent::Cut {
                found.limits.push(format!(
                    "{} holds more than is looked through ({MAX_SCANNED_ENTRIES} entries): repositories among the rest that were \
                     not found before are not protected from commands. One that is a workspace of its own is.",
                    root.display()
                ));
            }
            for child in self.repositories.candidates_among(entries.folders) {
                if found.add_repository(&child.join(".git")) {
                    self.repositories.add_known(&child);
                }
            }
        }
        for folder in folders {
            found.add_folder(folder, None);
        }
        (found.seen, found.limits)
    }

    /// Accepts a path as it is now if it is harmless, and puts it back if not.
    fn check_path(&self, state: &mut GuardState, path: &Path, now: &ProtectedPathState) {
        let known = state.known.get(path);
        if known.is_some_and(|known| known.stamp == now.stamp) {
            return;
        }
        let content = FileContent::read_small_file(path);
        let is_folder = || path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        if now.stamp != PathStamp::Separate && content.is_none() && !is_folder() {
            return self.put_back(state, path, now.why, None);
        }
        let before = known.and_then(|known| known.content.as_ref());
        let is_harmless = now.stamp == PathStamp::Separate || content.as_ref().is_none_or(|content| {
            let before = before.and_then(FileContent::text);
            content.text().is_some_and(|text| git_config::is_harmless(path, text, before, self.roots()))
                || state.is_known_elsewhere(path, content)
                || self.is_undone(state, path, content)
        });
        if is_harmless {
            state.remember(path, now.stamp, content);
        // The rebase of a command that runs carries its own commands out.
        } else if !(path.ends_with(protected_path::REBASE_TODO) && state.has_foreground_command()) {
            self.put_back(state, path, now.why, content);
        }
    }

    /// Returns whether the owner took this content of a path out of the trash.
    fn is_undone(&self, state: &GuardState, path: &Path, content: &FileContent) -> bool {
        let moved = state.moved.get(path).filter(|(moved, _)| moved == content);
        let records = self.records.get();
        moved.is_some_and(|(_, request)| records.is_some_and(|records| records.is_undone(request)))
    }

    /// Moves a changed file to the trash, puts the one from before in its place, and tells the owner.
    fn put_back(&self, state: &mut GuardState, path: &Path, why: &str, content: Option<FileContent>) {
        let known = state.forget(path);
        let (was_there, before) = (known.is_some(), known.and_then(|known| known.content));
        let kept = state.moved.get(path).filter(|(moved, _)| Some(moved) == content.as_ref());
        let kept = kept.map(|(_, request)| request.clone());
        let done = match self.records.get() {
            Some(records) => records.put_back(path, before.as_ref(), kept.as_ref()),
            None => Err(io::Error::other("there is no trash here")),
        };
        let shown = path.display();
        let verb = if was_there { "was changed" } else { "appeared" };
        let outcome = match &done {
            Ok(None) if !was_there => "It was removed".to_owned(),
            Ok(_) if was_there && before.is_none() => {
                "It was moved to the trash. The content before was not kept".to_owned()
            }
            Ok(_) if was_there => "The content before was put back".to_owned(),
            Ok(_) => "It was moved to the trash".to_owned(),
            Err(cause) => {
                format!("It could not be moved to the trash ({cause}). The owner should look at it before it is used")
            }
        };
        let undo = match &done {
            Ok(Some(request)) => {
                format!(". If the owner made this change: `punie-runner undo {request}` brings it back")
            }
            _ => String::new(),
        };
        let text = format!("{shown} {verb} while a command ran: {why}. {outcome}{undo}.");
        // A file that could not be moved is told of once.
        if let Ok(metadata) = path.symlink_metadata() {
            state.remember(path, path_stamp(&metadata), before);
        }
        let request = done.ok().flatten();
        if let (Some(content), Some(request)) = (content, &request) {
            state.moved.insert(path.to_owned(), (content, request.clone()));
        }
        if kept.is_none() {
            let change = ProtectedPathChange { path: path.to_owned(), request, text: text.clone() };
            self.records.get().iter().for_each(|records| records.notify_owner(&change));
            state.told.push(text);
        }
    }
}

impl GuardState {
    fn has_foreground_command(&self) -> bool {
        self.live.iter().any(|live| live.is_running && !live.in_background)
    }

    fn forget(&mut self, path: &Path) -> Option<KnownFile> {
        let known = self.known.remove(path)?;
        self.known_bytes -= known.content.as_ref().map_or(0, |content| content.bytes.len());
        Some(known)
    }

    fn remember(&mut self, path: &Path, stamp: PathStamp, content: Option<FileContent>) {
        self.forget(path);
        let size = |content: &FileContent| content.bytes.len();
        let content = content.filter(|content| self.known_bytes + size(content) <= MAX_REMEMBERED_BYTES);
        self.known_bytes += content.as_ref().map_or(0, size);
        self.known.insert(path.to_owned(), KnownFile { stamp, content });
    }

    /// Returns whether an accepted file of this name has the same content: it was copied or moved.
    fn is_known_elsewhere(&self, path: &Path, content: &FileContent) -> bool {
        let is_same = |known: &KnownFile| known.content.as_ref() == Some(content);
        self.known.iter().any(|(other, known)| other.file_name() == path.file_name() && is_same(known))
    }
}

/// Returns the time in milliseconds since 1970, as the file system has it.
pub(super) fn unix_time_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
