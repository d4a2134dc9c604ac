//! How a database file is opened so that nothing in its folder changes. Not here: what a statement may do (guard).
//!
//! For reading, a database in rollback mode is opened read-only where it is. One in WAL mode would get its `-wal` and
//! `-shm` files made by any plain open, so it is opened as immutable when it has no WAL, where it is when both files
//! are there (a program has it open, or left it so), and as a private copy when only the WAL is there. What another
//! program keeps locked, or left in the middle of a transaction, is read from a copy too. For writing it is opened
//! where it is, always: a change of a copy would be lost.
#![expect(clippy::disallowed_methods, reason = "this room looks at database files before SQLite does")]

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use rusqlite::ffi::ErrorCode as Code;
use rusqlite::{Connection, OpenFlags};

use super::guard::{Guard, Scope, is_busy};
use super::interface::Interface;
use super::parked::{Locking, Parked};
use super::snapshot::{Copy, Witness, beside, open_beneath};
use super::trouble::of_file;
use crate::output::figures::size;
use crate::record_locks;
use crate::tool::{ErrorCode, ToolError};

/// How long a reader waits for another program's lock before it reads a copy.
const READER_PATIENCE: Duration = Duration::from_secs(1);
/// The first bytes of every database that is not encrypted.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// An opened database.
pub(super) struct Database {
    pub(super) connection: Connection,
    // After the connection, which uses it.
    _interface: Interface,
    witness: Option<Witness>,
    // After the connection, so that these go once it is closed.
    copied: Option<(Copy, &'static str)>,
    _locking: Locking,
}

/// Where and how databases are opened.
pub(super) struct Opener<'a> {
    /// A private folder for snapshots.
    pub(super) scratch: &'a Path,
    /// Put over every connection before it reads anything.
    pub(super) guard: &'a Guard,
    /// Where looked-through files wait to be closed.
    pub(super) parked: &'a Parked,
    /// The path as the answer shows it.
    pub(super) shown: &'a str,
}

impl Database {
    /// Why it is a private copy, if it is one.
    pub(super) fn copied_for(&self) -> Option<&'static str> {
        self.copied.as_ref().map(|(_, why)| *why)
    }

    /// Whether what was read may be a mixture, because a program wrote while the file was taken for immutable.
    pub(super) fn changed_meanwhile(&self, path: &Path) -> bool {
        self.witness.as_ref().is_some_and(|before| *before != Witness::of(path))
    }
}

