//! Integrity checks of a journal's file, and telling damage from other failures.

use std::path::Path;

use rusqlite::{Connection, ErrorCode};

use super::JournalError;

/// Goes through the file's pages.
///
/// # Errors
/// [`JournalError::Corrupt`]; any other: it could not be looked at.
pub(super) fn check_integrity(connection: &Connection, path: &Path) -> Result<(), JournalError> {
    let said: String = connection.query_row("pragma quick_check(1)", [], |row| row.get(0))?;
    if said == "ok" {
        return Ok(());
    }
    Err(JournalError::Corrupt {
        path: path.display().to_string(),
        cause: said,
    })
}

/// Describes a refusal of SQLite's for people.
pub(super) fn describe_refusal(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another process, such as a backup program, keeps the journal locked; try again once it has ended"
                .to_owned()
        }
        _ => format!("the journal could not be read or written: {error}"),
    }
}

/// The state of the file, as an SQLite error tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DatabaseFault {
    /// Nothing.
    Sound,
    /// There is no room.
    Full,
    /// Written data may not be on the disk, and no later sync says so.
    Unsynced,
    /// It is damaged, or cannot be read.
    Damaged,
}

impl DatabaseFault {
    pub(super) fn from_sqlite_error(error: &rusqlite::Error) -> Self {
        use rusqlite::ffi::{
            SQLITE_IOERR_DIR_FSYNC, SQLITE_IOERR_FSYNC, SQLITE_IOERR_READ, SQLITE_IOERR_SHMSIZE,
            SQLITE_IOERR_SHORT_READ, SQLITE_IOERR_WRITE,
        };
        let Some(code) = error.sqlite_error() else {
            return Self::Sound;
        };
        match (code.code, code.extended_code) {
            // The latter two: how a quota and a limit of the process are told.
            (ErrorCode::DiskFull, _) | (_, SQLITE_IOERR_WRITE | SQLITE_IOERR_SHMSIZE) => Self::Full,
            (_, SQLITE_IOERR_FSYNC | SQLITE_IOERR_DIR_FSYNC) => Self::Unsynced,
            (ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase, _)
            | (_, SQLITE_IOERR_READ | SQLITE_IOERR_SHORT_READ) => Self::Damaged,
            _ => Self::Sound,
        }
    }
}

/// Returns whether the file is damaged, as far as this error tells.
pub(super) fn is_corruption(error: &JournalError) -> bool {
    match error {
        JournalError::Corrupt { .. } => true,
        JournalError::Sqlite(cause) | JournalError::Open { cause, .. } => {
            let codes = [ErrorCode::DatabaseCorrupt, ErrorCode::NotADatabase];
            cause
                .sqlite_error_code()
                .is_some_and(|code| codes.contains(&code))
        }
        _ => false,
    }
}
