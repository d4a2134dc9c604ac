//! The database file that SqliteQuery is asked for, checked by the runner before a worker opens it.
//!
//! Reading changes nothing in the folder. A database in rollback mode is read where it is. One in WAL mode would get its
//! `-wal` and `-shm` files from any plain open. So without a WAL it is read as immutable; with both files where it is,
//! for a program has it open; and with a WAL alone from a private copy. A change is always made in place.
#![expect(
    clippy::disallowed_methods,
    reason = "this module looks at database files"
)]

use std::fs::{self, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::snapshot::with_suffix;
use super::worker_protocol::OpenMode;
use punie_core::bounded_file::{FinalLink, open_nonblocking};
use punie_core::durable::allow_missing;
use punie_core::file_metadata::file_identity;
use punie_text::output::number_format::format_size;
use punie_tool::{ErrorCode, ToolError};

/// The first bytes of every database that is not encrypted.
const DATABASE_MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// The first bytes of a rollback journal that is not over, and its last ones where it names a super-journal.
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// The longest name of a super-journal that is read.
const MAX_NAME: u32 = 4096;

/// A way to read a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadMethod {
    Opened(OpenMode),
    /// In place; where that fails for any reason, from a copy.
    SharedLog,
    Copied(&'static str),
}

/// A database file that may be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DatabaseFile {
    /// Device and inode, where the system tells.
    pub(super) id: Option<(u64, u64)>,
    pub(super) way: ReadMethod,
}

impl DatabaseFile {
    /// Checks the file at this path, which leads through a folder that is held open.
    pub(super) fn check(path: &Path, shown: &str, is_changed: bool) -> Result<Self, ToolError> {
        let meta =
            fs::symlink_metadata(path).map_err(|cause| missing_file_error(path, shown, &cause))?;
        let is_wal = read_header(path, shown, &meta)?;
        let wal = CompanionFile::check(path, shown, "-wal")?;
        let index = CompanionFile::check(path, shown, "-shm")?;
        CompanionFile::check(path, shown, "-journal")?;
        if is_changed && has_other_names(&meta) {
            return Err(access_denied(format!(
                "{shown} has more than one name (a hard link), and SQLite's journal protects only one of them. It is not \
                 written; mode=ro reads it."
            )));
        }
        let way = match (is_wal, wal, index) {
            _ if is_changed => ReadMethod::Opened(OpenMode::Change),
            (false, CompanionFile::Absent | CompanionFile::Empty, _) => {
                ReadMethod::Opened(OpenMode::InPlace)
            }
            (true, CompanionFile::Absent, _)
            | (true, CompanionFile::Empty, CompanionFile::Absent) => {
                ReadMethod::Opened(OpenMode::Immutable)
            }
            // The folder may not let us touch the -shm file; a copy does not need it.
            (_, _, CompanionFile::Empty | CompanionFile::Filled) => ReadMethod::SharedLog,
            (_, CompanionFile::Filled, CompanionFile::Absent) => {
                ReadMethod::Copied("it has a write-ahead log that no program looks after")
            }
        };
        Ok(Self {
            id: file_identity(&meta),
            way,
        })
    }
}

/// Returns whether the database is in WAL mode. Refuses a file that is not a database.
fn read_header(path: &Path, shown: &str, meta: &Metadata) -> Result<bool, ToolError> {
    if meta.is_dir() {
        return Err(folder_refusal(shown));
    }
    if !meta.is_file() {
        return Err(ToolError::invalid_args(format!(
            "{shown} is not a regular file, so it is no database."
        )));
    }
    let mut bytes = Vec::with_capacity(100);
    let read = open_nonblocking(path, FinalLink::Refuse)
        .and_then(|file| file.take(100).read_to_end(&mut bytes));
    read.map_err(|cause| ToolError::from_io(shown, &cause))?;
    if bytes.is_empty() {
        // An empty file is a database without tables.
        return Ok(false);
    }
    if !bytes.starts_with(DATABASE_MAGIC) || bytes.len() < 100 {
        let hex: Vec<String> = bytes
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        return Err(ToolError::new(
            ErrorCode::NotText,
            format!(
                "{shown} ({}) is not a SQLite database, or it is encrypted: it begins with {}. Use Read for a \
                 text file.",
                format_size(meta.len()),
                hex.join(" ")
            ),
        ));
    }
    Ok(bytes[18] == 2 || bytes[19] == 2)
}

