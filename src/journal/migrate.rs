//! Opening the journal's file and bringing it up to date. Not here: what is done with it.
#![expect(
    clippy::disallowed_methods,
    reason = "this room owns the journal's file and makes its folder durable"
)]

use std::fs::File;
use std::path::Path;

use rusqlite::Connection;
use rusqlite_migration::{M, Migrations};

use super::JournalError;

const STEPS: &[M<'static>] = &[
    M::up(include_str!("../../migrations/journal/0001_requests.sql")),
    M::up(include_str!("../../migrations/journal/0002_shells.sql")),
    M::up(include_str!("../../migrations/journal/0003_life.sql")),
];
const MIGRATIONS: Migrations<'static> = Migrations::from_slice(STEPS);

pub(super) fn open(path: &Path) -> Result<Connection, JournalError> {
    let shown = || path.display().to_string();
    let failed = |cause| JournalError::Open { path: shown(), cause };
    let fresh = !path.exists();
    let mut connection = Connection::open(path).map_err(failed)?;
    let version: i64 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    if usize::try_from(version).is_ok_and(|version| version > STEPS.len()) {
        return Err(JournalError::Newer { path: shown() });
    }
    settings(&connection).map_err(failed)?;
    MIGRATIONS
        .to_latest(&mut connection)
        .map_err(|cause| JournalError::Migrate { path: shown(), cause: cause.to_string() })?;
    if fresh {
        connection = settle_creation(connection, path).map_err(failed)?;
    }
    Ok(connection)
}

fn settings(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", 1000)?;
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
fn settle_creation(connection: Connection, path: &Path) -> rusqlite::Result<Connection> {
    drop(connection);
    let synced = File::open(path).and_then(|file| file.sync_all());
    if let (Ok(()), Some(folder)) = (synced, path.parent()) {
        // A folder that cannot be synced (some network file systems) costs the guarantee, not the start.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
    let connection = Connection::open(path)?;
    settings(&connection)?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_migrations_are_valid() {
        MIGRATIONS.validate().expect("valid");
    }

    #[test]
    fn a_newer_file_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal.sqlite3");
        let connection = Connection::open(&path).expect("opens");
        connection.pragma_update(None, "user_version", 99).expect("sets");
        drop(connection);
        let before = std::fs::read(&path).expect("reads");
        assert!(matches!(open(&path), Err(JournalError::Newer { .. })));
        assert_eq!(std::fs::read(&path).expect("reads"), before);
    }
}
