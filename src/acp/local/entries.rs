//! What lies directly in a folder, as far as it is of interest to who looks for protected paths. Not here: which paths
//! these are (protected_paths) and where repositories lie (repositories).
#![expect(clippy::disallowed_methods, reason = "folders are looked at as they are")]

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::acp::protected;
use crate::sandbox::is_absent;

/// How many entries of a folder are looked through.
pub(super) const MOST_ENTRIES: usize = 16_384;

/// How far a listing got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// To the end.
    Whole,
    /// There is more.
    Cut,
    /// Nowhere: the folder is there, and its entries are not told.
    Refused,
}

/// What is in a folder; nothing where there is none.
#[derive(Debug)]
pub(super) struct Entries {
    pub folders: Vec<PathBuf>,
    pub extent: Extent,
    /// The names that may be protected ones, as the most lenient file system would compare them.
    suspects: HashSet<String>,
}

impl Entries {
    /// What is in this folder, but for what comes after so many entries.
    pub fn of(folder: &Path, most: usize) -> Self {
        let mut found = Self { folders: Vec::new(), extent: Extent::Whole, suspects: HashSet::new() };
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(cause) => {
                found.extent = if is_absent(&cause) { Extent::Whole } else { Extent::Refused };
                return found;
            }
        };
        for (number, entry) in entries.filter_map(Result::ok).enumerate() {
            if number == most {
                found.extent = Extent::Cut;
                break;
            }
            let name = entry.file_name();
            // What such a file system leaves out of a name is not in ASCII.
            if name.as_encoded_bytes().first().is_some_and(|first| *first == b'.' || !first.is_ascii()) {
                found.suspects.insert(protected::folded(&name));
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.folders.push(entry.path());
            }
        }
        found
    }

    /// Whether a protected name may be among them.
    pub fn may_have(&self, name: &str) -> bool {
        let top = name.split('/').next().unwrap_or(name);
        self.extent != Extent::Whole || self.suspects.contains(top)
    }
}
