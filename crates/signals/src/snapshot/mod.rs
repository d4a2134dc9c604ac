//! Private copies of databases that other programs have open.

#![expect(
    clippy::disallowed_methods,
    reason = "it waits until a database is at rest"
)]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use punie_core::record_locks;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;
use url::Url;

use super::Budget;
use super::file_access::{describe_error, exists, is_absent, open_regular_file};

/// The pages that are copied between two checks of the budget.
const PAGES_PER_STEP: i32 = 256;
/// A larger database is not copied: it is read where it lies, without its log.
pub(crate) const MAX_COPIED_BYTES: u64 = 512 << 20;
/// How long one step waits for the lock of another program, and how many steps do.
const LOCK_WAIT: Duration = Duration::from_millis(200);
const LOCKED_STEPS: u32 = 2;
/// How long files that another program writes are copied anew.
const COPY_PATIENCE: Duration = Duration::from_secs(2);
/// Two changes within this time can have the same time of change in a file system.
const REST_TIME: Duration = Duration::from_millis(20);
/// The longest text or value that a query may meet.
const MAX_VALUE_BYTES: i32 = 16 << 20;
/// The begin of the names of private folders.
const FOLDER_PREFIX: &str = "signals-";
/// The file in a private folder that is locked as long as the folder is used.
const LOCK_FILE: &str = "in-use";

/// A database as it was at one moment, its write-ahead log included. The copy is removed when dropped.
#[derive(Debug)]
pub(crate) struct Snapshot {
    // Closed before its folder is removed: fields are dropped in this order.
    pub database: Connection,
    /// What the snapshot may lack, for people.
    pub problem: Option<String>,
    _folder: Option<PrivateFolder>,
}

impl Snapshot {
    /// Copies the database, by SQLite's backup API where its locks allow that, else file by file.
    ///
    /// # Errors
    /// A text for people: it is missing, damaged, always changing, or the budget ended.
    pub fn take(database: &Path, scratch: &Path, budget: &Budget) -> Result<Self, String> {
        let files = DatabaseFiles::beside(database);
        let state = files.read_state().map_err(|error| describe_error(&error))?;
        if state.total_bytes() > MAX_COPIED_BYTES {
            let problem = format!(
                "the database is larger than {} MB and was not copied: the newest entries may be missing",
                MAX_COPIED_BYTES >> 20
            );
            let database = open_in_place(database).and_then(|open| prepare(open, budget));
            return Ok(Self {
                database: database.map_err(|error| error_text(&error, budget))?,
                problem: Some(problem),
                _folder: None,
            });
        }
        let folder = PrivateFolder::create(scratch)
            .map_err(|error| format!("there is no place for a private copy: {error}"))?;
        let copy = folder.path.path().join("copy.sqlite");
        if !files.can_be_locked(&state) || !back_up(database, &copy, budget)? {
            files.copy_unchanged(&copy, budget)?;
        }
        let opened = open_database(&copy, OpenFlags::SQLITE_OPEN_READ_WRITE);
        let database = opened.and_then(|open| prepare(open, budget));
        Ok(Self {
            database: database.map_err(|error| error_text(&error, budget))?,
            problem: None,
            _folder: Some(folder),
        })
    }
}

/// Says for people why a database could not be read.
pub(crate) fn error_text(error: &rusqlite::Error, budget: &Budget) -> String {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, OperationInterrupted};
    match error.sqlite_error_code() {
        Some(OperationInterrupted) if !budget.has_time() => "its time ended".to_owned(),
        Some(DatabaseCorrupt | NotADatabase) => format!("the database is damaged: {error}"),
        _ => error.to_string(),
    }
}

/// Sets the limits of a database that another program wrote, and reads its schema.
fn prepare(database: Connection, budget: &Budget) -> rusqlite::Result<Connection> {
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    database.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)?;
    database.progress_handler(1000, Some(budget.interrupt_check()))?;
    let read = "SELECT count(*) FROM sqlite_schema";
    database.query_row(read, [], |_| Ok(()))?;
    Ok(database)
}

