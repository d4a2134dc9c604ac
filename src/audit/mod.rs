//! The audit: what was asked of this device, what was decided about it and what came of it, as rows of a file that is
//! only added to. Each row holds the hash of the one before, so that an edit, a gap or another order is found at the
//! row. No arguments and no results. Not here: when a row is written (runner, cli) and what it is shown as (cli).

#![expect(clippy::disallowed_methods, reason = "this room owns the audit's files and those beside them")]

mod chain;
mod entry;
mod head;
mod lines;
mod log;
mod proof;
mod retain;
mod row;
mod verify;

pub use entry::{Decision, Entry, Event, Who, hash_of};
pub use head::Head;
pub use log::{Audit, Keep, Sign, append_now};
pub use row::Link;
pub use verify::{Fault, Flaw, Report, Signed, verify, walk};

use std::path::{Path, PathBuf};

/// The audit's files of one home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The rows, one JSON object a line.
    pub rows: PathBuf,
    /// The last row that was known to be on the disk.
    pub head: PathBuf,
    /// Held while rows are added, so that the runner and the owner's commands take turns.
    pub lock: PathBuf,
}

impl Places {
    /// In this folder.
    pub fn within(folder: &Path) -> Self {
        Self {
            rows: folder.join("audit.jsonl"),
            head: folder.join("audit.head"),
            lock: folder.join("audit.lock"),
        }
    }
}
