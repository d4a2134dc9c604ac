//! A copy of the journal before its tables are changed, to go back to the previous version. Made whole and checked, or
//! the change does not happen.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::{JournalError, file_replace, integrity};
use punie_core::durable::sync_parent_folder;
use punie_core::record_locks;

/// Returns the path for the journal of this version.
fn backup_path(path: &Path, version: usize) -> PathBuf {
    file_replace::sibling_path(path, &format!(".v{version}"))
}

/// Copies the database into a file of its own, synced and checked. Deletes the copy of an earlier version.
pub(super) fn create_backup(
    connection: &Connection,
    path: &Path,
    version: usize,
) -> Result<PathBuf, JournalError> {
    let backup = backup_path(path, version);
    let failed = |cause| JournalError::cannot_write(&backup)(cause);
    let draft = file_replace::prepare_draft(path).map_err(failed)?;
    copy_database(connection, &draft)?;
    record_locks::install_lock_calls();
    let copied = Connection::open_with_flags(&draft, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    integrity::check_integrity(&copied, &draft)?;
    drop(copied);
    std::fs::rename(&draft, &backup).map_err(failed)?;
    sync_parent_folder(path).map_err(failed)?;
    for older in 1..version {
        // One that stays takes room, and nothing else.
        let _ = file_replace::remove_database_files(&backup_path(path, older));
    }
    Ok(backup)
}

/// Writes the database as the connection sees it to a new file, and syncs that.
pub(super) fn copy_database(connection: &Connection, to: &Path) -> Result<(), JournalError> {
    connection.execute("vacuum into ?", [to.to_string_lossy()])?;
    File::open(to)
        .and_then(|file| file.sync_all())
        .map_err(JournalError::cannot_write(to))
}
