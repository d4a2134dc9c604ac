//! How a database file is opened so that nothing in its folder changes. Not here: what a statement may do (guard).
//!
//! A database in rollback mode is opened read-only where it is. One in WAL mode would get its `-wal` and `-shm`
//! files made by any plain open, so it is opened as immutable when it has no WAL, where it is when both files are
//! there (a program has it open, or left it so), and as a private copy when only the WAL is there.
#![expect(clippy::disallowed_methods, reason = "this room looks at database files before SQLite does")]

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::guard::Guard;
use super::parked::{Locking, Parked};
use super::trouble::of_file;
use crate::output::figures::{grouped, size};
use crate::tool::{ErrorCode, ToolError};

/// A snapshot larger than this is not made.
const MAX_SNAPSHOT: u64 = 512 << 20;
/// The first bytes of every database that is not encrypted.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// An opened database.
pub(super) struct Database {
    pub(super) connection: Connection,
    witness: Option<Witness>,
    // After the connection, so that these go once it is closed.
    copy: Option<Copy>,
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
    /// Whether it is a private copy.
    pub(super) fn is_snapshot(&self) -> bool {
        self.copy.is_some()
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
        let direct =
            || self.connect(|| in_place(path.as_os_str(), plain_flags() | OpenFlags::SQLITE_OPEN_NOFOLLOW));
        match (wal_mode, wal, shm) {
            (false, Beside::Absent | Beside::Empty, _) => {
                direct().map_err(|error| of_file(self.shown, &error))
            }
            (true, Beside::Absent, _) | (true, Beside::Empty, Beside::Absent) => self.immutable(path),
            // The folder may not let us touch the -shm file; a copy does not need it.
            (_, _, Beside::Empty | Beside::Filled) => direct().or_else(|_| self.copied(path)),
            (_, Beside::Filled, Beside::Absent) => self.copied(path),
        }
    }

    fn connect(&self, open: impl Fn() -> rusqlite::Result<Connection>) -> rusqlite::Result<Database> {
        let locking = self.parked.locking();
        let connection = open()?;
        self.guard.install(&connection)?;
        // Opening reads nothing yet; this does, so that a file that cannot be read shows now.
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(Database { connection, witness: None, copy: None, _locking: locking })
    }

    fn immutable(&self, path: &Path) -> Result<Database, ToolError> {
        let witness = Witness::of(path);
        let flags = plain_flags() | OpenFlags::SQLITE_OPEN_NOFOLLOW | OpenFlags::SQLITE_OPEN_URI;
        let mut database = self
            .connect(|| in_place(&immutable_uri(path), flags))
            .map_err(|error| of_file(self.shown, &error))?;
        database.witness = Some(witness);
        Ok(database)
    }

    fn copied(&self, path: &Path) -> Result<Database, ToolError> {
        let copy = self.copy(path)?;
        let mut database = self
            .connect(|| Connection::open_with_flags(copy.database(), plain_flags()))
            .map_err(|error| of_file(self.shown, &error))?;
        database.copy = Some(copy);
        Ok(database)
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

    fn copy(&self, path: &Path) -> Result<Copy, ToolError> {
        let shown = self.shown;
        let total: u64 = [path.to_owned(), beside(path, "-wal")]
            .iter()
            .filter_map(|file| fs::symlink_metadata(file).ok())
            .map(|meta| meta.len())
            .sum();
        if total > MAX_SNAPSHOT {
            return Err(ToolError::new(
                ErrorCode::TooLarge,
                format!(
                    "{shown} has a write-ahead log that no program looks after, so it can only be read from a copy, and \
                     {} bytes are more than the {} that are copied. Open and close it once with its own program.",
                    grouped(total),
                    size(MAX_SNAPSHOT)
                ),
            ));
        }
        let copy =
            Copy::folder(self.scratch).map_err(|cause| ToolError::io("The folder for a snapshot", &cause))?;
        for _ in 0..3 {
            let before = Witness::of(path);
            copy.fill(path, self.parked)
                .map_err(|cause| ToolError::io(format!("Copying {shown}"), &cause))?;
            if before == Witness::of(path) {
                return Ok(copy);
            }
        }
        Err(ToolError::new(
            ErrorCode::Busy,
            format!("{shown} is being written all the time. Try again later."),
        ))
    }
}

fn plain_flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

/// Opens a database where it is.
#[cfg(target_os = "linux")]
fn in_place(name: &OsStr, flags: OpenFlags) -> rusqlite::Result<Connection> {
    Connection::open_with_flags_and_vfs(Path::new(name), flags, super::held_names::interface()?)
}

#[cfg(not(target_os = "linux"))]
fn in_place(name: &OsStr, flags: OpenFlags) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(Path::new(name), flags)
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
    ToolError::not_found(format!("There is no file {shown}. {next}"))
}

/// A file beside the database, with the database's name and an ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Absent,
    Empty,
    Filled,
}

impl Beside {
    /// Refuses anything but a regular file: SQLite would follow a link to wherever it leads.
    fn look(database: &Path, shown: &str, ending: &str) -> Result<Self, ToolError> {
        let path = beside(database, ending);
        match fs::symlink_metadata(&path) {
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

fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(database);
    name.push(ending);
    PathBuf::from(name)
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

/// What shows that a file was written: its size and time, and the size of its WAL.
#[derive(Debug, PartialEq, Eq)]
struct Witness([Option<(u64, Option<std::time::SystemTime>)>; 2]);

impl Witness {
    fn of(database: &Path) -> Self {
        Self(
            [database.to_owned(), beside(database, "-wal")]
                .map(|path| fs::symlink_metadata(path).ok().map(|meta| (meta.len(), meta.modified().ok()))),
        )
    }
}

/// A private copy of a database and its WAL, removed when it is dropped.
struct Copy {
    folder: PathBuf,
}

impl Copy {
    fn folder(scratch: &Path) -> io::Result<Self> {
        fs::create_dir_all(scratch)?;
        let folder = scratch.join(format!("snapshot-{}", uuid::Uuid::new_v4()));
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        {
            use std::os::unix::fs::DirBuilderExt;
            builder.mode(0o700);
        }
        builder.create(&folder)?;
        Ok(Self { folder })
    }

    fn database(&self) -> PathBuf {
        self.folder.join("copy.db")
    }

    fn fill(&self, path: &Path, parked: &Parked) -> io::Result<()> {
        let mut budget = MAX_SNAPSHOT;
        for ending in ["-wal", ""] {
            let mut from = match open_beneath(&beside(path, ending)) {
                Ok(file) => file,
                Err(cause) if cause.kind() == io::ErrorKind::NotFound && !ending.is_empty() => continue,
                Err(cause) => return Err(cause),
            };
            let mut to = File::create(beside(&self.database(), ending))?;
            let copied = io::copy(&mut (&mut from).take(budget + 1), &mut to);
            parked.close(from);
            budget = budget.checked_sub(copied?).ok_or_else(|| io::Error::other("it grew past the limit"))?;
        }
        Ok(())
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if let Err(cause) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(%cause, "a database snapshot could not be removed");
        }
    }
}

/// Opens without following a link and without waiting for a pipe's other end.
#[cfg(unix)]
fn open_beneath(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    OpenOptions::new().read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0)).open(path)
}

#[cfg(not(unix))]
fn open_beneath(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
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
