//! The inventory of the trash, request by request.
#![expect(
    clippy::disallowed_methods,
    reason = "this file looks through the trash"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::manifest::{self, ManifestLine};
use super::tree::{TreeSize, move_from_command};
use super::{Trash, unix_time_ms};
use punie_core::ids::RequestId;

/// The manifest in a folder of removed things.
pub(super) const MANIFEST: &str = "manifest.jsonl";

/// The stored data of one request, by one source.
#[derive(Debug, Clone)]
pub struct TrashEntry {
    /// The request.
    pub request: RequestId,
    /// The tool, or the command by which something was removed.
    pub tool: String,
    /// The time when it began, in milliseconds since 1970.
    pub at_ms: i64,
    /// The time when all of it was undone.
    pub undone_at_ms: Option<i64>,
    /// True if an undo was begun.
    pub(super) was_begun: bool,
    pub(super) source: ManifestSource,
    pub(super) records: Vec<ManifestRecord>,
}

/// The writer of a manifest. Where commands may write, any request may be named, so that sources are kept apart; the first
/// of a request is meant by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ManifestSource {
    /// The file tools.
    Tools,
    /// The shims of the request's commands.
    Shims,
    /// Some command.
    Unproven,
}

/// One manifest with its lines.
#[derive(Debug, Clone)]
pub(super) struct ManifestRecord {
    /// The folder of removed things; none of a file tool's.
    pub folder: Option<PathBuf>,
    pub file: PathBuf,
    pub lines: Vec<ManifestLine>,
    pub is_undone: bool,
    size: OnceLock<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct UndoLogLine {
    pub request: RequestId,
    pub at_ms: i64,
    /// The undo only begins.
    #[serde(default)]
    pub begun: bool,
    /// The names of the folders that the request's commands had filled by then: a command that goes on removes more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<String>,
}

impl ManifestRecord {
    /// Reads a manifest, in a folder of removed things or a file tool's.
    pub fn read(folder: Option<PathBuf>, file: PathBuf) -> io::Result<Self> {
        Ok(Self::new(folder, manifest::read_lines(&file)?, file))
    }

    pub fn new(folder: Option<PathBuf>, lines: Vec<ManifestLine>, file: PathBuf) -> Self {
        let lines = manifest::drop_withdrawn(lines);
        Self {
            folder,
            file,
            lines,
            is_undone: false,
            size: OnceLock::new(),
        }
    }

    fn folder_name(&self) -> Option<String> {
        Some(
            self.folder
                .as_ref()?
                .file_name()?
                .to_string_lossy()
                .into_owned(),
        )
    }

    /// The bytes that its folder takes on the disk: measured, since a command may have written the manifest.
    pub fn disk_bytes(&self) -> u64 {
        let measure = |folder: &PathBuf| TreeSize::measure_path(folder).on_disk;
        *self
            .size
            .get_or_init(|| self.folder.as_ref().map_or(0, measure))
    }
}

impl TrashEntry {
    /// The names of the folders that commands filled.
    pub(super) fn folder_names(&self) -> Vec<String> {
        self.records
            .iter()
            .filter_map(ManifestRecord::folder_name)
            .collect()
    }

    /// Marks the changes that a line of the log lists as undone.
    fn apply_undo(&mut self, undo: &UndoLogLine) {
        self.was_begun = true;
        if undo.begun {
            return;
        }
        for record in &mut self.records {
            let is_named = || {
                record
                    .folder_name()
                    .is_some_and(|name| undo.records.contains(&name))
            };
            let is_of_runner = record.folder.is_none();
            record.is_undone |= undo.records.is_empty() || is_of_runner || is_named();
        }
        self.undone_at_ms = self
            .records
            .iter()
            .all(|record| record.is_undone)
            .then_some(undo.at_ms);
    }

    pub(super) fn manifest_lines(&self) -> impl Iterator<Item = &ManifestLine> {
        self.records.iter().flat_map(|record| &record.lines)
    }

