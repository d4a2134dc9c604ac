//! File modes of the home. Folders and secret files are created for this user alone, and more open ones are refused. On
//! systems without modes the folder's inherited access rules apply.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::path::Path;

use super::error::HomeError;
use punie_core::bounded_file::{FinalLink, open_nonblocking};
use punie_core::durable::private_folder_builder;

/// The access that other users may have to a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FolderAccess {
    /// Other users may not even read it.
    OwnerOnly,
    /// Other users may read it but not write to it.
    OwnerWrites,
    /// Other users may read it and its group may write to it, as the usual umask of many systems has it.
    GroupWrites,
}

#[cfg(unix)]
impl FolderAccess {
    /// Returns the mode bits that must not be set, and the argument of `chmod` that clears them.
    fn forbidden_bits(self) -> (u32, &'static str) {
        match self {
            Self::OwnerOnly => (0o077, "700"),
            Self::OwnerWrites => (0o022, "go-w"),
            Self::GroupWrites => (0o002, "o-w"),
        }
    }
}

/// Creates the home itself and its parents if they are missing.
pub(super) fn ensure_root(path: &Path) -> Result<(), HomeError> {
    create_missing_dir(path, true)?;
    check_dir(path, FolderAccess::OwnerWrites)
}

/// Creates a folder of the home if it is missing, and checks it.
pub(super) fn ensure_dir(path: &Path, openness: FolderAccess) -> Result<(), HomeError> {
    create_missing_dir(path, false)?;
    check_dir(path, openness)
}

fn create_missing_dir(path: &Path, with_parents: bool) -> Result<(), HomeError> {
    match private_folder_builder()
        .recursive(with_parents)
        .create(path)
    {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => Err(not_a_folder_error(path)),
        Err(error) => Err(HomeError::unwritable(path)(error)),
    }
}

fn not_a_folder_error(path: &Path) -> HomeError {
    HomeError::WrongKind {
        path: path.to_owned(),
        wanted: "a folder",
    }
}

/// Checks a folder without creating it.
pub(super) fn check_dir(path: &Path, openness: FolderAccess) -> Result<(), HomeError> {
    let meta = path.metadata().map_err(HomeError::unwritable(path))?;
    if !meta.is_dir() {
        return Err(not_a_folder_error(path));
    }
    check_owner(path, &meta)?;
    check_mode(path, &meta, openness)
}

#[cfg(unix)]
fn check_owner(path: &Path, meta: &Metadata) -> Result<(), HomeError> {
    use std::os::unix::fs::MetadataExt;
    let us = rustix::process::geteuid().as_raw();
    if meta.uid() == us {
        return Ok(());
    }
    Err(HomeError::NotOurs {
        path: path.to_owned(),
        owner: meta.uid(),
        us,
    })
}

#[cfg(unix)]
fn check_mode(path: &Path, meta: &Metadata, openness: FolderAccess) -> Result<(), HomeError> {
    use std::os::unix::fs::PermissionsExt;
    let mode = meta.permissions().mode() & 0o7777;
    let (forbidden, mend) = openness.forbidden_bits();
    if mode & forbidden == 0 {
        return Ok(());
    }
    let mend = if meta.is_file() { "600" } else { mend };
    Err(HomeError::TooOpen {
        path: path.to_owned(),
        mode,
        mend,
    })
}

#[cfg(not(unix))]
fn check_owner(_: &Path, _: &Metadata) -> Result<(), HomeError> {
    Ok(())
}

#[cfg(not(unix))]
fn check_mode(_: &Path, _: &Metadata, _: FolderAccess) -> Result<(), HomeError> {
    Ok(())
}

/// Clears the mode bits that give other users access. Returns whether there were any.
#[cfg(unix)]
pub(super) fn restrict_mode(path: &Path, access: FolderAccess) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    let mut permissions = path.symlink_metadata()?.permissions();
    let mode = permissions.mode();
    let (forbidden, _) = access.forbidden_bits();
    if mode & forbidden == 0 {
        return Ok(false);
    }
    permissions.set_mode(mode & !forbidden);
    std::fs::set_permissions(path, permissions)?;
    Ok(true)
}

#[cfg(not(unix))]
pub(super) fn restrict_mode(_: &Path, _: FolderAccess) -> io::Result<bool> {
    Ok(false)
}

/// Fails early on a read-only mount or a folder without write permission.
pub(super) fn check_writable(dir: &Path) -> Result<(), HomeError> {
    #[cfg(unix)]
    {
        use rustix::fs::{Access, access};
        access(dir, Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|errno| HomeError::unwritable(dir)(errno.into()))
    }
    #[cfg(not(unix))]
    {
        let meta = dir.metadata().map_err(HomeError::unwritable(dir))?;
        if meta.permissions().readonly() {
            return Err(HomeError::unwritable(dir)(
                ErrorKind::PermissionDenied.into(),
            ));
        }
        Ok(())
    }
}

/// Opens a secret file for reading, if it exists. It must be a plain file of this user that no other user can read.
pub(super) fn open_secret_file(path: &Path) -> Result<Option<File>, HomeError> {
    let wrong_kind = || HomeError::WrongKind {
        path: path.to_owned(),
        wanted: "a plain file",
    };
    // A symlink could lead to a file that other users may change.
    let file = match open_nonblocking(path, FinalLink::Refuse) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if is_link(&error) => return Err(wrong_kind()),
        Err(error) => return Err(HomeError::unreadable(path)(error)),
    };
    let meta = file.metadata().map_err(HomeError::unreadable(path))?;
    if !meta.is_file() {
        return Err(wrong_kind());
    }
    check_owner(path, &meta)?;
    check_mode(path, &meta, FolderAccess::OwnerOnly)?;
    Ok(Some(file))
}

/// Checks a secret file without reading it.
pub(super) fn check_secret_file(path: &Path) -> Result<(), HomeError> {
    open_secret_file(path).map(drop)
}

#[cfg(unix)]
fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

#[cfg(not(unix))]
fn is_link(_: &io::Error) -> bool {
    false
}
