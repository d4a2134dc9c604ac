//! A private copy of a database for reading what cannot be read where it is, and what shows that a file was written
//! meanwhile. Not here: when a copy is made (databases).
#![expect(clippy::disallowed_methods, reason = "this room looks at database files before SQLite does")]

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::databases::Opener;
use super::guard::Guard;
use crate::output::figures::{grouped, size};
use crate::tool::{ErrorCode, ToolError};

/// A snapshot larger than this is not made.
const MAX_SNAPSHOT: u64 = 512 << 20;
/// Nor one with a larger journal: SQLite plays it back in one go.
const MAX_JOURNAL: u64 = 128 << 20;
/// What belongs to a database, in the order in which it is copied.
const PARTS: [&str; 3] = ["-wal", "-journal", ""];

/// The file of this ending beside a database.
pub(super) fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(database);
    name.push(ending);
    PathBuf::from(name)
}

/// What shows that a database was written: size and time of its file, its WAL and its journal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Witness([Option<(u64, Option<std::time::SystemTime>)>; 3]);

impl Witness {
    pub(super) fn of(database: &Path) -> Self {
        Self(PARTS.map(|ending| {
            let meta = fs::symlink_metadata(beside(database, ending)).ok()?;
            Some((meta.len(), meta.modified().ok()))
        }))
    }
}

/// A private copy of a database with what belongs to it, removed when it is dropped.
pub(super) struct Copy {
    folder: PathBuf,
}

impl Copy {
    /// Copies a database as it is at one moment.
    pub(super) fn of(path: &Path, opener: &Opener<'_>) -> Result<Self, ToolError> {
        let shown = opener.shown;
        let size_of = |ending| fs::symlink_metadata(beside(path, ending)).map_or(0, |meta| meta.len());
        let total: u64 = PARTS.iter().map(|ending| size_of(ending)).sum();
        for (what, bytes, most) in
            [("", total, MAX_SNAPSHOT), (" of its journal", size_of("-journal"), MAX_JOURNAL)]
        {
            if bytes > most {
                return Err(too_large(shown, what, bytes, most));
            }
        }
        let copy = Self::folder(opener.scratch)
            .map_err(|cause| ToolError::io("The folder for a snapshot", &cause))?;
        for _ in 0..3 {
            let before = Witness::of(path);
            if let Err(cause) = copy.fill(path, opener) {
                return Err(if opener.guard.cancelled() {
                    ToolError::cancelled("The query was cancelled before it began.")
                } else if opener.guard.over() {
                    let text = format!("Copying {shown} took longer than timeout_ms. Raise it.");
                    ToolError::new(ErrorCode::Timeout, text)
                } else {
                    ToolError::io(format!("Copying {shown}"), &cause)
                });
            }
            if before == Witness::of(path) {
                return Ok(copy);
            }
        }
        Err(ToolError::new(
            ErrorCode::Busy,
            format!("{shown} is being written all the time. Try again later."),
        ))
    }

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

    /// Where the copy is.
    pub(super) fn database(&self) -> PathBuf {
        self.folder.join("copy.db")
    }

    fn fill(&self, path: &Path, opener: &Opener<'_>) -> io::Result<()> {
        let mut budget = MAX_SNAPSHOT;
        for ending in PARTS {
            let target = beside(&self.database(), ending);
            // An earlier attempt may have found a part that is gone by now.
            let _ = fs::remove_file(&target);
            let mut from = match open_beneath(&beside(path, ending)) {
                Ok(file) => file,
                Err(cause) if cause.kind() == io::ErrorKind::NotFound && !ending.is_empty() => continue,
                Err(cause) => return Err(cause),
            };
            let mut to = File::create(&target)?;
            let most = if ending == "-journal" { budget.min(MAX_JOURNAL) } else { budget };
            let stoppable = Stoppable { from: &mut from, guard: opener.guard };
            let copied = io::copy(&mut stoppable.take(most + 1), &mut to);
            opener.parked.close(from);
            let copied = copied?;
            if copied > most {
                return Err(io::Error::other("it grew past the limit"));
            }
            budget -= copied;
        }
        Ok(())
    }
}

/// A file that is read for as long as its call may take.
struct Stoppable<'a> {
    from: &'a mut File,
    guard: &'a Guard,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.guard.over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.from.read(to)
    }
}

fn too_large(shown: &str, what: &str, bytes: u64, most: u64) -> ToolError {
    ToolError::new(
        ErrorCode::TooLarge,
        format!(
            "{shown} can only be read from a copy now, and {} bytes{what} are more than the {} that are copied. Close the \
             program that uses it, or open and close it once with its own program, and ask again.",
            grouped(bytes),
            size(most)
        ),
    )
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
pub(super) fn open_beneath(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    OpenOptions::new().read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0)).open(path)
}

#[cfg(not(unix))]
pub(super) fn open_beneath(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}
