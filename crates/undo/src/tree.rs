//! Moving, copying and measuring files and folders with all that is in them.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

use punie_core::durable::{rename_without_replacing, sync_parent_folder, temp_name};

#[cfg(unix)]
use super::tree_copy::copy_path;

/// Moves something to a path where nothing is yet. Over a border of file systems it is copied and the original removed.
/// Of a folder the copy stays once it is whole: if the original cannot be removed, its remains are unknown.
pub(super) fn move_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    require_own_name(from)?;
    if !fs::symlink_metadata(from)?.is_dir() {
        return move_file_without_replacing(from, to);
    }
    match rename_without_replacing(from, to) {
        Err(cause) if cause.kind() == io::ErrorKind::CrossesDevices => {
            copy_without_replacing(from, to)?;
            sync_parent_folder(to)?;
            if let Err(cause) = remove_tree(from) {
                tracing::warn!(path = %from.display(), %cause, "something was copied and could not be removed");
            }
            Ok(())
        }
        moved => moved,
    }
}

/// The same for something that is no folder: all or nothing.
pub(super) fn move_file_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    match rename_without_replacing(from, to) {
        Err(cause) if cause.kind() == io::ErrorKind::CrossesDevices => {
            copy_without_replacing(from, to).and_then(|()| sync_parent_folder(to))?;
            fs::remove_file(from).inspect_err(|_| {
                let _ = fs::remove_file(to);
            })
        }
        moved => moved,
    }
}

/// Refuses a path that ends in a slash or in dots: it means what a link leads to, and not the link.
fn require_own_name(path: &Path) -> io::Result<()> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.ends_with(b"/") || bytes.ends_with(b"/.") || path.file_name().is_none() {
        let text = format!("{} does not name a thing by itself", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(())
}

/// Copies something with modes and times to a path where nothing is yet. The copy gets its name only when it is whole;
/// nothing stays of one that failed. Links on the way to the two folders are followed, none at or below the two names.
pub(super) fn copy_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(to).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let draft = to.with_file_name(temp_name(OsStr::new("copy"))?);
    copy_path(from, &draft)
        .and_then(|()| rename_without_replacing(&draft, to))
        .inspect_err(|_| {
            let _ = remove_tree(&draft);
        })
}

/// Weaker than elsewhere: what is put into the copy's way meanwhile is not noticed.
#[cfg(not(unix))]
fn copy_path(from: &Path, to: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(from)?;
    if metadata.is_dir() {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy_path(&from.join(&name), &to.join(&name))?;
        }
        return Ok(());
    }
    fs::copy(from, to)?;
    fs::File::open(to)?.sync_all()
}

/// The size of files and folders.
#[derive(Debug, Default)]
pub(super) struct TreeSize {
    /// The number of entries that are not folders.
    pub files: u64,
    /// The length of the files in bytes.
    pub bytes: u64,
    /// The bytes that all of it takes on the disk: a sparse file takes less than it holds.
    pub on_disk: u64,
    /// Files with several names, each of which counts once.
    linked: HashSet<(u64, u64)>,
}

impl TreeSize {
    /// Measures a tree. Unreadable entries do not count.
    pub fn measure_path(path: &Path) -> Self {
        let mut size = Self::default();
        let mut waiting = vec![path.to_owned()];
        while let Some(path) = waiting.pop() {
            let Ok(metadata) = fs::symlink_metadata(&path) else {
                continue;
            };
            if metadata.is_dir() {
                waiting.extend(
                    fs::read_dir(&path)
                        .into_iter()
                        .flatten()
                        .flatten()
                        .map(|entry| entry.path()),
                );
            }
            size.count_entry(&metadata);
        }
        size
    }

    /// Counts one file or folder.
    pub fn count_entry(&mut self, metadata: &Metadata) {
        self.files += u64::from(!metadata.is_dir());
        if self.is_first_hard_link(metadata) {
            self.bytes += if metadata.is_file() {
                metadata.len()
            } else {
                0
            };
            self.on_disk += disk_usage(metadata);
        }
    }

    #[cfg(unix)]
    fn is_first_hard_link(&mut self, metadata: &Metadata) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        metadata.is_dir()
            || metadata.nlink() == 1
            || self.linked.insert((metadata.dev(), metadata.ino()))
    }

    #[cfg(not(unix))]
    fn is_first_hard_link(&mut self, metadata: &Metadata) -> bool {
        metadata.is_dir() || self.linked.is_empty()
    }
}

#[cfg(unix)]
fn disk_usage(metadata: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    metadata.blocks().saturating_mul(512)
}

#[cfg(not(unix))]
fn disk_usage(metadata: &Metadata) -> u64 {
    metadata.len()
}

/// Removes something for good, with all that is in it.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    match fs::remove_dir_all(path) {
        // It holds each folder on the way down.
        #[cfg(unix)]
        Err(cause) if cause.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
            super::deep_removal::remove_deep_tree(path)
        }
        removed => removed,
    }
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
        assert!(copy_path(&path("from"), &path("folder")).is_err());
        assert!(copy_path(&path("single"), &path("dangling")).is_err());
        assert_eq!(fs::read_dir(path("outside")).expect("there").count(), 0);
    }

    #[test]
    fn a_copy_that_fails_leaves_nothing_and_modes_and_times_come_along() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("from/shut")).expect("made");
        fs::write(path("from/shut/run.sh"), "echo\n").expect("written");
        fs::set_permissions(path("from/shut/run.sh"), fs::Permissions::from_mode(0o751))
            .expect("set");
        fs::set_permissions(path("from/shut"), fs::Permissions::from_mode(0o500)).expect("set");
        copy_without_replacing(&path("from"), &path("to")).expect("copied");
        for name in ["shut", "shut/run.sh"] {
            let [a, b] = ["from", "to"].map(|top| fs::metadata(path(top).join(name)).expect(name));
            assert_eq!(
                (a.permissions(), a.modified().ok()),
                (b.permissions(), b.modified().ok()),
                "{name}"
            );
        }
        fs::set_permissions(path("from/shut"), fs::Permissions::from_mode(0o700)).expect("set");
        let socket = std::os::unix::net::UnixListener::bind(path("from/socket")).expect("bound");
        assert!(copy_without_replacing(&path("from"), &path("again")).is_err());
        drop(socket);
        assert_eq!(
            fs::read_dir(dir.path()).expect("there").count(),
            2,
            "from and to"
        );
    }
}
