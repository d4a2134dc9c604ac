//! A held folder where there is no `openat2`: paths are made canonical, compared by component and then opened by
//! name. Weaker than on Linux: what is swapped between the check and the open is not noticed. Not here: Linux.
#![expect(clippy::disallowed_methods, reason = "this room resolves paths")]

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// A workspace folder by its canonical name.
#[derive(Debug)]
pub(super) struct Held {
    canonical: PathBuf,
}

impl Held {
    pub(super) fn open(given: &Path) -> io::Result<(Self, PathBuf)> {
        let canonical = std::fs::canonicalize(given)?;
        if !std::fs::metadata(&canonical)?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "is not a folder"));
        }
        Ok((Self { canonical: canonical.clone() }, canonical))
    }

    /// The path without links, from this folder. `CrossesDevices` when it leads out.
    pub(super) fn real(&self, rel: &Path) -> io::Result<PathBuf> {
        let real = std::fs::canonicalize(self.canonical.join(rel))?;
        let outside = || io::Error::new(io::ErrorKind::CrossesDevices, "leads out of the workspace");
        real.strip_prefix(&self.canonical).map(Path::to_owned).map_err(|_| outside())
    }

    /// What the link `name` in the folder `parent` says; an error when it is not a link.
    pub(super) fn link_target(&self, parent: &Path, name: &OsStr) -> io::Result<PathBuf> {
        std::fs::read_link(self.canonical.join(parent).join(name))
    }

    /// The absolute path, if it is still the one that was resolved.
    fn unchanged(&self, rel: &Path) -> io::Result<PathBuf> {
        if self.real(rel)? != rel {
            return Err(io::Error::other("was replaced by a link meanwhile"));
        }
        Ok(self.canonical.join(rel))
    }

    pub(super) fn open_file(&self, rel: &Path) -> io::Result<File> {
        let path = self.unchanged(rel)?;
        let metadata = std::fs::metadata(&path)?;
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder"));
        }
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file"));
        }
        File::open(path)
    }

    pub(super) fn metadata(&self, rel: &Path) -> io::Result<Metadata> {
        std::fs::metadata(self.unchanged(rel)?)
    }

    pub(super) fn open_folder(&self, rel: &Path) -> io::Result<Folder> {
        let path = self.unchanged(rel)?;
        if !std::fs::metadata(&path)?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "is not a folder"));
        }
        Ok(Folder { path })
    }

    /// Not known here.
    pub(super) fn is_foreign_hard_link(&self, _metadata: &Metadata) -> bool {
        false
    }
}

/// What a thing is that is neither a file nor a folder.
pub(super) fn special_kind(_metadata: &Metadata) -> &'static str {
    "a device, a socket or a FIFO"
}

/// An open folder; here, its path.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// A path to a name in here for whoever can only open by path.
    pub fn path_of(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// Makes a file that must not exist yet.
    pub fn create_new(&self, name: &OsStr, _mode: u32) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).open(self.path.join(name))
    }

    /// Opens a regular file for reading.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        File::open(self.path.join(name))
    }

    /// What the name stands for, a link for itself.
    pub fn metadata(&self, name: &OsStr) -> io::Result<Metadata> {
        std::fs::symlink_metadata(self.path.join(name))
    }

    /// What a link says.
    pub fn link_target(&self, name: &OsStr) -> io::Result<PathBuf> {
        std::fs::read_link(self.path.join(name))
    }

    /// Puts one name in place of another, in one step.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    /// Exchanges what two names stand for.
    pub fn exchange(&self, one: &OsStr, other: &OsStr) -> io::Result<()> {
        let mut aside = one.to_owned();
        aside.push(".old");
        self.rename(other, &aside)?;
        self.rename(one, other)?;
        self.rename(&aside, one)
    }

    /// Gives a file its name only if nothing has that name, in one step.
    pub fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        std::fs::hard_link(self.path.join(from), self.path.join(to))?;
        self.remove(from)
    }

    /// Gives a file a name in another folder only if nothing there has that name.
    pub fn move_new(&self, from: &OsStr, folder: &Self, to: &OsStr) -> io::Result<()> {
        match folder.metadata(to) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                std::fs::rename(self.path.join(from), folder.path.join(to))
            }
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(cause) => Err(cause),
        }
    }

    /// Removes an empty folder.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        std::fs::remove_dir(self.path.join(name))
    }

    /// Removes a file.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    /// The folder of this name in here, made where it is missing.
    pub fn enter_or_make(&self, name: &OsStr) -> io::Result<Self> {
        let path = self.path.join(name);
        match std::fs::create_dir(&path) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => return Err(cause),
            _ => {}
        }
        if !std::fs::symlink_metadata(&path)?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "is not a folder"));
        }
        Ok(Self { path })
    }

    /// Folders cannot be synced everywhere; the rename is left to the system.
    pub fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// The names in it, in no order.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        std::fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name())).collect()
    }
}
