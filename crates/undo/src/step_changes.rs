//! The single changes of an undo: making folders, links and files, and setting modes.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use super::content_store::{ContentStore, hash_file};
use punie_host::workspace::FolderHandle;

/// Makes a folder with this mode; a link that is put in its place meanwhile gets none.
pub(super) fn make_folder(folder: &FolderHandle, name: &OsStr, mode: u32) -> io::Result<()> {
    let path = folder.entry_path(name);
    fs::create_dir(&path)?;
    #[cfg(unix)]
    super::tree_copy::open_folder(rustix::fs::CWD, path.as_os_str())
        .and_then(|opened| super::tree_copy::set_mode(&opened, mode))
        .inspect_err(|_| {
            // It is this one's own: it was not there before.
            let _ = folder.remove_folder_entry(name);
        })?;
    #[cfg(not(unix))]
    let _ = mode;
    Ok(())
}

/// Sets the permission bits of a folder; returns those that it had. A link in its place is not followed.
#[cfg(unix)]
pub(super) fn set_folder_mode(
    folder: &FolderHandle,
    name: &OsStr,
    mode: u32,
) -> io::Result<Option<u32>> {
    let path = folder.entry_path(name);
    let had = punie_core::file_metadata::permission_bits(&folder.entry_metadata(name)?);
    match super::tree_copy::open_folder(rustix::fs::CWD, path.as_os_str()) {
        Ok(opened) => super::tree_copy::set_mode(&opened, mode)?,
        // One that cannot even be read can have its mode only by its name.
        Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
            use rustix::fs::{AtFlags, CWD, Mode, chmodat};
            chmodat(
                CWD,
                &path,
                Mode::from_raw_mode(mode),
                AtFlags::SYMLINK_NOFOLLOW,
            )?;
        }
        Err(cause) => return Err(cause),
    }
    Ok(had)
}

#[cfg(not(unix))]
pub(super) fn set_folder_mode(
    _folder: &FolderHandle,
    _name: &OsStr,
    _mode: u32,
) -> io::Result<Option<u32>> {
    Ok(None)
}

#[cfg(unix)]
pub(super) fn make_link(path: &Path, target: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(unix))]
pub(super) fn make_link(_path: &Path, _target: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn write_file(
    folder: &FolderHandle,
    name: &OsStr,
    contents: &ContentStore,
    sha256: &str,
    mode: Option<u32>,
) -> io::Result<()> {
    let mut file = folder.create_new_file(name, 0o600)?;
    contents.copy_to_file(sha256, &mut file)?;
    #[cfg(unix)]
    if let Some(mode) = mode {
        super::tree_copy::set_mode(&file, mode)?;
    }
    #[cfg(not(unix))]
    let _ = mode;
    file.sync_all()
}

/// Returns whether this is a file with the content of this hash.
pub(super) fn has_content(folder: &FolderHandle, name: &OsStr, sha256: &str) -> io::Result<bool> {
    Ok(folder.entry_metadata(name)?.is_file()
        && hash_file(&mut folder.open_entry_file(name)?)?.0 == sha256)
}
