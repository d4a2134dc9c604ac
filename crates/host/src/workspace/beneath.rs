//! A workspace folder that is held open on Linux. Every open is `openat2` beneath it (openat2(2): RESOLVE_BENEATH,
//! RESOLVE_NO_MAGICLINKS), so the kernel refuses to leave it even if a path is replaced meanwhile.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use super::explain_io_error;
use punie_core::durable::allow_unsupported_sync;

/// A concurrent rename makes the kernel return EAGAIN; ten thousand in a row do not happen.
const MAX_TRIES: usize = 10_000;

/// A workspace folder, opened once.
#[derive(Debug)]
pub(super) struct RootHandle {
    fd: OwnedFd,
    canonical: PathBuf,
    owner: u32,
    /// The device and the inode.
    id: (u64, u64),
}

fn openat2_beneath(
    dir: impl AsFd,
    rel: &Path,
    flags: OFlags,
    more: ResolveFlags,
) -> io::Result<OwnedFd> {
    let rel = if rel.as_os_str().is_empty() {
        Path::new(".")
    } else {
        rel
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | more;
    for _ in 0..MAX_TRIES {
        match rustix::fs::openat2(&dir, rel, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return Ok(opened?),
        }
    }
    Err(Errno::AGAIN.into())
}

/// Returns the current path of an open file, from the kernel.
fn fd_path(fd: &impl AsRawFd) -> io::Result<PathBuf> {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let target = rustix::fs::readlinkat(CWD, link, Vec::with_capacity(256))?;
    Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
}

impl RootHandle {
    pub(super) fn open_root(given: &Path) -> io::Result<(Self, PathBuf)> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, given, flags, Mode::empty())?;
        let canonical = fd_path(&fd)?;
        let root = Self::from_open_folder(fd, canonical.clone())?;
        Ok((root, canonical))
    }

    /// Opens a folder if no symlink is on the way to it.
    pub(super) fn open_without_links(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let plain = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let fd = rustix::fs::openat2(CWD, path, flags, Mode::empty(), plain)?;
        Self::from_open_folder(fd, path.to_owned())
    }

    fn from_open_folder(fd: OwnedFd, canonical: PathBuf) -> io::Result<Self> {
        let status = rustix::fs::fstat(&fd)?;
        Ok(Self {
            fd,
            canonical,
            owner: status.st_uid,
            id: (status.st_dev, status.st_ino),
        })
    }

    /// Returns whether both are the same folder, not only at the same path.
    pub(super) fn is_same_folder(&self, other: &Self) -> bool {
        self.id == other.id
    }

    /// Resolves a path without symlinks, relative to this folder. `CrossesDevices` when it leads out.
    pub(super) fn resolve_beneath(&self, rel: &Path) -> io::Result<PathBuf> {
        let fd = openat2_beneath(&self.fd, rel, OFlags::PATH, ResolveFlags::empty())?;
        let now = fd_path(&fd)?;
        if let Ok(rest) = now.strip_prefix(&self.canonical) {
            return Ok(rest.to_owned());
        }
        // The workspace folder itself was moved since it was opened.
        let moved = fd_path(&self.fd)?;
        now.strip_prefix(&moved)
            .map(Path::to_owned)
            .map_err(|_| Errno::XDEV.into())
    }

    /// Reads the symlink `name` in the folder `parent`; an error when it is not a symlink.
    pub(super) fn read_link_beneath(&self, parent: &Path, name: &OsStr) -> io::Result<PathBuf> {
        let dir = openat2_beneath(
            &self.fd,
            parent,
            OFlags::PATH | OFlags::DIRECTORY,
            ResolveFlags::NO_SYMLINKS,
        )?;
        let target = rustix::fs::readlinkat(&dir, name, Vec::new())?;
        Ok(PathBuf::from(OsStr::from_bytes(target.to_bytes())))
    }

    /// Opens any kind of file without waiting: a FIFO without a writer opens at once.
    pub(super) fn open_file_beneath(&self, rel: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        match openat2_beneath(&self.fd, rel, flags, ResolveFlags::NO_SYMLINKS) {
            // A socket, or a device without a driver, cannot be opened at all.
            Err(cause) if cause.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "is a socket or a device, not a regular file",
                ))
            }
            opened => Ok(File::from(opened?)),
        }
    }

    pub(super) fn metadata_beneath(&self, rel: &Path) -> io::Result<Metadata> {
        File::from(openat2_beneath(
            &self.fd,
            rel,
            OFlags::PATH,
            ResolveFlags::NO_SYMLINKS,
        )?)
        .metadata()
    }

    pub(super) fn open_folder_beneath(&self, rel: &Path) -> io::Result<FolderHandle> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        Ok(FolderHandle {
            fd: openat2_beneath(&self.fd, rel, flags, ResolveFlags::NO_SYMLINKS)?,
        })
    }

    /// Returns whether a file has more than one name and is owned by neither this user nor the workspace's owner.
    pub(super) fn is_foreign_hard_link(&self, metadata: &Metadata) -> bool {
        metadata.nlink() > 1
            && metadata.uid() != self.owner
            && metadata.uid() != rustix::process::geteuid().as_raw()
    }
}

/// Names the kind of a special file.
pub(super) fn special_file_kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_symlink() {
        "a symbolic link"
    } else {
        "a device"
    }
}

/// An open folder. Names in it are used as they are, and symlinks are never followed.
#[derive(Debug)]
pub struct FolderHandle {
    fd: OwnedFd,
}

