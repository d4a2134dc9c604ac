//! Kept contents, each once under its hash.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use super::snapshot::SnapshotContents;
use punie_core::content_hash::copy_hashed;
use punie_core::durable::{DraftFile, Readers};

/// The folder of kept contents.
#[derive(Debug, Clone)]
pub(super) struct ContentStore {
    folder: PathBuf,
    /// The contents of snapshots, which are read where there is no other.
    snapshots: Option<Arc<SnapshotContents>>,
}

impl ContentStore {
    pub fn in_folder(folder: PathBuf) -> Self {
        Self {
            folder,
            snapshots: None,
        }
    }

    /// The same with the contents of snapshots in another folder.
    pub fn with_snapshots(mut self, folder: PathBuf) -> Self {
        self.snapshots = Some(Arc::new(SnapshotContents::in_folder(folder, 0)));
        self
    }

    /// Returns whether it is stored here or in a snapshot.
    pub fn has_content(&self, sha256: &str) -> bool {
        let is_in_snapshot = |snapshots: &Arc<SnapshotContents>| snapshots.has_content(sha256);
        self.content_path(sha256).is_file() || self.snapshots.as_ref().is_some_and(is_in_snapshot)
    }

    /// The path of the content of this hash, stored or not.
    pub fn content_path(&self, sha256: &str) -> PathBuf {
        self.folder.join(sha256)
    }

    pub fn has_content_of_size(&self, sha256: &str, size: u64) -> bool {
        fs::symlink_metadata(self.content_path(sha256))
            .is_ok_and(|found| found.is_file() && found.len() == size)
    }

    /// Stores the content of this file, and returns its hash and size.
    pub fn store_from_file(&self, file: &mut File) -> io::Result<(String, u64)> {
        let mut draft = DraftFile::create_beside(&self.folder.join("content"), Readers::OwnerOnly)?;
        let (sha256, size) = copy_hashed(file, &mut draft.file)?;
        draft.put_in_place(&self.content_path(&sha256))?;
        Ok((sha256, size))
    }

    /// Copies the content of this hash into a file, if it still has this hash.
    pub fn copy_to_file(&self, sha256: &str, to: &mut File) -> io::Result<()> {
        let mut kept = match (File::open(self.content_path(sha256)), &self.snapshots) {
            (Err(cause), Some(snapshots)) if cause.kind() == io::ErrorKind::NotFound => {
                return to.write_all(&snapshots.read_content(sha256)?);
            }
            (kept, _) => kept?,
        };
        let (found, _) = copy_hashed(&mut kept, to)?;
        if found == sha256 {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "what was kept is damaged",
        ))
    }

    /// Returns the content of this hash, stored here or in a snapshot.
    pub fn read_content(&self, sha256: &str) -> io::Result<Vec<u8>> {
        match (fs::read(self.content_path(sha256)), &self.snapshots) {
            (Err(_), Some(snapshots)) => snapshots.read_content(sha256),
            (read, _) => read,
        }
    }

    /// Lists every stored content by its hash with its size, and whatever else lies there.
    pub fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if let (Ok(name), Ok(metadata)) = (entry.file_name().into_string(), entry.metadata()) {
                all.push((name, metadata.len()));
            }
        }
        Ok(all)
    }

    pub fn delete(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.folder.join(name))
    }
}

/// Returns the hash and the size of a file from its current position on.
pub(super) fn hash_file(file: &mut File) -> io::Result<(String, u64)> {
    copy_hashed(file, &mut io::sink())
}
