//! Copies of the texts of skills and agents as they were loaded last. While a file is broken, the copy stays in force.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::file_modes::{self, FolderAccess};
use punie_core::ids::to_hex;

/// The folder with the copies of one kind of document.
#[derive(Debug, Clone)]
pub(super) struct LoadedVersions {
    folder: PathBuf,
}

impl LoadedVersions {
    /// Returns the copies in this folder, which need not exist.
    pub(super) fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the copy of a document. One that a power cut damaged does not count.
    pub(super) fn read_copy(&self, id: &str) -> Option<String> {
        let stored = fs::read_to_string(self.folder.join(id)).ok()?;
        let (hash, text) = stored.split_once('\n')?;
        (hash == text_hash(text)).then(|| text.to_owned())
    }

    /// Stores the texts that differ from their copies, and removes copies of documents that are gone. `kept` has the ids
    /// of documents that keep the copy that they have. A copy that cannot be written costs the earlier version only.
    pub(super) fn store_copies<'a>(
        &self,
        texts: impl Iterator<Item = (&'a str, &'a str)>,
        kept: &BTreeSet<String>,
    ) {
        if let Err(error) = self.try_store(texts, kept) {
            tracing::debug!(%error, "the loaded skills and agents could not be copied");
        }
    }

    fn try_store<'a>(
        &self,
        texts: impl Iterator<Item = (&'a str, &'a str)>,
        kept: &BTreeSet<String>,
    ) -> io::Result<()> {
        let parent = self.folder.parent().unwrap_or(Path::new(""));
        for folder in [parent, &self.folder] {
            file_modes::ensure_dir(folder, FolderAccess::OwnerOnly)
                .map_err(|error| io::Error::other(error.to_string()))?;
        }
        let mut current = kept.clone();
        for (id, text) in texts {
            current.insert(id.to_owned());
            let stored = format!("{}\n{text}", text_hash(text));
            let path = self.folder.join(id);
            if fs::read(&path).is_ok_and(|bytes| bytes == stored.as_bytes()) {
                continue;
            }
            // Not made durable: the hash shows a copy that is not whole, and the next load writes it again.
            let draft = self.folder.join(".draft");
            fs::write(&draft, stored)?;
            fs::rename(&draft, &path)?;
        }
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if !entry
                .file_name()
                .to_str()
                .is_some_and(|id| current.contains(id))
            {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

fn text_hash(text: &str) -> String {
    to_hex(&Sha256::digest(text.as_bytes()))
}
