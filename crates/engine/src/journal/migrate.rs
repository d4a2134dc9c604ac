//! Opening the journal's file in an order that a crash or a power cut may break off anywhere: looking whether it is
//! ours and sound, a backup before its tables change, the change in one transaction, its names made durable.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite_migration::{M, Migrations};

use super::{JournalError, backup, file_replace, integrity};
use punie_core::durable::sync_parent_folder;
use punie_core::{lock_wait, record_locks};

/// Up to this size, in bytes, a file is checked at every start; a larger one when it was not closed.
const CHECKED: u64 = 16 << 20;

/// The tables' versions. A shipped one is never edited.
const STEPS: &[&str] = &[
    include_str!("../../../../migrations/journal/0001_requests.sql"),
    include_str!("../../../../migrations/journal/0002_shells.sql"),
    include_str!("../../../../migrations/journal/0003_life.sql"),
    include_str!("../../../../migrations/journal/0004_signature.sql"),
    include_str!("../../../../migrations/journal/0005_backends.sql"),
    include_str!("../../../../migrations/journal/0006_periodic.sql"),
    include_str!("../../../../migrations/journal/0007_task_names.sql"),
    include_str!("../../../../migrations/journal/0008_titles.sql"),
    include_str!("../../../../migrations/journal/0009_denials.sql"),
    include_str!("../../../../migrations/journal/0010_caller.sql"),
    include_str!("../../../../migrations/journal/0011_session.sql"),
];

/// The version that this program reads and writes.
pub(super) const VERSION: usize = STEPS.len();

fn schema_migrations() -> Migrations<'static> {
    let step = |sql| {
        M::up_with_hook(sql, |_: &rusqlite::Transaction<'_>| {
            punie_core::failpoint::reach("journal.migrating");
            Ok(())
        })
    };
    Migrations::new(STEPS.iter().copied().map(step).collect())
}

/// Creates a file with all tables, for the rows recovered from a broken one.
pub(super) fn create_database(path: &Path) -> Result<Connection, JournalError> {
    let mut connection = open_connection(path)?;
    apply_migrations(&mut connection, path)?;
    Ok(connection)
}

/// Opens the file, checked where it may be damaged and brought up to date. A suspicious one is checked in any case.
pub(super) fn open_checked(path: &Path, suspicious: bool) -> Result<Connection, JournalError> {
    let unclean = file_replace::sibling_path(path, "-wal")
        .metadata()
        .is_ok_and(|log| log.len() > 0);
    let small = path.metadata().is_ok_and(|file| file.len() <= CHECKED);
    let mut connection = open_connection(path)?;
    // Closing a file that is not ours to touch must not write its log into it.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .map_err(JournalError::cannot_open(path))?;
    let version: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(JournalError::cannot_open(path))?;
    let version = usize::try_from(version).unwrap_or(usize::MAX);
    if version > STEPS.len() {
        return Err(JournalError::Newer {
            path: path.display().to_string(),
        });
    }
    if suspicious || unclean || small {
        integrity::check_integrity(&connection, path)?;
    }
    check_schema(&connection, path, version)?;
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
        .map_err(JournalError::cannot_open(path))?;
    if version < STEPS.len() {
        apply_pragmas(&connection).map_err(JournalError::cannot_open(path))?;
        if version > 0 {
            let backup = backup::create_backup(&connection, path, version)?;
            tracing::info!(backup = %backup.display(), "the journal is brought up to date; it is kept as it was");
        }
        apply_migrations(&mut connection, path)?;
        connection = sync_wal_switch(connection, path)?;
    }
    apply_pragmas(&connection).map_err(JournalError::cannot_open(path))?;
    // Also if an earlier run was cut off before it came to this.
    sync_parent_folder(path).map_err(JournalError::cannot_write(path))?;
    Ok(connection)
}