/// The file that an unfinished journal of this database names: its super-journal, which SQLite would read and delete to
/// finish the transaction. The layout is that of "The Rollback Journal" in SQLite's description of its file format.
pub(super) fn find_super_journal(database: &Path) -> io::Result<Option<String>> {
    let opened = open_nonblocking(&with_suffix(database, "-journal"), FinalLink::Refuse);
    let Some(mut journal) = allow_missing(opened)? else {
        return Ok(None);
    };
    // Its end: the name, the name's length, a checksum, the magic.
    let mut head = [0; 8];
    let mut tail = [0; 16];
    if journal.metadata()?.len() < 24 {
        return Ok(None);
    }
    journal.read_exact(&mut head)?;
    journal.seek(SeekFrom::End(-16))?;
    journal.read_exact(&mut tail)?;
    let length = u32::from_be_bytes([tail[0], tail[1], tail[2], tail[3]]);
    if head != JOURNAL_MAGIC || tail[8..] != JOURNAL_MAGIC || length == 0 || length > MAX_NAME {
        return Ok(None);
    }
    let mut name = Vec::new();
    journal.seek(SeekFrom::End(-16 - i64::from(length)))?;
    journal.take(u64::from(length)).read_to_end(&mut name)?;
    Ok(Some(String::from_utf8_lossy(&name).into_owned()))
}

/// The refusal of a database whose journal names another file.
pub(super) fn super_journal_refusal(shown: &str, name: &str) -> ToolError {
    let name: String = name
        .chars()
        .take(300)
        .flat_map(char::escape_debug)
        .collect();
    access_denied(format!(
        "{shown} can be neither read nor changed now: its journal, {shown}-journal, belongs to a transaction over \
         several databases that was not finished, and names another file, {name}. To finish it SQLite would read and \
         delete that file, which SqliteQuery does for no file but the database's own. Nothing was changed. Do \
         not open it with the sqlite3 command either, and tell the user: if one of their programs left that journal, \
         opening and closing the database once with its own program finishes the transaction; if none did, somebody \
         may have made it so that the other file is deleted."
    ))
}

fn access_denied(text: String) -> ToolError {
    ToolError::new(ErrorCode::PolicyDenied, text)
}

/// Refuses files in the runner's own folder: they are not the user's databases.
pub(super) fn check_not_own(path: &Path, home: &Path, shown: &str) -> Result<(), ToolError> {
    let home = fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
    if !path.starts_with(&home) {
        return Ok(());
    }
    Err(access_denied(format!(
        "{shown} belongs to punie-runner itself, and SqliteQuery does not open it. `punie-runner status` tells \
         what the runner does."
    )))
}

/// The refusal of a folder in the place of a database.
pub(super) fn folder_refusal(shown: &str) -> ToolError {
    ToolError::new(
        ErrorCode::IsDirectory,
        format!(
            "{shown} is a folder. Name the database file in it; Glob finds `*.db` and `*.sqlite*`."
        ),
    )
}

fn missing_file_error(path: &Path, shown: &str, cause: &io::Error) -> ToolError {
    if cause.kind() != io::ErrorKind::NotFound {
        return ToolError::from_io(shown, cause);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
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
    near.truncate(3);
    let paths = near.iter().map(|(_, other)| beside.join(other));
    let near: Vec<String> = paths.map(|path| path.display().to_string()).collect();
    let next = if near.is_empty() {
        "Glob finds `*.db` and `*.sqlite*`.".to_owned()
    } else {
        format!("Did you mean {}?", near.join(" or "))
    };
    ToolError::not_found(format!(
        "There is no file {shown}, and SqliteQuery makes none. {next}"
    ))
}

/// Returns whether the file has a second name (hard link).
#[cfg(unix)]
fn has_other_names(meta: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(meta) > 1
}

#[cfg(not(unix))]
fn has_other_names(_: &Metadata) -> bool {
    false
}

/// A file beside the database, with the database's name and a suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompanionFile {
    Absent,
    Empty,
    Filled,
}

impl CompanionFile {
    /// Refuses anything but a regular file of one name: SQLite writes to the index of a log for readers, too.
    fn check(database: &Path, shown: &str, suffix: &str) -> Result<Self, ToolError> {
        match fs::symlink_metadata(with_suffix(database, suffix)) {
            Ok(meta) if meta.is_file() && has_other_names(&meta) => Err(access_denied(format!(
                "{shown}{suffix} has more than one name (a hard link): SQLite writes to that file even for a reader, and \
                 would destroy the file of the other name. Remove {shown}{suffix}, or copy the database alone."
            ))),
            Ok(meta) if meta.is_file() => Ok(if meta.len() == 0 {
                Self::Empty
            } else {
                Self::Filled
            }),
            Ok(_) => Err(access_denied(format!(
                "{shown}{suffix} is not a regular file; a database with such a companion is not opened."
            ))),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(Self::Absent),
            Err(cause) => Err(ToolError::from_io(format!("{shown}{suffix}"), &cause)),
        }
    }
}
