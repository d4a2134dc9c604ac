//! Copying trees so that no concurrent writer can lead the copy elsewhere: each folder is opened once and held, each
//! name is made in a held folder and must be new, and no link is followed.

use std::ffi::OsStr;
use std::fs::{File, FileTimes, Metadata, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, openat, utimensat};

/// Opens a folder without following links: a link in its place is an error.
pub(super) fn open_folder(parent: impl AsFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(parent, name, flags, Mode::empty())?))
}

/// Sets the permission bits of an open file or folder.
pub(super) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode & 0o7777))
}

/// Copies what a path names to a name that must be new, with modes and times. Links on the way to the two folders are
/// followed; nothing at or below the two names is.
pub(super) fn copy_path(from: &Path, to: &Path) -> io::Result<()> {
    let (from, name) = open_parent(from)?;
    let (to, new) = open_parent(to)?;
    copy_entry(&from, name, &to, new)
}

fn open_parent(path: &Path) -> io::Result<(File, &OsStr)> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok((File::from(openat(CWD, parent, flags, Mode::empty())?), name))
}

fn copy_entry(from: &File, name: &OsStr, to: &File, new: &OsStr) -> io::Result<()> {
    let status = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(from, name, Vec::new())?;
            rustix::fs::symlinkat(&target, to, new)?;
            let time = |tv_sec, nanos: u64| Timespec {
                tv_sec,
                tv_nsec: i64::try_from(nanos).unwrap_or(0),
            };
            let times = Timestamps {
                last_access: time(status.st_atime as _, status.st_atime_nsec),
                last_modification: time(status.st_mtime as _, status.st_mtime_nsec),
            };
            // Times are worth no failure, here as below.
            let _ = utimensat(to, new, &times, AtFlags::SYMLINK_NOFOLLOW);
            Ok(())
        }
        FileType::Directory => copy_folder(&open_folder(from, name)?, to, new),
        FileType::RegularFile => {
            // Not waiting: a FIFO may have come in its place.
            let flags = OFlags::RDONLY
                | OFlags::NOFOLLOW
                | OFlags::NONBLOCK
                | OFlags::NOCTTY
                | OFlags::CLOEXEC;
            copy_file(
                &File::from(openat(from, name, flags, Mode::empty())?),
                to,
                new,
            )
        }
        _ => {
            let text = format!("{} is neither a file, a folder nor a link", name.display());
            Err(io::Error::new(io::ErrorKind::Unsupported, text))
        }
    }
}

fn copy_folder(from: &File, to: &File, new: &OsStr) -> io::Result<()> {
    rustix::fs::mkdirat(to, new, Mode::RWXU)?;
    let made = open_folder(to, new)?;
    for entry in rustix::fs::Dir::read_from(from)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            copy_entry(from, name, &made, name)?;
        }
    }
    // The mode comes last: it may not allow to write.
    set_mode_and_times(&made, &from.metadata()?)
}

fn copy_file(from: &File, to: &File, new: &OsStr) -> io::Result<()> {
    let like = from.metadata()?;
    if !like.is_file() {
        return Err(io::Error::other(format!(
            "{} was replaced meanwhile",
            new.display()
        )));
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(openat(to, new, flags, Mode::RUSR | Mode::WUSR)?);
    copy_data(from, &file, like.len())?;
    set_mode_and_times(&file, &like)?;
    file.sync_all()
}

/// Copies the content of a file, holes as holes: a file may be much longer than the disk.
fn copy_data(mut from: &File, mut to: &File, length: u64) -> io::Result<()> {
    use io::{Read as _, Seek as _};
    use rustix::fs::{SeekFrom, seek};
    let mut at = 0;
    while at < length {
        let (start, end) = match seek(from, SeekFrom::Data(at)) {
            Ok(start) => (start, seek(from, SeekFrom::Hole(start))?),
            Err(rustix::io::Errno::NXIO) => break,
            // This file system knows of no holes.
            Err(_) => (at, u64::MAX),
        };
        from.seek(io::SeekFrom::Start(start))?;
        to.seek(io::SeekFrom::Start(start))?;
        let copied = io::copy(&mut from.take(end - start), &mut to)?;
        if copied < end - start {
            // It became shorter meanwhile, or this was all of it.
            return Ok(());
        }
        at = end;
    }
    to.set_len(length.max(to.metadata()?.len()))
}

fn set_mode_and_times(file: &File, like: &Metadata) -> io::Result<()> {
    if let (Ok(modified), Ok(accessed)) = (like.modified(), like.accessed()) {
        let _ = file.set_times(
            FileTimes::new()
                .set_modified(modified)
                .set_accessed(accessed),
        );
    }
    set_mode(file, like.permissions().mode())
}