impl Opener<'_> {
    /// Opens the file at this absolute path and puts it under guard. The path leads through a folder that is held
    /// open, so that every look at it is a look at the same folder.
    pub(super) fn open(&self, path: &Path) -> Result<Database, ToolError> {
        let wal_mode = self.header(path)?;
        let look = |ending| Beside::look(path, self.shown, ending);
        let (wal, shm) = (look("-wal")?, look("-shm")?);
        look("-journal")?;
        if self.guard.scope() == Scope::Changing {
            self.one_name(path)?;
            return self.direct(path).map_err(|error| of_file(self.shown, self.guard, &error));
        }
        match (wal_mode, wal, shm) {
            (false, Beside::Absent | Beside::Empty, _) => self.direct_or_copied(path),
            (true, Beside::Absent, _) | (true, Beside::Empty, Beside::Absent) => self.immutable(path),
            // The folder may not let us touch the -shm file; a copy does not need it.
            (_, _, Beside::Empty | Beside::Filled) => self.direct_soon(path).or_else(|_| {
                self.copied(path, "its write-ahead log cannot be shared with the programs that use it")
            }),
            (_, Beside::Filled, Beside::Absent) => {
                self.copied(path, "it has a write-ahead log that no program looks after")
            }
        }
    }

    /// Where it is; or a copy of it, where another program's lock or unfinished work is in the way.
    fn direct_or_copied(&self, path: &Path) -> Result<Database, ToolError> {
        match self.direct_soon(path) {
            Err(_) if self.guard.cancelled() => {
                Err(ToolError::cancelled("The query was cancelled before it began."))
            }
            Err(error) if is_busy(&error) => self.copied(path, "another program keeps it locked"),
            Err(error) if error.sqlite_error_code() == Some(Code::ReadOnly) => {
                self.copied(path, "a program was killed in the middle of a change, which the copy leaves out")
            }
            opened => opened.map_err(|error| of_file(self.shown, self.guard, &error)),
        }
    }

    /// A reader need not wait long for a lock: it can read a copy.
    fn direct_soon(&self, path: &Path) -> rusqlite::Result<Database> {
        let before = self.guard.shorten(READER_PATIENCE);
        let opened = self.direct(path);
        self.guard.restore(before);
        opened
    }

    fn direct(&self, path: &Path) -> rusqlite::Result<Database> {
        let access = match self.guard.scope() {
            Scope::Reading => OpenFlags::SQLITE_OPEN_READ_ONLY,
            Scope::Changing => OpenFlags::SQLITE_OPEN_READ_WRITE,
        };
        self.connect(path, access | OpenFlags::SQLITE_OPEN_NOFOLLOW, self.guard.scope() == Scope::Changing)
    }

    /// With `deletes` SQLite may remove the database's journal and log.
    fn connect(&self, name: &Path, flags: OpenFlags, deletes: bool) -> rusqlite::Result<Database> {
        let locking = self.parked.locking();
        record_locks::install();
        let interface = Interface::new(self.guard.ledger(), deletes)?;
        let connection = Connection::open_with_flags_and_vfs(name, flags | PLAIN, interface.name())?;
        self.guard.install(&connection)?;
        // Opening reads nothing yet; this does, so that a file that cannot be read shows now.
        self.guard
            .patiently(|| connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())))?;
        // A database file can ask for a cache, and so for sorts in memory, of any size.
        self.guard.own(|| connection.execute_batch(CACHE))?;
        Ok(Database { connection, _interface: interface, witness: None, copied: None, _locking: locking })
    }

    fn immutable(&self, path: &Path) -> Result<Database, ToolError> {
        let witness = Witness::of(path);
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NOFOLLOW | OpenFlags::SQLITE_OPEN_URI;
        let mut database = self
            .connect(Path::new(&immutable_uri(path)), flags, false)
            .map_err(|error| of_file(self.shown, self.guard, &error))?;
        database.witness = Some(witness);
        Ok(database)
    }

    fn copied(&self, path: &Path, why: &'static str) -> Result<Database, ToolError> {
        let copy = Copy::of(path, self)?;
        // To be written, for what was left unfinished is undone in it first. The guard holds the caller to reading.
        let mut database = self
            .connect(&copy.database(), OpenFlags::SQLITE_OPEN_READ_WRITE, true)
            .map_err(|error| of_file(self.shown, self.guard, &error))?;
        database.copied = Some((copy, why));
        Ok(database)
    }

    /// A file of two names is not written: its journal belongs to one of them, and whoever opens it by the other
    /// would not find what has to be undone.
    fn one_name(&self, path: &Path) -> Result<(), ToolError> {
        if fs::symlink_metadata(path).is_ok_and(|meta| has_other_names(&meta)) {
            return Err(ToolError::new(
                ErrorCode::PolicyDenied,
                format!(
                    "{} has more than one name (a hard link), and SQLite's journal protects only one of them. It is not \
                     written; mode=ro reads it.",
                    self.shown
                ),
            ));
        }
        Ok(())
    }

    /// Whether the file is in WAL mode. Refuses what is no database.
    fn header(&self, path: &Path) -> Result<bool, ToolError> {
        let shown = self.shown;
        let meta = fs::symlink_metadata(path).map_err(|cause| missing(path, shown, &cause))?;
        if meta.is_dir() {
            return Err(folder(shown));
        }
        if !meta.is_file() {
            return Err(ToolError::invalid_args(format!(
                "{shown} is not a regular file, so it is no database."
            )));
        }
        let mut bytes = Vec::with_capacity(100);
        let mut file = open_beneath(path).map_err(|cause| ToolError::io(shown, &cause))?;
        let read = (&mut file).take(100).read_to_end(&mut bytes);
        self.parked.close(file);
        read.map_err(|cause| ToolError::io(shown, &cause))?;
        if bytes.is_empty() {
            // An empty file is a database without tables.
            return Ok(false);
        }
        if !bytes.starts_with(MAGIC) || bytes.len() < 100 {
            let hex: Vec<String> = bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
            return Err(ToolError::new(
                ErrorCode::NotText,
                format!(
                    "{shown} ({}) is not a SQLite database, or it is encrypted: it begins with {}. Use Read for a \
                     text file.",
                    size(meta.len()),
                    hex.join(" ")
                ),
            ));
        }
        Ok(bytes[18] == 2 || bytes[19] == 2)
    }
}

