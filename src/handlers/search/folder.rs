//! A folder of a search on Linux: an open handle through which files are opened by name, without following links. A
//! folder replaced meanwhile cannot lead outside.

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

use super::folder_entries::{FolderBuffer, WalkEntryKind};
use punie_host::{FileView, Workspace};

/// Beyond this number of open folders, files are opened by path.
const MAX_OPEN_FOLDERS: usize = 256;

/// The number of open folders, and the workspace that opens further ones.
#[derive(Debug)]
pub(super) struct FolderOpener {
    workspace: Workspace,
    view: Option<Arc<FileView>>,
    open_folders: AtomicUsize,
}

/// A folder given by its path and usually an open handle.
#[derive(Debug)]
pub(super) struct SearchFolder {
    path: PathBuf,
    fd: Option<OwnedFd>,
    folders: Arc<FolderOpener>,
}

impl FolderOpener {
    pub(super) fn new(workspace: Workspace, view: Option<Arc<FileView>>) -> Arc<Self> {
        Arc::new(Self {
            workspace,
            view,
            open_folders: AtomicUsize::new(0),
        })
    }

    /// Opens the folder in which a search begins. Its path must be absolute and in the workspace.
    pub(super) fn open_folder(self: &Arc<Self>, path: &Path) -> io::Result<SearchFolder> {
        let opened = self.workspace.open_found_file(path).map(OwnedFd::from);
        self.search(path.to_owned(), opened)
    }

    /// Returns an opened folder, or one that only the view has.
    fn search(
        self: &Arc<Self>,
        path: PathBuf,
        opened: io::Result<OwnedFd>,
    ) -> io::Result<SearchFolder> {
        let fd = match opened {
            Err(cause)
                if cause.kind() == io::ErrorKind::NotFound && self.is_viewed_folder(&path) =>
            {
                return Ok(SearchFolder {
                    path,
                    fd: None,
                    folders: Arc::clone(self),
                });
            }
            opened => opened?,
        };
        self.open_folders.fetch_add(1, Ordering::Relaxed);
        Ok(SearchFolder {
            path,
            fd: Some(fd),
            folders: Arc::clone(self),
        })
    }

    fn is_viewed_folder(&self, path: &Path) -> bool {
        let view = self.view.as_ref();
        view.is_some_and(|view| view.has_files_below(path))
    }

    /// Opens a file with which a search begins.
    pub(super) fn open_start_file(&self, path: &Path) -> io::Result<File> {
        let viewed = self.view.as_ref().and_then(|view| view.open_at(path));
        viewed.unwrap_or_else(|| self.workspace.open_found_file(path))
    }
}

impl SearchFolder {
    pub(super) fn open_subfolder(&self, name: &OsStr) -> io::Result<Self> {
        let path = self.path.join(name);
        let Some(fd) = &self.fd else {
            return self.folders.open_folder(&path);
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(fd, name, flags, Mode::empty()).map_err(io::Error::from);
        self.folders.search(path, opened)
    }

    /// Reads the names in the folder. Closes the handle if too many folders are open.
    pub(super) fn read_names(&mut self, listing: &mut FolderBuffer) -> io::Result<()> {
        listing.names.clear();
        if let Some(fd) = &self.fd {
            let mut entries = RawDir::new(fd, listing.buffer.spare_capacity_mut());
            while let Some(entry) = entries.next() {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                if name != b"." && name != b".." {
                    let kind = match entry.file_type() {
                        // Some file systems do not report the type.
                        FileType::Unknown => stat_entry_kind(fd, OsStr::from_bytes(name)),
                        known => to_entry_kind(known),
                    };
                    listing.names.push(OsStr::from_bytes(name), kind);
                }
            }
        }
        if self.folders.open_folders.load(Ordering::Relaxed) > MAX_OPEN_FOLDERS
            && self.fd.take().is_some()
        {
            self.folders.open_folders.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(view) = &self.folders.view {
            listing.names.apply_view(view, &self.path);
        }
        Ok(())
    }

    /// Opens a file in this folder without blocking.
    pub(super) fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let Some(fd) = self.fd.as_ref().filter(|_| self.folders.view.is_none()) else {
            return self.folders.open_start_file(&self.path.join(name));
        };
        Ok(File::from(rustix::fs::openat(
            fd,
            name,
            READ,
            Mode::empty(),
        )?))
    }

    /// Returns the time of a file's last change.
    pub(super) fn modified_time(&self, name: &OsStr) -> Option<SystemTime> {
        if let Some(view) = &self.folders.view
            && let Some(viewed) = view.file_at(&self.path.join(name))
        {
            return viewed?.content.symlink_metadata().ok()?.modified().ok();
        }
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

impl Drop for SearchFolder {
    fn drop(&mut self) {
        if self.fd.is_some() {
            self.folders.open_folders.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A FIFO opens without blocking, a symbolic link fails, and a terminal does not become the controlling one.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

fn to_entry_kind(found: FileType) -> WalkEntryKind {
    match found {
        FileType::RegularFile => WalkEntryKind::File,
        FileType::Directory => WalkEntryKind::Folder,
        FileType::Symlink => WalkEntryKind::Link,
        _ => WalkEntryKind::Other,
    }
}

fn stat_entry_kind(fd: &OwnedFd, name: &OsStr) -> WalkEntryKind {
    rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW).map_or(WalkEntryKind::Other, |stat| {
        to_entry_kind(FileType::from_raw_mode(stat.st_mode))
    })
}
