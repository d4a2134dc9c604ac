//! The audit: an append-only file of the requests to this device, the decisions and their outcomes. Each row holds
//! the hash of the row before, so that an edit, a gap or a changed order is found at the row. Arguments and results
//! are not in it. Not here: when rows are written (runner, cli) and how they are displayed (cli).

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

/// The paths of the audit files of one home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The rows, one JSON object a line.
    pub rows: PathBuf,
    /// The last row that was known to be on the disk.
    pub head: PathBuf,
    /// Locked while rows are added, because the runner and the owner's commands both write.
    pub lock: PathBuf,
}

impl Places {
    /// Returns the paths in this folder.
    pub fn within(folder: &Path) -> Self {
        Self {
            rows: folder.join("audit.jsonl"),
            head: folder.join("audit.head"),
            lock: folder.join("audit.lock"),
        }
    }
}
