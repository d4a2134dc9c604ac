//! Lists a folder's direct entries for the search for protected paths.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::protected_path;
use punie_sandbox::is_absent;

/// The number of entries of a folder that are read.
pub(super) const MAX_SCANNED_ENTRIES: usize = 16_384;

/// The extent of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanExtent {
    /// All entries were read.
    Whole,
    /// There are more entries.
    Cut,
    /// No entry was read: the folder exists but cannot be listed.
    Refused,
}

/// The entries of a folder; empty if it does not exist.
#[derive(Debug)]
pub(super) struct FolderScan {
    pub folders: Vec<PathBuf>,
    pub extent: ScanExtent,
    /// The entries with a protected ending, and its reason.
    pub suffixed: Vec<(PathBuf, &'static str)>,
    /// Names that may be protected, known_name as the most lenient file system compares them.
    suspects: HashSet<String>,
}

impl FolderScan {
    /// Scans this folder, up to a number of entries.
    pub fn scan_folder(folder: &Path, most: usize) -> Self {
        let mut found = Self {
            folders: Vec::new(),
            extent: ScanExtent::Whole,
            suffixed: Vec::new(),
            suspects: HashSet::new(),
        };
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(cause) => {
                found.extent = if is_absent(&cause) {
                    ScanExtent::Whole
                } else {
                    ScanExtent::Refused
                };
                return found;
            }
        };
        for (number, entry) in entries.filter_map(Result::ok).enumerate() {
            if number == most {
                found.extent = ScanExtent::Cut;
                break;
            }
            let name = entry.file_name();
            let bytes = name.as_encoded_bytes();
            // Characters that such a file system ignores in a name are not ASCII.
            let is_suspect = bytes
                .first()
                .is_some_and(|first| *first == b'.' || !first.is_ascii());
            if is_suspect
                || [&b".toml"[..], b".json", b"-workspace"]
                    .iter()
                    .any(|end| bytes.ends_with(end))
            {
                let known_name = protected_path::fold_name(&name);
                let suffix = protected_path::find_suffix(&known_name);
                found
                    .suffixed
                    .extend(suffix.map(|(_, why)| (entry.path(), why)));
                found.suspects.insert(known_name);
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.folders.push(entry.path());
            }
        }
        found
    }

    /// Returns whether a protected name may be among the entries.
    pub fn may_contain(&self, name: &str) -> bool {
        let top = name.split('/').next().unwrap_or(name);
        self.extent != ScanExtent::Whole || self.suspects.contains(top)
    }
}