impl FolderHandle {
    /// Returns a path to a name in here, for code that can only open by path. It leads through the open folder itself,
    /// so it stays valid as long as this value, even if the folder is replaced.
    pub fn entry_path(&self, name: &OsStr) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd())).join(name)
    }

    /// Creates a file that must not exist yet.
    pub fn create_new_file(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(
            &self.fd,
            name,
            flags,
            Mode::from_raw_mode(mode),
        )?))
    }

    /// Opens a file for reading, without waiting.
    pub fn open_entry_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        Ok(File::from(openat2_beneath(
            &self.fd,
            Path::new(name),
            flags,
            ResolveFlags::NO_SYMLINKS,
        )?))
    }

    /// Returns the metadata of a name; of a symlink, its own.
    pub fn entry_metadata(&self, name: &OsStr) -> io::Result<Metadata> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        File::from(rustix::fs::openat(&self.fd, name, flags, Mode::empty())?).metadata()
    }

    /// Returns the target of a symlink.
    pub fn entry_link_target(&self, name: &OsStr) -> io::Result<PathBuf> {
        let target = rustix::fs::readlinkat(&self.fd, name, Vec::new())?;
        Ok(PathBuf::from(OsStr::from_bytes(target.to_bytes())))
    }

    /// Renames an entry over another one, atomically.
    pub fn rename_entry(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Exchanges two entries, atomically if the file system supports it.
    pub fn exchange_entries(&self, one: &OsStr, other: &OsStr) -> io::Result<()> {
        match rustix::fs::renameat_with(&self.fd, one, &self.fd, other, RenameFlags::EXCHANGE) {
            Err(Errno::INVAL | Errno::NOSYS) => {}
            exchanged => return Ok(exchanged?),
        }
        let mut aside = one.to_owned();
        aside.push(".old");
        self.rename_entry(other, &aside)?;
        self.rename_entry(one, other)?;
        self.rename_entry(&aside, one)
    }

    /// Renames a file only if the new name is free, atomically if the file system supports it.
    pub fn rename_without_replacing(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match rustix::fs::renameat_with(&self.fd, from, &self.fd, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            renamed => return Ok(renamed?),
        }
        match rustix::fs::linkat(&self.fd, from, &self.fd, to, AtFlags::empty()) {
            Ok(()) => self.remove_file_entry(from),
            // The file system has no hard links. If the name is taken, another error came before this one.
            Err(Errno::PERM | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::MLINK) => {
                self.check_and_rename(from, self, to)
            }
            Err(cause) => Err(cause.into()),
        }
    }

    /// Moves a file to another folder only if the new name is free, atomically if the file system supports it.
    pub fn move_without_replacing(
        &self,
        from: &OsStr,
        folder: &Self,
        to: &OsStr,
    ) -> io::Result<()> {
        match rustix::fs::renameat_with(&self.fd, from, &folder.fd, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => {}
            moved => return Ok(moved?),
        }
        self.check_and_rename(from, folder, to)
    }

    /// Checks and renames in two steps. A file that gets the name in between is replaced.
    fn check_and_rename(&self, from: &OsStr, folder: &Self, to: &OsStr) -> io::Result<()> {
        match folder.entry_metadata(to) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                Ok(rustix::fs::renameat(&self.fd, from, &folder.fd, to)?)
            }
            Ok(_) => Err(Errno::EXIST.into()),
            Err(cause) => Err(cause),
        }
    }

    /// Removes an empty folder.
    pub fn remove_folder_entry(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes a file.
    pub fn remove_file_entry(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Opens a folder in here, and creates it if it is missing.
    pub fn open_or_create_folder(&self, name: &OsStr) -> io::Result<Self> {
        match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => self.fsync_folder()?,
            Err(Errno::EXIST) => {}
            Err(cause) => return Err(cause.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        Ok(Self {
            fd: openat2_beneath(&self.fd, Path::new(name), flags, ResolveFlags::NO_SYMLINKS)?,
        })
    }

    /// Makes the names in it durable.
    pub fn fsync_folder(&self) -> io::Result<()> {
        allow_unsupported_sync(rustix::fs::fsync(&self.fd).map_err(io::Error::from))
    }

    /// Returns the names in it, unsorted.
    pub fn entry_names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        let failed = |cause: Errno| explain_io_error(cause.into());
        for entry in rustix::fs::Dir::read_from(&self.fd).map_err(failed)? {
            let name = OsStr::from_bytes(entry.map_err(failed)?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    type Step<'a> = &'a dyn Fn(&OsStr, &OsStr) -> io::Result<()>;

    #[test]
    fn a_name_that_is_taken_is_never_replaced_whichever_way_the_file_system_can() {
        let base = tempfile::tempdir().expect("a folder");
        let at = |name: &str| base.path().join(name);
        let read = |name: &str| fs::read_to_string(at(name)).expect("a file");
        let (held, _) = RootHandle::open_root(base.path()).expect("opened");
        let folder = held.open_folder_beneath(Path::new("")).expect("opened");
        let [one, two, new] = ["one", "two", "new"].map(OsStr::new);
        let steps: [Step<'_>; 3] = [
            &|from, to| folder.rename_without_replacing(from, to),
            &|from, to| folder.move_without_replacing(from, &folder, to),
            &|from, to| folder.check_and_rename(from, &folder, to),
        ];
        for step in steps {
            fs::write(at("one"), "one").expect("written");
            fs::write(at("two"), "two").expect("written");
            assert_eq!(
                step(one, two).expect_err("taken").kind(),
                io::ErrorKind::AlreadyExists
            );
            assert_eq!(
                (read("one"), read("two")),
                ("one".to_owned(), "two".to_owned())
            );
            step(one, new).expect("free");
            assert_eq!(read("new"), "one");
            assert!(!at("one").exists());
            fs::remove_file(at("new")).expect("removed");
        }
    }
}
