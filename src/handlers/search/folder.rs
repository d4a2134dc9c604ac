//! One folder of a search on Linux: held open, listed once, its files opened by their name in it, links never
//! followed. What is swapped meanwhile cannot lead outside. Not here: which of them are looked at (walk).

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir};

use super::listing::{Kind, Listing};
use crate::acp::Workspace;

/// More folders than this are not held open at once; their files are then opened by their path.
const MAX_HELD: usize = 256;

/// How many folders are held, and whom to ask for the others.
#[derive(Debug)]
pub(super) struct Folders {
    workspace: Workspace,
    held: AtomicUsize,
}

/// A folder by its path and, mostly, by a handle.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    fd: Option<OwnedFd>,
    folders: Arc<Folders>,
}

impl Folders {
    pub(super) fn new(workspace: Workspace) -> Arc<Self> {
        Arc::new(Self { workspace, held: AtomicUsize::new(0) })
    }

    /// Opens the folder that a search begins with. Its path must be absolute and in the workspace.
    pub(super) fn open(self: &Arc<Self>, path: &Path) -> io::Result<Folder> {
        let fd = OwnedFd::from(self.workspace.open_found(path)?);
        self.held.fetch_add(1, Ordering::Relaxed);
        Ok(Folder { path: path.to_owned(), fd: Some(fd), folders: Arc::clone(self) })
    }

    /// Opens a file that a search begins with.
    pub(super) fn open_file(&self, path: &Path) -> io::Result<File> {
        self.workspace.open_found(path)
    }
}

impl Folder {
    /// Opens the folder of this name in here.
    pub(super) fn enter(&self, name: &OsStr) -> io::Result<Self> {
        let path = self.path.join(name);
        let Some(fd) = &self.fd else { return self.folders.open(&path) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(fd, name, flags, Mode::empty())?;
        self.folders.held.fetch_add(1, Ordering::Relaxed);
        Ok(Self { path, fd: Some(fd), folders: Arc::clone(&self.folders) })
    }

    /// Reads its names. Afterwards the handle is kept only where there are not too many.
    pub(super) fn list(&mut self, listing: &mut Listing) -> io::Result<()> {
        listing.names.clear();
        if let Some(fd) = &self.fd {
            let mut entries = RawDir::new(fd, listing.buffer.spare_capacity_mut());
            while let Some(entry) = entries.next() {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                if name != b"." && name != b".." {
                    let kind = match entry.file_type() {
                        // Some file systems do not say.
                        FileType::Unknown => kind_at(fd, OsStr::from_bytes(name)),
                        known => kind(known),
                    };
                    listing.names.push(OsStr::from_bytes(name), kind);
                }
            }
        }
        if self.folders.held.load(Ordering::Relaxed) > MAX_HELD && self.fd.take().is_some() {
            self.folders.held.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Opens a file in here without waiting for anybody.
    pub(super) fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let Some(fd) = &self.fd else { return self.folders.open_file(&self.path.join(name)) };
        Ok(File::from(rustix::fs::openat(fd, name, READ, Mode::empty())?))
    }

    /// When a file in here was changed last.
    pub(super) fn modified(&self, name: &OsStr) -> Option<SystemTime> {
        let stat = match &self.fd {
            Some(fd) => rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW),
            None => rustix::fs::statat(CWD, self.path.join(name), AtFlags::SYMLINK_NOFOLLOW),
        };
        let stat = stat.ok()?;
        let nanos = Duration::new(0, u32::try_from(stat.st_mtime_nsec).ok()?);
        let seconds = Duration::from_secs(stat.st_mtime.unsigned_abs());
        let whole = if stat.st_mtime < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(seconds)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(seconds)
        };
        whole?.checked_add(nanos)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.fd.is_some() {
            self.folders.held.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A FIFO opens at once, a link and a terminal do nothing.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Opens a file with rules, which may lie above the workspace; only a regular one.
pub(super) fn open_rules(path: &Path) -> Option<File> {
    let fd = rustix::fs::openat(CWD, path, READ, Mode::empty()).ok()?;
    let regular = FileType::from_raw_mode(rustix::fs::fstat(&fd).ok()?.st_mode) == FileType::RegularFile;
    regular.then(|| File::from(fd))
}

fn kind(found: FileType) -> Kind {
    match found {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Folder,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    }
}

fn kind_at(fd: &OwnedFd, name: &OsStr) -> Kind {
    rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_or(Kind::Other, |stat| kind(FileType::from_raw_mode(stat.st_mode)))
}
