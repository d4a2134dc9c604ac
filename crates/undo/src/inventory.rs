//! The inventory of the trash, request by request.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::Trash;
use super::manifest::{self, ManifestLine};
use super::tree::TreeSize;
use punie_core::ids::RequestId;

/// The manifest in a folder of what an undo took away.
pub(super) const MANIFEST: &str = "manifest.jsonl";

/// The stored data of one request.
#[derive(Debug, Clone)]
pub struct TrashEntry {
    /// The request.
    pub request: RequestId,
    /// The tool; for what an undo took away, the undo.
    pub tool: String,
    /// The time when it began, in milliseconds since 1970.
    pub at_ms: i64,
    /// The time when it was undone.
    pub undone_at_ms: Option<i64>,
    /// True if an undo was begun.
    pub(super) was_begun: bool,
    pub(super) records: Vec<ManifestRecord>,
}

/// One manifest with its lines.
#[derive(Debug, Clone)]
pub(super) struct ManifestRecord {
    /// The folder of what an undo took away; none of a call's.
    pub folder: Option<PathBuf>,
    pub file: PathBuf,
    pub lines: Vec<ManifestLine>,
    size: OnceLock<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct UndoLogLine {
    pub request: RequestId,
    pub at_ms: i64,
    /// The undo only begins.
    #[serde(default)]
    pub begun: bool,
}

impl ManifestRecord {
    fn read(folder: Option<PathBuf>, file: PathBuf) -> io::Result<Self> {
        Ok(Self {
            folder,
            lines: manifest::read_lines(&file)?,
            file,
            size: OnceLock::new(),
        })
    }

    /// The bytes that its folder takes on the disk.
    pub fn disk_bytes(&self) -> u64 {
        let measure = |folder: &PathBuf| TreeSize::measure_path(folder).on_disk;
        *self
            .size
            .get_or_init(|| self.folder.as_ref().map_or(0, measure))
    }
}

impl TrashEntry {
    pub(super) fn manifest_lines(&self) -> impl Iterator<Item = &ManifestLine> {
        self.records.iter().flat_map(|record| &record.lines)
    }

    /// Lists what an undo took away: each path, and its place in the trash.
    pub(super) fn removed_items(&self) -> impl Iterator<Item = (&Path, PathBuf)> {
        self.records.iter().flat_map(|record| {
            record.lines.iter().filter_map(|line| match line {
                ManifestLine::Removed { path, item } => {
                    Some((path.0.as_path(), record.folder.as_ref()?.join(item)))
                }
                _ => None,
            })
        })
    }
}

impl Trash {
    /// Everything that is kept, the latest first. Requests that changed nothing are left out.
    ///
    /// # Errors
    /// The system's.
    pub fn list_entries(&self) -> io::Result<Vec<TrashEntry>> {
        self.with_lock(|| {
            let mut all = self.list_entries_locked()?;
            all.retain(TrashEntry::keeps_anything);
            Ok(all)
        })
    }

    /// What is kept of one request, also if it changed nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn find_entry_of(&self, request: &str) -> io::Result<Option<TrashEntry>> {
        let all = self.with_lock(|| self.list_entries_locked())?;
        Ok(all
            .into_iter()
            .find(|entry| entry.request.as_str() == request))
    }

    /// Everything that is kept, and the requests that changed nothing. For a caller that holds the lock.
    pub(super) fn list_entries_locked(&self) -> io::Result<Vec<TrashEntry>> {
        let mut all: BTreeMap<RequestId, TrashEntry> = BTreeMap::new();
        for record in self.read_records()? {
            let Some(ManifestLine::Begun {
                request,
                tool,
                at_ms,
            }) = record.lines.first().cloned()
            else {
                continue;
            };
            let entry = all.entry(request.clone()).or_insert_with(|| TrashEntry {
                request,
                tool,
                at_ms,
                undone_at_ms: None,
                was_begun: false,
                records: Vec::new(),
            });
            entry.records.push(record);
        }
        for undo in self.read_undo_log()? {
            if let Some(entry) = all.get_mut(&undo.request) {
                entry.was_begun = true;
                if !undo.begun {
                    entry.undone_at_ms = Some(undo.at_ms);
                }
            }
        }
        let mut all: Vec<TrashEntry> = all.into_values().collect();
        all.sort_by(|a, b| (b.at_ms, &b.request).cmp(&(a.at_ms, &a.request)));
        Ok(all)
    }

    fn read_records(&self) -> io::Result<Vec<ManifestRecord>> {
        let of_calls = list_folder(&self.home.trash_manifests_dir())?.into_iter();
        let of_undos = list_folder(&self.home.trash_made_dir())?.into_iter();
        let of_calls = of_calls.map(|file| ManifestRecord::read(None, file));
        let of_undos = of_undos
            .map(|folder| ManifestRecord::read(Some(folder.clone()), folder.join(MANIFEST)));
        of_calls.chain(of_undos).collect()
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
}

/// Lists a folder of the trash.
pub(super) fn list_folder(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect()
}