/// Opens a database of another program without its locks and its log, so that nothing is written beside it.
fn open_in_place(database: &Path) -> rusqlite::Result<Connection> {
    open_by_uri(database, "immutable=1")
}

fn open_by_uri(database: &Path, options: &str) -> rusqlite::Result<Connection> {
    let Ok(mut uri) = Url::from_file_path(database) else {
        return Err(rusqlite::Error::InvalidPath(database.to_owned()));
    };
    uri.set_query(Some(options));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    open_database(Path::new(uri.as_str()), flags)
}

fn open_database(database: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    record_locks::install_lock_calls();
    Connection::open_with_flags(database, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

/// Copies a database by SQLite's backup API. Returns false if the files have to be copied instead, since it is locked or
/// its log cannot be read beside the program that writes it.
fn back_up(database: &Path, copy: &Path, budget: &Budget) -> Result<bool, String> {
    let run = || -> rusqlite::Result<bool> {
        // The index of the log is only read: SQLite would create one otherwise.
        let source = open_by_uri(database, "mode=ro&readonly_shm=1")?;
        source.busy_timeout(LOCK_WAIT)?;
        let new = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut target = open_database(copy, new)?;
        let backup = Backup::new(&source, &mut target)?;
        let mut locked_steps = 0;
        while budget.has_time() {
            match backup.step(PAGES_PER_STEP)? {
                StepResult::Done => return Ok(true),
                StepResult::Busy | StepResult::Locked => {
                    locked_steps += 1;
                    if locked_steps == LOCKED_STEPS {
                        return Ok(false);
                    }
                }
                _ => {}
            }
        }
        Ok(false)
    };
    let is_done = run().unwrap_or(false);
    if is_done || budget.has_time() {
        Ok(is_done)
    } else {
        Err("its time ended".to_owned())
    }
}

struct DatabaseFiles {
    database: PathBuf,
    log: PathBuf,
    log_index: PathBuf,
    journal: PathBuf,
}

/// The first bytes of a database, a log and a journal: they have the numbers that a transaction and a restart of the log
/// change.
const STATE_BYTES: u64 = 100;

/// What tells that a file was written to.
#[derive(PartialEq, Eq)]
struct FileState {
    length: u64,
    modified: SystemTime,
    header: Vec<u8>,
}

impl FileState {
    fn read(path: &Path) -> io::Result<Self> {
        let file = open_regular_file(path)?;
        let metadata = file.metadata()?;
        let mut header = Vec::new();
        file.take(STATE_BYTES).read_to_end(&mut header)?;
        Ok(Self {
            length: metadata.len(),
            modified: metadata.modified()?,
            header,
        })
    }
}

/// The states of the database, its log and its journal.
#[derive(PartialEq, Eq)]
struct FilesState([Option<FileState>; 3]);

impl FilesState {
    fn total_bytes(&self) -> u64 {
        self.0.iter().flatten().map(|file| file.length).sum()
    }

    /// Returns whether the next change will have another time.
    fn is_at_rest(&self) -> bool {
        let now = SystemTime::now();
        // A time in the future is that of another clock.
        let was_written_now = |file: &FileState| {
            now.duration_since(file.modified)
                .is_ok_and(|age| age < REST_TIME)
        };
        !self.0.iter().flatten().any(was_written_now)
    }

    /// Returns whether SQLite keeps a log of the database.
    fn has_log(&self) -> bool {
        /// The offset in the database of the number of its format: 2 for one with a log.
        const READ_FORMAT: usize = 19;
        let database = self.0[0].as_ref();
        database.is_some_and(|database| database.header.get(READ_FORMAT) == Some(&2))
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

impl DatabaseFiles {
    fn beside(database: &Path) -> Self {
        Self {
            log: with_suffix(database, "-wal"),
            log_index: with_suffix(database, "-shm"),
            journal: with_suffix(database, "-journal"),
            database: database.to_owned(),
        }
    }

    fn read_state(&self) -> io::Result<FilesState> {
        let optional = |path: &Path| match FileState::read(path) {
            Err(error) if is_absent(&error) => Ok(None),
            read => read.map(Some),
        };
        Ok(FilesState([
            Some(FileState::read(&self.database)?),
            optional(&self.log)?,
            optional(&self.journal)?,
        ]))
    }

    /// Returns whether SQLite can read the database beside other programs and leave no file behind. It cannot if the
    /// database has a log that no program, or only one with exclusive rights, has open.
    fn can_be_locked(&self, state: &FilesState) -> bool {
        !state.has_log() || exists(&self.log) && exists(&self.log_index)
    }

    /// Copies the files, and again if they changed meanwhile: first the database, since the log or the journal that is read
    /// after it has all that was written to it meanwhile. The log's index is made anew from the log.
    fn copy_unchanged(&self, copy: &Path, budget: &Budget) -> Result<(), String> {
        let copies = Self::beside(copy);
        let started = Instant::now();
        while started.elapsed() < COPY_PATIENCE && budget.has_time() {
            let before = self.read_state().map_err(|error| error.to_string())?;
            if before.is_at_rest() {
                let _ = fs::remove_file(&copies.log_index);
                copy_bounded(&self.database, copy, budget)?;
                copy_bounded(&self.log, &copies.log, budget)?;
                copy_bounded(&self.journal, &copies.journal, budget)?;
                if self.read_state().is_ok_and(|after| after == before) {
                    return Ok(());
                }
            }
            std::thread::sleep(REST_TIME);
        }
        let reason = if budget.has_time() {
            "it is locked, and changed while it was copied: try again later"
        } else {
            "its time ended"
        };
        Err(reason.to_owned())
    }
}

/// Copies a file in parts, so that the budget is checked between them. Removes the copy if the file does not exist.
fn copy_bounded(from: &Path, to: &Path, budget: &Budget) -> Result<(), String> {
    let mut source = match open_regular_file(from) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => {
            let _ = fs::remove_file(to);
            return Ok(());
        }
        Err(error) => return Err(error.to_string()),
    };
    let mut run = || -> io::Result<()> {
        let mut target = File::create(to)?;
        let mut part = vec![0; 1 << 20];
        let mut copied = 0;
        loop {
            let length = source.read(&mut part)?;
            if length == 0 {
                return Ok(());
            }
            target.write_all(&part[..length])?;
            copied += length as u64;
            if copied > MAX_COPIED_BYTES {
                return Err(io::Error::other("it grew too large while it was copied"));
            }
            if !budget.has_time() {
                return Err(io::Error::other("its time ended while it was copied"));
            }
        }
    };
    run().map_err(|error| error.to_string())
}

/// A folder below `scratch` that only this user can open, locked as long as it is used.
#[derive(Debug)]
struct PrivateFolder {
    // Closed before the folder is removed.
    _lock: File,
    path: TempDir,
}

impl PrivateFolder {
    fn create(scratch: &Path) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(FOLDER_PREFIX);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let path = builder.tempdir_in(scratch)?;
        let lock = File::create(path.path().join(LOCK_FILE))?;
        lock.lock()?;
        Ok(Self { _lock: lock, path })
    }
}

/// Removes the private copies below `scratch` that a killed process left. Those in use stay.
///
/// # Errors
/// The folder cannot be listed, or a copy cannot be removed.
pub fn sweep(scratch: &Path) -> io::Result<()> {
    for entry in fs::read_dir(scratch)? {
        let entry = entry?;
        let is_ours = entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(FOLDER_PREFIX.as_bytes());
        if !is_ours || !entry.file_type()?.is_dir() {
            continue;
        }
        let lock = File::open(entry.path().join(LOCK_FILE));
        let is_used = lock.as_ref().is_ok_and(|lock| lock.try_lock().is_err());
        drop(lock);
        if !is_used {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
