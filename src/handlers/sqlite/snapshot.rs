//! A private copy of a database, for reading one that cannot be read where it is.
#![expect(
    clippy::disallowed_methods,
    reason = "this module copies database files"
)]

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use tokio_util::sync::CancellationToken;

use punie_core::bounded_file::{FinalLink, open_nonblocking};
use punie_host::worker::TempFolder;
use punie_text::output::number_format::{format_size, group_digits};
use punie_tool::{ErrorCode, ToolError};

/// The largest snapshot, in bytes.
const MAX_SNAPSHOT: u64 = 512 << 20;
/// The largest journal in it: SQLite plays it back in one go.
const MAX_JOURNAL: u64 = 128 << 20;
/// The suffixes of a database's files, in the order in which they are copied.
const COPIED_SUFFIXES: [&str; 3] = ["-wal", "-journal", ""];
/// The same with the index of the log, which is made anew.
pub(super) const FILE_SUFFIXES: [&str; 4] = ["", "-journal", "-wal", "-shm"];
/// The name of the copied database.
pub(super) const COPY_NAME: &str = "copy.db";

/// The file with this suffix beside a database.
pub(super) fn with_suffix(database: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(database);
    name.push(suffix);
    PathBuf::from(name)
}

/// The time of a call.
pub(super) struct CallDeadline {
    pub(super) cancel: CancellationToken,
    pub(super) deadline: Instant,
}

impl CallDeadline {
    /// The time that is left.
    pub(super) fn remaining_time(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn has_passed(&self) -> bool {
        self.cancel.is_cancelled() || self.remaining_time().is_zero()
    }
}

/// Sizes and times of a database's files, which show that a program wrote to it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileStamps([Option<(u64, Option<SystemTime>)>; 3]);

impl FileStamps {
    pub(super) fn read(database: &Path) -> Self {
        Self(COPIED_SUFFIXES.map(|suffix| {
            let meta = fs::symlink_metadata(with_suffix(database, suffix)).ok()?;
            Some((meta.len(), meta.modified().ok()))
        }))
    }
}

/// A private copy of a database and its journals, removed when it is dropped.
pub(super) struct DatabaseSnapshot(TempFolder);

impl DatabaseSnapshot {
    /// Copies a database as it is at one moment.
    pub(super) fn copy_database(
        database: &Path,
        shown: &str,
        scratch: &Path,
        time: &CallDeadline,
    ) -> Result<Self, ToolError> {
        let size_of = |suffix| {
            fs::symlink_metadata(with_suffix(database, suffix)).map_or(0, |meta| meta.len())
        };
        let total: u64 = COPIED_SUFFIXES.iter().map(|suffix| size_of(suffix)).sum();
        for (what, bytes, most) in [
            ("", total, MAX_SNAPSHOT),
            (" of its journal", size_of("-journal"), MAX_JOURNAL),
        ] {
            if bytes > most {
                return Err(too_large_error(shown, what, bytes, most));
            }
        }
        let folder = TempFolder::create_below(scratch)
            .map_err(|cause| ToolError::from_io("The folder for a snapshot", &cause))?;
        let snapshot = Self(folder);
        for _ in 0..3 {
            let before = FileStamps::read(database);
            if let Err(cause) = snapshot.copy_files(database, time) {
                return Err(if time.cancel.is_cancelled() {
                    ToolError::call_cancelled("The query was cancelled before it began.")
                } else if time.has_passed() {
                    let text = format!("Copying {shown} took longer than timeout_ms. Raise it.");
                    ToolError::new(ErrorCode::Timeout, text)
                } else {
                    ToolError::from_io(format!("Copying {shown}"), &cause)
                });
            }
            if before == FileStamps::read(database) {
                return Ok(snapshot);
            }
        }
        let text = format!("{shown} is being written all the time. Try again later.");
        Err(ToolError::new(ErrorCode::Busy, text))
    }

    /// The folder, with nothing else in it.
    pub(super) fn folder(&self) -> &Path {
        self.0.path()
    }

    /// The copied database.
    pub(super) fn path(&self) -> PathBuf {
        self.folder().join(COPY_NAME)
    }

    fn copy_files(&self, database: &Path, time: &CallDeadline) -> io::Result<()> {
        let mut budget = MAX_SNAPSHOT;
        for suffix in COPIED_SUFFIXES {
            let target = with_suffix(&self.path(), suffix);
            // An earlier attempt may have found a file that is gone by now.
            let _ = fs::remove_file(&target);
            let from = match open_nonblocking(&with_suffix(database, suffix), FinalLink::Refuse) {
                Ok(file) => file,
                Err(cause) if cause.kind() == io::ErrorKind::NotFound && !suffix.is_empty() => {
                    continue;
                }
                Err(cause) => return Err(cause),
            };
            let most = if suffix == "-journal" {
                budget.min(MAX_JOURNAL)
            } else {
                budget
            };
            let copied = io::copy(
                &mut TimedFile { from, time }.take(most + 1),
                &mut File::create(&target)?,
            )?;
            if copied > most {
                return Err(io::Error::other("it grew past the limit"));
            }
            budget -= copied;
        }
        Ok(())
    }
}

/// A file that is read while there is time.
struct TimedFile<'a> {
    from: File,
    time: &'a CallDeadline,
}

impl Read for TimedFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.time.has_passed() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.from.read(buffer)
    }
}

fn too_large_error(shown: &str, what: &str, bytes: u64, most: u64) -> ToolError {
    ToolError::new(
        ErrorCode::TooLarge,
        format!(
            "{shown} can only be read from a copy now, and {} bytes{what} are more than the {} that are copied. Close the \
             program that uses it, or open and close it once with its own program, and ask again.",
            group_digits(bytes),
            format_size(most)
        ),
    )
}
