//! Opening and reading files for a snapshot, each by its folder and without following a link.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;

use super::super::LARGEST_KEPT;
use super::tree_node::ChangeStamp;

/// How often a file that changes while it is read is read at most.
const READ_ATTEMPTS: u32 = 3;

/// Reads a file whole, with its metadata if it did not change meanwhile.
pub(super) fn read_whole_file(
    folder: &OwnedFd,
    name: &OsStr,
) -> io::Result<(Vec<u8>, Option<Stat>)> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let mut file = open_file(folder, name)?;
        let before = rustix::fs::fstat(&file)?;
        let mut read = Vec::with_capacity(
            usize::try_from(file_size(&before))
                .unwrap_or(0)
                .min(64 << 20),
        );
        (&mut file).take(LARGEST_KEPT).read_to_end(&mut read)?;
        let after = rustix::fs::fstat(&file)?;
        if change_stamp(&before) == change_stamp(&after) {
            return Ok((read, Some(after)));
        }
        if attempts == READ_ATTEMPTS {
            return Ok((read, None));
        }
    }
}

pub(super) fn open_folder(parent: impl AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// Opens a regular file for reading, without waiting for a writer.
pub(super) fn open_file(folder: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(folder, name, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    // It was replaced since its folder was read.
    Err(io::ErrorKind::NotFound.into())
}

pub(super) fn stat_entry(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<Stat>> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(status) => Ok(Some(status)),
        Err(Errno::NOENT) => Ok(None),
        Err(cause) => Err(cause.into()),
    }
}

pub(super) fn file_size(status: &Stat) -> u64 {
    u64::try_from(status.st_size).unwrap_or(0)
}

pub(super) fn changed_at(status: &Stat) -> (i64, u64) {
    (status.st_ctime as _, status.st_ctime_nsec as _)
}

/// The stamp of a file by its metadata.
pub(super) fn change_stamp(status: &Stat) -> ChangeStamp {
    ChangeStamp(
        file_size(status),
        status.st_ino as _,
        status.st_mtime as _,
        status.st_mtime_nsec as _,
        status.st_ctime as _,
        status.st_ctime_nsec as _,
    )
}
