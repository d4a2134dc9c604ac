//! A workspace folder on systems without `openat2`. Paths are made canonical, compared by component and then opened by
//! name. This is weaker than on Linux: a path that is replaced between the check and the open is not noticed.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// A workspace folder by its canonical path.
#[derive(Debug)]
pub(super) struct RootHandle {
    canonical: PathBuf,
}

impl RootHandle {
    pub(super) fn open_root(given: &Path) -> io::Result<(Self, PathBuf)> {
        let canonical = std::fs::canonicalize(given)?;
        if !std::fs::metadata(&canonical)?.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                "is not a folder",
            ));
        }
        Ok((
            Self {
                canonical: canonical.clone(),
            },
            canonical,
        ))
    }

    /// Opens a folder if no symlink is on the way to it.
    pub(super) fn open_without_links(path: &Path) -> io::Result<Self> {
        match Self::open_root(path)? {
            (root, canonical) if canonical == path => Ok(root),
            _ => Err(io::Error::other("a link leads to it")),
        }
    }

    /// Returns whether both are the same folder, as far as their paths tell.
    pub(super) fn is_same_folder(&self, other: &Self) -> bool {
        self.canonical == other.canonical
    }

    /// Resolves a path without symlinks, relative to this folder. `CrossesDevices` when it leads out.
    pub(super) fn resolve_beneath(&self, rel: &Path) -> io::Result<PathBuf> {
        let real = std::fs::canonicalize(self.canonical.join(rel))?;
        let outside =
            || io::Error::new(io::ErrorKind::CrossesDevices, "leads out of the workspace");
        real.strip_prefix(&self.canonical)
            .map(Path::to_owned)
            .map_err(|_| outside())
    }

    /// Reads the symlink `name` in the folder `parent`; an error when it is not a symlink.
    pub(super) fn read_link_beneath(&self, parent: &Path, name: &OsStr) -> io::Result<PathBuf> {
        std::fs::read_link(self.canonical.join(parent).join(name))
    }

    /// Returns the absolute path, if it is still the resolved one.
    fn path_if_unchanged(&self, rel: &Path) -> io::Result<PathBuf> {
        if self.resolve_beneath(rel)? != rel {
            return Err(io::Error::other("was replaced by a link meanwhile"));
        }
        Ok(self.canonical.join(rel))
    }

    pub(super) fn open_file_beneath(&self, rel: &Path) -> io::Result<File> {
        let path = self.path_if_unchanged(rel)?;
        let metadata = std::fs::metadata(&path)?;
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder"));
        }
        if !metadata.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "is not a regular file",
            ));
        }
        File::open(path)
    }

    pub(super) fn metadata_beneath(&self, rel: &Path) -> io::Result<Metadata> {
        std::fs::metadata(self.path_if_unchanged(rel)?)
    }

    pub(super) fn open_folder_beneath(&self, rel: &Path) -> io::Result<FolderHandle> {
        let path = self.path_if_unchanged(rel)?;
        if !std::fs::metadata(&path)?.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                "is not a folder",
            ));
        }
        Ok(FolderHandle { path })
    }

    /// Returns false, because it is not known on this system.
    pub(super) fn is_foreign_hard_link(&self, _metadata: &Metadata) -> bool {
        false
    }
}

/// Names the kind of a special file.
pub(super) fn special_file_kind(_metadata: &Metadata) -> &'static str {
    "a device, a socket or a FIFO"
}

/// An open folder, represented by its path.
#[derive(Debug)]
pub struct FolderHandle {
    path: PathBuf,
}

impl FolderHandle {
    /// Returns a path to a name in here, for code that can only open by path.
    pub fn entry_path(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// Creates a file that must not exist yet.
    pub fn create_new_file(&self, name: &OsStr, _mode: u32) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(self.path.join(name))
    }

    /// Opens a regular file for reading.
    pub fn open_entry_file(&self, name: &OsStr) -> io::Result<File> {
        File::open(self.path.join(name))
    }

    /// Returns the metadata of a name; of a symlink, its own.
    pub fn entry_metadata(&self, name: &OsStr) -> io::Result<Metadata> {
        std::fs::symlink_metadata(self.path.join(name))
    }

    /// Returns the target of a symlink.
    pub fn entry_link_target(&self, name: &OsStr) -> io::Result<PathBuf> {
        std::fs::read_link(self.path.join(name))
    }

    /// Renames an entry over another one, atomically.
    pub fn rename_entry(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    /// Exchanges two entries.
    pub fn exchange_entries(&self, one: &OsStr, other: &OsStr) -> io::Result<()> {
        let mut aside = one.to_owned();
        aside.push(".old");
        self.rename_entry(other, &aside)?;
        self.rename_entry(one, other)?;
        self.rename_entry(&aside, one)
    }

    /// Renames a file only if the new name is free, atomically.
    pub fn rename_without_replacing(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        std::fs::hard_link(self.path.join(from), self.path.join(to))?;
        self.remove_file_entry(from)
    }

    /// Moves a file to another folder only if the new name is free.
    pub fn move_without_replacing(
        &self,
        from: &OsStr,
        folder: &Self,
        to: &OsStr,
    ) -> io::Result<()> {
        match folder.entry_metadata(to) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                std::fs::rename(self.path.join(from), folder.path.join(to))
            }
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(cause) => Err(cause),
        }
    }

    /// Removes an empty folder.
    pub fn remove_folder_entry(&self, name: &OsStr) -> io::Result<()> {
        std::fs::remove_dir(self.path.join(name))
    }

    pub fn remove_file_entry(&self, name: &OsStr) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    /// Opens a folder in here, and creates it if it is missing.
    pub fn open_or_create_folder(&self, name: &OsStr) -> io::Result<Self> {
        let path = self.path.join(name);
        match std::fs::create_dir(&path) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => return Err(cause),
            _ => {}
        }
        if !std::fs::symlink_metadata(&path)?.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                "is not a folder",
            ));
        }
        Ok(Self { path })
    }

    /// Does nothing, because not every system can sync folders.
    pub fn fsync_folder(&self) -> io::Result<()> {
        Ok(())
    }

    /// Returns the names in it, unsorted.
    pub fn entry_names(&self) -> io::Result<Vec<OsString>> {
        std::fs::read_dir(&self.path)?
            .map(|entry| Ok(entry?.file_name()))
            .collect()
    }
}