/// A connection belongs to one thread here.
const PLAIN: OpenFlags = OpenFlags::SQLITE_OPEN_NO_MUTEX;
/// What SQLite takes by itself: 2 MB.
const CACHE: &str = "PRAGMA cache_size = -2000";

/// Refuses what lies in the runner's own folder: it is no database of the user's, and a second look at a file that
/// this process holds open would give up its locks.
pub(super) fn not_ours(path: &Path, home: &Path, shown: &str) -> Result<(), ToolError> {
    let home = fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
    if !path.starts_with(&home) {
        return Ok(());
    }
    Err(ToolError::new(
        ErrorCode::PolicyDenied,
        format!(
            "{shown} belongs to punie-runner itself, and SqliteQuery does not open it. `punie-runner status` tells \
                 what the runner does."
        ),
    ))
}

/// The path is that of a folder.
pub(super) fn folder(shown: &str) -> ToolError {
    ToolError::new(
        ErrorCode::IsDirectory,
        format!("{shown} is a folder. Name the database file in it; Glob finds `*.db` and `*.sqlite*`."),
    )
}

fn missing(path: &Path, shown: &str, cause: &io::Error) -> ToolError {
    if cause.kind() != io::ErrorKind::NotFound {
        return ToolError::io(shown, cause);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let folder = path.parent().unwrap_or(path);
    let beside = Path::new(shown).parent().unwrap_or(folder);
    let mut near: Vec<(f64, String)> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .take(2_000)
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .map(|other| (strsim::jaro_winkler(&name, &other), other))
        .filter(|(score, _)| *score > 0.75)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let near: Vec<String> =
        near.into_iter().take(3).map(|(_, other)| beside.join(other).display().to_string()).collect();
    let next = if near.is_empty() {
        "Glob finds `*.db` and `*.sqlite*`.".to_owned()
    } else {
        format!("Did you mean {}?", near.join(" or "))
    };
    ToolError::not_found(format!("There is no file {shown}, and SqliteQuery makes none. {next}"))
}

/// Whether the file has another name than the one by which it was found.
#[cfg(unix)]
fn has_other_names(meta: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(meta) > 1
}

#[cfg(not(unix))]
fn has_other_names(_: &fs::Metadata) -> bool {
    false
}

/// A file beside the database, with the database's name and an ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Absent,
    Empty,
    Filled,
}

impl Beside {
    /// Refuses anything but a regular file of one name: SQLite would follow a link to wherever it leads, and writes to the
    /// index of a log for readers, too.
    fn look(database: &Path, shown: &str, ending: &str) -> Result<Self, ToolError> {
        let path = beside(database, ending);
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_file() && has_other_names(&meta) => Err(ToolError::new(
                ErrorCode::PolicyDenied,
                format!(
                    "{shown}{ending} has more than one name (a hard link): SQLite writes to that file even for a reader, and \
                     would destroy the file of the other name. Remove {shown}{ending}, or copy the database alone."
                ),
            )),
            Ok(meta) if meta.is_file() => Ok(if meta.len() == 0 { Self::Empty } else { Self::Filled }),
            Ok(_) => Err(ToolError::new(
                ErrorCode::PolicyDenied,
                format!(
                    "{shown}{ending} is not a regular file; a database with such a companion is not opened."
                ),
            )),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(Self::Absent),
            Err(cause) => Err(ToolError::io(format!("{shown}{ending}"), &cause)),
        }
    }
}

/// `file:` with every byte that means something in a URI written as `%xx`. Only a proven absolute path gets here.
fn immutable_uri(path: &Path) -> OsString {
    let mut uri = String::from(if cfg!(windows) { "file:///" } else { "file:" });
    for byte in path.as_os_str().as_encoded_bytes() {
        let byte = if cfg!(windows) && *byte == b'\\' { b'/' } else { *byte };
        if byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte) || (cfg!(windows) && byte == b':') {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri.push_str("?immutable=1");
    uri.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_path_cannot_add_options_to_its_uri() {
        assert_eq!(
            immutable_uri(Path::new("/a b/x?mode=rwc#&%41.db")),
            "file:/a%20b/x%3Fmode%3Drwc%23%26%2541.db?immutable=1"
        );
    }
}
