//! Moving and copying things with all that is in them. Not here: what is moved, and when.
#![expect(clippy::disallowed_methods, reason = "this file moves trees into the trash and out of it")]

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Gives something another path where nothing is yet; over a border of file systems it is copied, and the original
/// removed.
pub(super) fn move_new(from: &Path, to: &Path) -> io::Result<()> {
    match rename_new(from, to) {
        Err(cause) if cause.kind() == io::ErrorKind::CrossesDevices => {
            copy_new(from, to)?;
            remove(from)
        }
        moved => moved,
    }
}

/// Gives something another path on the same file system, where nothing is yet.
#[cfg(target_os = "linux")]
pub(super) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => rename_if_none(from, to),
        moved => Ok(moved?),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    rename_if_none(from, to)
}

fn rename_if_none(from: &Path, to: &Path) -> io::Result<()> {
    match fs::symlink_metadata(to) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => fs::rename(from, to),
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(cause) => Err(cause),
    }
}

/// Copies something with modes and times, where nothing is yet; nothing stays of a copy that failed. What is neither
/// file, folder nor link cannot be copied.
pub(super) fn copy_new(from: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(to).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    copy(from, to).inspect_err(|_| {
        let _ = remove(to);
    })
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(from)?;
    let kind = metadata.file_type();
    if kind.is_symlink() {
        link(&fs::read_link(from)?, to)?;
        set_link_times(to, &metadata);
        return Ok(());
    }
    if kind.is_dir() {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy(&from.join(&name), &to.join(&name))?;
        }
        // The mode comes last: it may not allow to write.
        let folder = File::open(to)?;
        set_times(&folder, &metadata);
        return fs::set_permissions(to, metadata.permissions());
    }
    if !kind.is_file() {
        let text = format!("{} is neither a file, a folder nor a link", from.display());
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    fs::copy(from, to)?;
    let file = File::open(to)?;
    set_times(&file, &metadata);
    file.sync_all()
}

fn set_times(file: &File, like: &fs::Metadata) {
    if let (Ok(modified), Ok(accessed)) = (like.modified(), like.accessed()) {
        // Times are worth no failure.
        let _ = file.set_times(fs::FileTimes::new().set_modified(modified).set_accessed(accessed));
    }
}

#[cfg(unix)]
fn set_link_times(link: &Path, like: &fs::Metadata) {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
    use std::os::unix::fs::MetadataExt as _;
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec: tv_nsec as _ };
    let times = Timestamps {
        last_access: time(like.atime(), like.atime_nsec()),
        last_modification: time(like.mtime(), like.mtime_nsec()),
    };
    let _ = utimensat(CWD, link, &times, AtFlags::SYMLINK_NOFOLLOW);
}

#[cfg(not(unix))]
fn set_link_times(_link: &Path, _like: &fs::Metadata) {}

#[cfg(unix)]
fn link(target: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(not(unix))]
fn link(_target: &Path, at: &Path) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, format!("{} is a link", at.display())))
}

/// Removes something for good, with all that is in it.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}
