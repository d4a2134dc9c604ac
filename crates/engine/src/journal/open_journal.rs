//! Opens the journal for writing; a damaged file is replaced first.

use std::path::Path;

use rusqlite::Connection;

use super::{JournalError, corruption_recovery, file_replace, integrity, migrate};

/// Opens the file for writing, made, mended and brought up to date where needed. A suspicious one is looked at in
/// any case.
pub(super) fn open_for_writing(path: &Path, suspicious: bool) -> Result<Connection, JournalError> {
    file_replace::finish_replacement(path).map_err(JournalError::cannot_write(path))?;
    match migrate::open_checked(path, suspicious) {
        Err(error) if integrity::is_corruption(&error) => {
            corruption_recovery::replace_damaged(path, &error)?;
            migrate::open_checked(path, false)
        }
        opened => opened,
    }
}
