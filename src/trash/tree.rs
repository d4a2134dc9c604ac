//! Moving and copying things with all that is in them. Not here: what is moved, and when.
#![expect(clippy::disallowed_methods, reason = "this file moves trees into the trash and out of it")]

use std::fs;
use std::io;
use std::path::Path;

/// Gives something another path where nothing is yet; over a border of file systems it is copied, and the original
/// removed. Of a folder the copy stays once it is whole: where the original cannot be removed, nobody knows what is left
/// of it.
pub(super) fn move_new(from: &Path, to: &Path) -> io::Result<()> {
    itself(from)?;
    if !fs::symlink_metadata(from)?.is_dir() {
        return move_file_new(from, to).map_err(|(Unmoved::Copy(cause) | Unmoved::Removal(cause))| cause);
    }
    match rename_new(from, to) {
        Err(cause) if cause.kind() == io::ErrorKind::CrossesDevices => {
            copy_new(from, to)?;
            sync_name(to)?;
            if let Err(cause) = remove(from) {
                tracing::warn!(path = %from.display(), %cause, "something was copied and could not be removed");
            }
            Ok(())
        }
        moved => moved,
    }
}

/// Which half of a move over a border of file systems failed.
#[derive(Debug)]
pub(super) enum Unmoved {
    /// The copy: nothing of it is there, and the original is untouched.
    Copy(io::Error),
    /// The removal of the original, or a move in one step: nothing changed.
    Removal(io::Error),
}

/// The same for something that is no folder: all or nothing.
pub(super) fn move_file_new(from: &Path, to: &Path) -> Result<(), Unmoved> {
    match rename_new(from, to) {
        Err(cause) if cause.kind() == io::ErrorKind::CrossesDevices => {
            copy_new(from, to).and_then(|()| sync_name(to)).map_err(Unmoved::Copy)?;
            fs::remove_file(from).map_err(|cause| {
                let _ = fs::remove_file(to);
                Unmoved::Removal(cause)
            })
        }
        moved => moved.map_err(Unmoved::Removal),
    }
}

/// A path that ends in a slash or in dots means what a link leads to, and not the link.
fn itself(path: &Path) -> io::Result<()> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.ends_with(b"/") || bytes.ends_with(b"/.") || path.file_name().is_none() {
        let text = format!("{} does not name a thing by itself", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(())
}

/// Makes the name of something durable.
fn sync_name(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), super::manifest::sync_folder)
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

/// Copies something with modes and times, where nothing is yet. It is built under a name beside it that nobody can
/// foresee and gets its own only when it is whole; nothing stays of a copy that failed. What is neither file, folder nor
/// link cannot be copied. Links on the way to the two folders are followed, none at or below the two names.
pub(super) fn copy_new(from: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(to).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let draft = to.with_file_name(format!(".{}.tmp", uuid::Uuid::new_v4().simple()));
    copy(from, &draft).and_then(|()| rename_new(&draft, to)).inspect_err(|_| {
        let _ = remove(&draft);
    })
}

#[cfg(unix)]
use super::copy::copy;

/// Weaker than elsewhere: what is put into the copy's way meanwhile is not noticed.
#[cfg(not(unix))]
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(from)?;
    if metadata.is_dir() {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy(&from.join(&name), &to.join(&name))?;
        }
        return Ok(());
    }
    if !metadata.is_file() {
        let text = format!("{} is neither a file nor a folder", from.display());
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    fs::copy(from, to)?;
    fs::File::open(to)?.sync_all()
}

/// Moves a folder or a file that a command made, whatever its mode: one that its owner may not write could not be moved
/// to another folder. No link is followed.
pub(super) fn take(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if fs::symlink_metadata(from)?.is_dir() {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = libc::O_NOFOLLOW | libc::O_DIRECTORY | libc::O_NONBLOCK;
        match fs::OpenOptions::new().read(true).custom_flags(flags).open(from) {
            Ok(folder) => super::copy::set_mode(folder, 0o700)?,
            // One that cannot even be read can have its mode only by its name, in a folder that leads nowhere.
            Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
                use rustix::fs::{AtFlags, CWD, Mode, chmodat};
                chmodat(CWD, from, Mode::RWXU, AtFlags::SYMLINK_NOFOLLOW)?;
            }
            Err(cause) => return Err(cause),
        }
    }
    fs::rename(from, to)
}

/// What something takes on the disk with all that is in it, in bytes; what cannot be looked at does not count. A file
/// with several names counts once.
pub(super) fn on_disk(path: &Path) -> u64 {
    let mut seen = std::collections::HashSet::new();
    let (mut bytes, mut waiting) = (0, vec![path.to_owned()]);
    while let Some(path) = waiting.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            waiting.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
        if is_new(&metadata, &mut seen) {
            bytes += taken(&metadata);
        }
    }
    bytes
}

/// Whether a file counts: one with several names does once.
#[cfg(unix)]
pub(super) fn is_new(metadata: &fs::Metadata, seen: &mut std::collections::HashSet<(u64, u64)>) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    metadata.is_dir() || metadata.nlink() == 1 || seen.insert((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
pub(super) fn is_new(_: &fs::Metadata, _: &mut std::collections::HashSet<(u64, u64)>) -> bool {
    true
}

/// What a file takes on the disk, in bytes: a sparse one less than it is long.
#[cfg(unix)]
pub(super) fn taken(metadata: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    metadata.blocks().saturating_mul(512)
}

#[cfg(not(unix))]
pub(super) fn taken(metadata: &fs::Metadata) -> u64 {
    metadata.len()
}

/// Removes something for good, with all that is in it.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_copy_writes_through_no_link_that_stands_in_its_way() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("from")).expect("made");
        fs::write(path("from/file"), "kept\n").expect("written");
        fs::write(path("single"), "kept\n").expect("written");
        fs::create_dir(path("outside")).expect("made");
        // As one that is put there after it was looked whether there is anything.
        symlink(path("outside"), path("folder")).expect("linked");
        symlink(path("outside/file"), path("dangling")).expect("linked");
        assert!(copy(&path("from"), &path("folder")).is_err());
        assert!(copy(&path("single"), &path("dangling")).is_err());
        assert_eq!(fs::read_dir(path("outside")).expect("there").count(), 0);
    }

    #[test]
    fn a_copy_that_fails_leaves_nothing_and_modes_and_times_come_along() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("from/shut")).expect("made");
        fs::write(path("from/shut/run.sh"), "echo\n").expect("written");
        fs::set_permissions(path("from/shut/run.sh"), fs::Permissions::from_mode(0o751)).expect("set");
        fs::set_permissions(path("from/shut"), fs::Permissions::from_mode(0o500)).expect("set");
        copy_new(&path("from"), &path("to")).expect("copied");
        for name in ["shut", "shut/run.sh"] {
            let [a, b] = ["from", "to"].map(|top| fs::metadata(path(top).join(name)).expect(name));
            assert_eq!((a.permissions(), a.modified().ok()), (b.permissions(), b.modified().ok()), "{name}");
        }
        fs::set_permissions(path("from/shut"), fs::Permissions::from_mode(0o700)).expect("set");
        let socket = std::os::unix::net::UnixListener::bind(path("from/socket")).expect("bound");
        assert!(copy_new(&path("from"), &path("again")).is_err());
        drop(socket);
        assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 2, "from and to");
    }
}