/// Compares the stored schema with the one that the migrations up to this version make: a page may be sound for SQLite and
/// have other names in it than were written. What somebody added stays.
///
/// # Errors
/// [`JournalError::Corrupt`] for a difference.
pub(super) fn check_schema(
    connection: &Connection,
    path: &Path,
    version: usize,
) -> Result<(), JournalError> {
    let mut made = Connection::open_in_memory()?;
    Migrations::new(STEPS.iter().copied().map(M::up).collect())
        .to_version(&mut made, version)
        .map_err(|cause| JournalError::Migrate {
            path: path.display().to_string(),
            cause: cause.to_string(),
        })?;
    let stored = read_schema(connection)?;
    match read_schema(&made)?
        .into_iter()
        .find(|object| !stored.contains(object))
    {
        None => Ok(()),
        Some([kind, name, ..]) => Err(JournalError::Corrupt {
            path: path.display().to_string(),
            cause: format!(
                "its stored schema differs in {} {}",
                kind.escape_ascii(),
                name.escape_ascii()
            ),
        }),
    }
}

/// Reads the kind, the name, the table and the text of each table and index, as bytes: damage need not be UTF-8. Blanks and
/// quotes are left out, for another version of SQLite may write them in another way where a migration alters a table.
fn read_schema(connection: &Connection) -> rusqlite::Result<HashSet<[Vec<u8>; 4]>> {
    let sql = "select type, name, tbl_name, sql from sqlite_schema where sql is not null";
    let mut statement = connection.prepare(sql)?;
    let objects = statement.query_map([], |row| {
        let read = |at: usize| -> rusqlite::Result<Vec<u8>> {
            let bytes = row.get_ref(at)?.as_bytes().unwrap_or_default();
            let is_kept = |byte: &u8| !byte.is_ascii_whitespace() && *byte != b'"';
            Ok(bytes.iter().copied().filter(is_kept).collect())
        };
        Ok([read(0)?, read(1)?, read(2)?, read(3)?])
    })?;
    objects.collect()
}

fn apply_migrations(connection: &mut Connection, path: &Path) -> Result<(), JournalError> {
    // A file that is just made becomes durable step by step: what SQLite unlinks on the way must stay gone.
    connection
        .pragma_update(None, "synchronous", "extra")
        .map_err(JournalError::cannot_open(path))?;
    schema_migrations()
        .to_latest(connection)
        .map_err(|cause| JournalError::Migrate {
            path: path.display().to_string(),
            cause: cause.to_string(),
        })
}

/// The journal's ways with its file.
fn apply_pragmas(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // The writer does it itself: SQLite would keep a failed sync to itself.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", 8 << 20)?;
    if cfg!(target_os = "macos") {
        connection.pragma_update(None, "fullfsync", true)?;
        connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    }
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// The switch to WAL unlinks a rollback journal. Until that unlink is durable, a power cut could bring the journal
/// back and undo everything since; so a new file and its folder are synced before the first promise.
fn sync_wal_switch(connection: Connection, path: &Path) -> Result<Connection, JournalError> {
    // Closed first: closing a file that SQLite has open takes SQLite's locks with it.
    drop(connection);
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(JournalError::cannot_write(path))?;
    sync_parent_folder(path).map_err(JournalError::cannot_write(path))?;
    open_connection(path)
}

fn open_connection(path: &Path) -> Result<Connection, JournalError> {
    record_locks::install_lock_calls();
    let connection = Connection::open(path).map_err(JournalError::cannot_open(path))?;
    lock_wait::wait_for_unlock(&connection, path).map_err(JournalError::cannot_open(path))?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::super::open_journal::open_for_writing;
    use super::*;

    #[test]
    fn the_migrations_are_valid() {
        schema_migrations().validate().expect("valid");
    }

    #[test]
    fn a_newer_file_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal.sqlite3");
        let connection = Connection::open(&path).expect("opens");
        connection
            .pragma_update(None, "user_version", 99)
            .expect("sets");
        drop(connection);
        let before = std::fs::read(&path).expect("reads");
        assert!(matches!(
            open_for_writing(&path, false),
            Err(JournalError::Newer { .. })
        ));
        assert_eq!(std::fs::read(&path).expect("reads"), before);
    }
}
