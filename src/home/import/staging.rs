//! The staging folder of an import: copies are made in it and put in place one by one. A kill leaves each document before
//! or after; the next import removes the rest.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::super::installed_tree::{TreeChange, remove_tree, sync_staged};
use punie_core::durable::{allow_missing, private_folder_builder};

/// A hidden folder beside the documents: on the same file system, and never loaded.
const FOLDER: &str = ".import";

/// The staging folder beside the documents of one kind.
#[derive(Debug)]
pub(super) struct Staging {
    documents: PathBuf,
    folder: PathBuf,
}

impl Staging {
    /// Puts back or removes what an import that was killed left, and creates the folder.
    pub(super) fn create(documents: &Path) -> io::Result<Self> {
        let staging = Self {
            documents: documents.to_owned(),
            folder: documents.join(FOLDER),
        };
        let aside = allow_missing(fs::read_dir(staging.folder.join("old")))?;
        for entry in aside.into_iter().flatten() {
            staging.document_change(entry?.file_name()).put_back()?;
        }
        staging.remove_folder()?;
        private_folder_builder().create(&staging.folder)?;
        for folder in ["new", "old"] {
            private_folder_builder().create(staging.folder.join(folder))?;
        }
        Ok(staging)
    }

    pub(super) fn remove_folder(&self) -> io::Result<()> {
        remove_tree(&self.folder)
    }

    /// Returns the path of the copy of a document.
    pub(super) fn copy_path(&self, id: &str) -> PathBuf {
        self.folder.join("new").join(id)
    }

    /// Makes all copies durable.
    pub(super) fn sync_copies(&self) -> io::Result<()> {
        sync_staged(&self.folder)
    }

    /// Puts the copy of a document in place of the one that is there.
    pub(super) fn put_in_place(&self, id: &str) -> io::Result<()> {
        self.document_change(id).make(true)
    }

    fn document_change(&self, id: impl AsRef<Path>) -> TreeChange {
        TreeChange {
            staged: Some(self.folder.join("new").join(&id)),
            target: self.documents.join(&id),
            aside: Some(self.folder.join("old").join(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_import_left_is_put_back_or_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let staging = Staging::create(dir.path()).expect("made");
        let old = staging.folder.join("old");
        for folder in [
            old.join("gone"),
            old.join("there"),
            staging.copy_path("new"),
            dir.path().join("there"),
        ] {
            fs::create_dir(folder).expect("made");
        }
        let next = Staging::create(dir.path()).expect("made");
        assert!(
            dir.path().join("gone").is_dir(),
            "it was moved aside, and nothing came"
        );
        assert!(!old.join("there").exists() && !next.copy_path("new").exists());
        next.remove_folder().expect("removed");
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 2);
    }
}
