//! The staging folder of an import: copies are made in it and put in place with one rename. A crash leaves the document
//! before or after; the next import removes the rest.
#![expect(
    clippy::disallowed_methods,
    reason = "this file owns the staging folder of imports"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use punie_core::durable::{allow_missing, private_folder_builder, sync_folder};
use punie_core::failpoint;

/// A hidden folder beside the documents: on the same file system, and never loaded.
const FOLDER: &str = ".import";

/// The staging folder beside the documents of one kind.
#[derive(Debug)]
pub(super) struct Staging {
    documents: PathBuf,
    folder: PathBuf,
}

impl Staging {
    /// Removes what an import that was killed left, and creates the folder.
    pub(super) fn create(documents: &Path) -> io::Result<Self> {
        let folder = documents.join(FOLDER);
        let staging = Self {
            documents: documents.to_owned(),
            folder,
        };
        staging.put_back_aside()?;
        staging.remove_folder()?;
        for folder in [staging.folder.clone(), staging.copies(), staging.aside()] {
            private_folder_builder().create(&folder)?;
        }
        Ok(staging)
    }

    pub(super) fn remove_folder(&self) -> io::Result<()> {
        allow_missing(fs::remove_dir_all(&self.folder)).map(drop)
    }

    /// Returns the path of the copy of a document.
    pub(super) fn copy_path(&self, id: &str) -> PathBuf {
        self.copies().join(id)
    }

    /// Makes all copies durable.
    pub(super) fn sync_copies(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        rustix::fs::syncfs(fs::File::open(&self.folder)?)?;
        #[cfg(not(target_os = "linux"))]
        sync_folder(&self.folder)?;
        Ok(())
    }

    /// Puts the copy of a document in place of the one that is there.
    pub(super) fn put_in_place(&self, id: &str) -> io::Result<()> {
        let (copy, target) = (self.copy_path(id), self.documents.join(id));
        if fs::symlink_metadata(&target).is_err() {
            fs::rename(&copy, &target)?;
        } else if !exchange_paths(&copy, &target)? {
            // The next import puts it back if this one ends here.
            fs::rename(&target, self.aside().join(id))?;
            failpoint::reach_of("import.moved_aside", id);
            fs::rename(&copy, &target)?;
        }
        sync_folder(&self.documents)
    }

    fn copies(&self) -> PathBuf {
        self.folder.join("new")
    }

    fn aside(&self) -> PathBuf {
        self.folder.join("old")
    }

    fn put_back_aside(&self) -> io::Result<()> {
        let Some(entries) = allow_missing(fs::read_dir(self.aside()))? else {
            return Ok(());
        };
        for entry in entries {
            let entry = entry?;
            let target = self.documents.join(entry.file_name());
            if fs::symlink_metadata(&target).is_err() {
                fs::rename(entry.path(), target)?;
            }
        }
        Ok(())
    }
}

/// Exchanges two paths in one step. Returns false if the file system cannot do that.
pub(crate) fn exchange_paths(one: &Path, other: &Path) -> io::Result<bool> {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(false),
            exchanged => {
                exchanged?;
                Ok(true)
            }
        }
    }
    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    {
        let _ = (one, other);
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_import_left_is_put_back_or_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let staging = Staging::create(dir.path()).expect("made");
        for folder in [
            staging.aside().join("gone"),
            staging.aside().join("there"),
            staging.copy_path("new"),
        ] {
            fs::create_dir(folder).expect("made");
        }
        fs::create_dir(dir.path().join("there")).expect("made");
        let next = Staging::create(dir.path()).expect("made");
        assert!(
            dir.path().join("gone").is_dir(),
            "it was moved aside, and nothing came"
        );
        assert!(!next.aside().join("there").exists() && !next.copy_path("new").exists());
        next.remove_folder().expect("removed");
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 2);
    }

    #[test]
    fn a_copy_takes_the_place_of_what_is_there() {
        let dir = tempfile::tempdir().expect("a folder");
        let staging = Staging::create(dir.path()).expect("made");
        for text in ["one", "two"] {
            fs::create_dir(staging.copy_path("a")).expect("made");
            fs::write(staging.copy_path("a").join("f"), text).expect("written");
            staging.put_in_place("a").expect("placed");
            assert_eq!(
                fs::read_to_string(dir.path().join("a/f")).expect("there"),
                text
            );
            // What was exchanged for it.
            let _ = fs::remove_dir_all(staging.copy_path("a"));
        }
    }
}
