//! Copying trees so that nobody who writes beside or into the copy meanwhile can lead it elsewhere: each folder is
//! opened once and held, each name is made in a held folder and must be new, and no link is followed. Not here: when
//! something is copied rather than moved (tree).

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, openat, utimensat};

/// A folder, opened as what it is: a link in its place is an error.
pub(super) fn open_folder(parent: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

/// Sets the mode of an open file or folder.
pub(super) fn set_mode(of: impl AsFd, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::fchmod(of, Mode::from_raw_mode(bits(mode & 0o7777)))?)
}

/// `mode_t` is narrower on some systems.
#[cfg(not(target_os = "linux"))]
fn bits(mode: u32) -> rustix::fs::RawMode {
    rustix::fs::RawMode::try_from(mode).unwrap_or_default()
}

/// A mode as it is.
#[cfg(target_os = "linux")]
fn bits(mode: u32) -> rustix::fs::RawMode {
    mode
}

/// Copies what a path names to a name that must be new, with modes and times. Links on the way to the two folders are
/// followed; nothing at or below the two names is.
pub(super) fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    let ((from, name), (to, new)) = (parent(from)?, parent(to)?);
    copy_at(&from, name, &to, new)
}

fn parent(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok((openat(CWD, parent, flags, Mode::empty())?, name))
}

fn copy_at(from: &OwnedFd, name: &OsStr, to: &OwnedFd, new: &OsStr) -> io::Result<()> {
    // Not waiting: a FIFO may have come in its place.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let kind = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match rustix::fs::FileType::from_raw_mode(kind.st_mode) {
        rustix::fs::FileType::Symlink => {
            let target = rustix::fs::readlinkat(from, name, Vec::new())?;
            rustix::fs::symlinkat(&target, to, new)?;
            // Times are worth no failure, here as below.
            let seconds =
                |tv_sec, tv_nsec: u64| Timespec { tv_sec, tv_nsec: i64::try_from(tv_nsec).unwrap_or(0) };
            let times = Timestamps {
                last_access: seconds(kind.st_atime as _, kind.st_atime_nsec),
                last_modification: seconds(kind.st_mtime as _, kind.st_mtime_nsec),
            };
            let _ = utimensat(to, new, &times, AtFlags::SYMLINK_NOFOLLOW);
            Ok(())
        }
        rustix::fs::FileType::Directory => copy_folder(&open_folder(from, name)?, to, new),
        rustix::fs::FileType::RegularFile => {
            copy_file(File::from(openat(from, name, flags, Mode::empty())?), to, new)
        }
        _ => {
            let text = format!("{} is neither a file, a folder nor a link", name.display());
            Err(io::Error::new(io::ErrorKind::Unsupported, text))
        }
    }
}

fn copy_folder(from: &OwnedFd, to: &OwnedFd, new: &OsStr) -> io::Result<()> {
    rustix::fs::mkdirat(to, new, Mode::from_raw_mode(0o700))?;
    let made = open_folder(to, new)?;
    for entry in rustix::fs::Dir::read_from(from)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            copy_at(from, name, &made, name)?;
        }
    }
    // The mode comes last: it may not allow to write.
    let (like, made) = (File::from(from.try_clone()?).metadata()?, File::from(made));
    set_times(&made, &like);
    set_mode(&made, like.mode())
}

fn copy_file(mut from: File, to: &OwnedFd, new: &OsStr) -> io::Result<()> {
    let like = from.metadata()?;
    if !like.is_file() {
        return Err(io::Error::other(format!("{} was replaced meanwhile", new.display())));
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(to, new, flags, Mode::from_raw_mode(0o600))?);
    copy_data(&mut from, &mut file, like.len())?;
    set_mode(&file, like.mode())?;
    set_times(&file, &like);
    file.sync_all()
}

/// Copies what a file holds, holes as holes: a file may be much longer than the disk.
fn copy_data(from: &mut File, to: &mut File, length: u64) -> io::Result<()> {
    use io::{Read as _, Seek as _};
    use rustix::fs::{SeekFrom, seek};
    let mut at = 0;
    while at < length {
        let (start, end) = match seek(&*from, SeekFrom::Data(at)) {
            Ok(start) => (start, seek(&*from, SeekFrom::Hole(start))?),
            Err(rustix::io::Errno::NXIO) => break,
            // This file system knows of no holes.
            Err(_) => (at, u64::MAX),
        };
        from.seek(io::SeekFrom::Start(start))?;
        to.seek(io::SeekFrom::Start(start))?;
        let copied = io::copy(&mut from.by_ref().take(end - start), to)?;
        if copied < end - start {
            // It became shorter meanwhile, or this was all of it.
            return Ok(());
        }
        at = end;
    }
    to.set_len(length.max(to.metadata()?.len()))
}

fn set_times(file: &File, like: &Metadata) {
    if let (Ok(modified), Ok(accessed)) = (like.modified(), like.accessed()) {
        let _ = file.set_times(std::fs::FileTimes::new().set_modified(modified).set_accessed(accessed));
    }
}
