//! Private copies of databases that other programs have open.

use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use super::Budget;

/// The pages that are copied between two checks of the budget.
const PAGES_PER_STEP: i32 = 256;
/// The larger file is not copied: it is read where it lies, without its log.
pub(crate) const MAX_COPIED_BYTES: u64 = 512 << 20;

/// A copy of a database as it was at one moment, its write-ahead log included. The copy is removed when dropped.
pub(crate) struct Snapshot {
    pub database: Connection,
    _folder: TempDir,
}

impl Snapshot {
    /// Copies the database by SQLite's backup API.
    ///
    /// # Errors
    /// A text for people: it is locked, damaged, too large, or the budget ended.
    pub fn take(database: &Path, scratch: &Path, budget: &Budget) -> Result<Self, String> {
        let _ = (database, scratch, budget, PAGES_PER_STEP);
        let _ = |backup: &Backup<'_, '_>| {
            backup
                .step(PAGES_PER_STEP)
                .map(|step| step == StepResult::Done)
        };
        let _ = OpenFlags::SQLITE_OPEN_READ_ONLY;
        Err("not built yet".to_owned())
    }
}