    /// The lines of file tools. Where commands may write, nothing is said of file tools.
    pub(super) fn tool_lines(&self) -> impl Iterator<Item = &ManifestLine> {
        self.records
            .iter()
            .filter(|record| record.folder.is_none())
            .flat_map(|record| &record.lines)
    }
}

impl Trash {
    /// Everything that is kept, the latest first. Requests that changed nothing are left out.
    ///
    /// # Errors
    /// The system's.
    pub fn list_entries(&self) -> io::Result<Vec<TrashEntry>> {
        self.with_lock(|| {
            self.collect_from_commands()?;
            let mut all = self.list_entries_locked()?;
            all.retain(TrashEntry::keeps_anything);
            Ok(all)
        })
    }

    /// Everything that is kept of one request, also if it changed nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn list_entries_of(&self, request: &str) -> io::Result<Vec<TrashEntry>> {
        self.with_lock(|| {
            self.collect_from_commands()?;
            let mut all = self.list_entries_locked()?;
            all.retain(|entry| entry.request.as_str() == request);
            Ok(all)
        })
    }

    /// Everything that is kept, and the requests that changed nothing. For a caller that holds the lock.
    pub(super) fn list_entries_locked(&self) -> io::Result<Vec<TrashEntry>> {
        let mut all: BTreeMap<(RequestId, ManifestSource), TrashEntry> = BTreeMap::new();
        let mut with_snapshots: BTreeSet<RequestId> = BTreeSet::new();
        for record in self.read_records()? {
            let Some(ManifestLine::Begun {
                request,
                tool,
                at_ms,
                proof,
            }) = record.lines.first().cloned()
            else {
                continue;
            };
            let is_of_commands = record.folder.is_some();
            let source = match is_of_commands {
                false => ManifestSource::Tools,
                true if self.proofs.make(&self.home, &request)? == proof => ManifestSource::Shims,
                true => ManifestSource::Unproven,
            };
            let is_snapshot = |line: &ManifestLine| matches!(line, ManifestLine::Snapshot(_));
            if source == ManifestSource::Tools && record.lines.iter().any(is_snapshot) {
                with_snapshots.insert(request.clone());
            }
            let entry = all
                .entry((request.clone(), source))
                .or_insert_with(|| TrashEntry {
                    request,
                    tool,
                    at_ms,
                    undone_at_ms: None,
                    was_begun: false,
                    source,
                    records: Vec::new(),
                });
            // A command may have written any time: it makes nothing older, and nothing comes from the future.
            let at_ms = if is_of_commands {
                entry.at_ms.max(at_ms)
            } else {
                entry.at_ms.min(at_ms)
            };
            entry.at_ms = at_ms.min(unix_time_ms());
            entry.records.push(record);
        }
        // Of a call with snapshots, what its own commands removed belongs to the same undo.
        for request in with_snapshots {
            let removed = all.remove(&(request.clone(), ManifestSource::Shims));
            if let (Some(entry), Some(removed)) =
                (all.get_mut(&(request, ManifestSource::Tools)), removed)
            {
                entry.records.extend(removed.records);
            }
        }
        let mut all: Vec<TrashEntry> = all.into_values().collect();
        let undos = self.read_undo_log()?;
        for entry in &mut all {
            let request = entry.request.clone();
            for undo in undos.iter().filter(|undo| undo.request == request) {
                entry.apply_undo(undo);
            }
            // The names of the folders are in the order of time.
            entry.records.sort_by(|a, b| a.file.cmp(&b.file));
        }
        all.sort_by(|a, b| (b.at_ms, &b.request).cmp(&(a.at_ms, &a.request)));
        Ok(all)
    }

    fn read_records(&self) -> io::Result<Vec<ManifestRecord>> {
        let of_tools = list_visible(&self.home.trash_manifests_dir())?.into_iter();
        let folders = list_visible(&self.home.trash_removed_dir())?.into_iter();
        let of_commands = folders.filter(|folder| is_folder(folder));
        let of_tools = of_tools.map(|file| ManifestRecord::read(None, file));
        let of_commands = of_commands
            .map(|folder| ManifestRecord::read(Some(folder.clone()), folder.join(MANIFEST)));
        of_tools.chain(of_commands).collect()
    }

    /// The requests that were undone, with the time.
    ///
    /// # Errors
    /// The system's.
    pub fn list_undone(&self) -> io::Result<Vec<(RequestId, i64)>> {
        let done = self.read_undo_log()?.into_iter().filter(|undo| !undo.begun);
        Ok(done.map(|undo| (undo.request, undo.at_ms)).collect())
    }

    pub(super) fn read_undo_log(&self) -> io::Result<Vec<UndoLogLine>> {
        manifest::read_lines(&self.home.trash_log_file())
    }

    /// Takes items that commands have removed out of their reach, once the command that removes it is over, and discards
    /// what no shim put there. Returns how many bytes were collected.
    pub(super) fn collect_from_commands(&self) -> io::Result<u64> {
        let mut bytes = 0;
        for path in list_visible(&self.home.trash_incoming_dir())? {
            let collected = self.collect_entry(&path);
            if collected.is_none() {
                self.discard_if_possible(&path);
            }
            bytes += collected.unwrap_or_default();
        }
        Ok(bytes)
    }

    /// Does the same before a command, in bounded time: looks at so many entries at most, and leaves folders that no shim
    /// made unless they are empty.
    pub(super) fn collect_some_from_commands(&self, most: usize) -> io::Result<u64> {
        let mut bytes = 0;
        for path in list_first_visible(&self.home.trash_incoming_dir(), most)? {
            let collected = self.collect_entry(&path);
            if collected.is_none() {
                let _ = fs::remove_dir(&path).or_else(|_| fs::remove_file(&path));
            }
            bytes += collected.unwrap_or_default();
        }
        Ok(bytes)
    }

    /// Collects the folder of one run of a shim, unless that run goes on; returns its bytes. `None`: no shim made it.
    fn collect_entry(&self, folder: &Path) -> Option<u64> {
        // A link would lead out of here.
        let name = folder.file_name().filter(|_| is_folder(folder))?;
        // A shim names its folder only when the manifest is there, and holds a lock on that while it fills the folder.
        let manifest = match manifest::open_manifest(&folder.join(MANIFEST)) {
            Ok(manifest) => manifest?,
            Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => return None,
            // It may be a shim's: this process may have too many open files.
            Err(_) => return Some(0),
        };
        if manifest.try_lock().is_err() {
            return Some(0);
        }
        let removed = self.home.trash_removed_dir().join(name);
        match move_from_command(folder, &removed) {
            Ok(()) => Some(TreeSize::measure_path(&removed).on_disk),
            // One whose name is taken is forged.
            Err(cause) if cause.kind() == io::ErrorKind::DirectoryNotEmpty => None,
            Err(cause) => {
                tracing::warn!(path = %folder.display(), %cause, "what a command removed stays in its reach");
                Some(0)
            }
        }
    }
}

/// Returns whether it is a folder itself, and no link to one.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Lists a folder of the trash without the hidden names, which are still being made.
pub(super) fn list_visible(folder: &Path) -> io::Result<Vec<PathBuf>> {
    list_first_visible(folder, usize::MAX)
}

/// Lists the visible names among so many first entries of a folder.
pub(super) fn list_first_visible(folder: &Path, most: usize) -> io::Result<Vec<PathBuf>> {
    let paths: io::Result<Vec<PathBuf>> = fs::read_dir(folder)?
        .take(most)
        .map(|entry| Ok(entry?.path()))
        .collect();
    Ok(paths?.into_iter().filter(|path| !is_hidden(path)).collect())
}

/// Returns whether a name is hidden, as that of a folder which a shim is making.
pub(super) fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."))
}
