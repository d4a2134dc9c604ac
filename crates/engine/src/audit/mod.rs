//! The audit: an append-only file of the requests to this device, the decisions and their outcomes. Each row holds the
//! hash of the row before, so that an edit, a gap or a changed order is found at the row. Arguments and results are not
//! in it.

mod audit_entry;
mod audit_report;
mod audit_writer;
mod chain;
mod chain_head;
mod earlier_rows;
mod line_reader;
mod row;
mod row_expiry;
mod verify;

pub use audit_entry::{AuditActor, AuditDecision, AuditEntry, AuditEvent, sha256_text};
pub use audit_report::{AuditFault, AuditFlaw, AuditReport, HeadSignature};
pub use audit_writer::{AuditLog, append_entry_durably};
pub use chain_head::{AuditHead, TextSigner};
pub use row::ChainLink;
pub use row_expiry::AuditRetention;
pub use verify::{for_each_row, verify_chain};

use std::path::{Path, PathBuf};

/// The paths of the audit files of one home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPaths {
    /// The rows, one JSON object a line.
    pub rows: PathBuf,
    /// The last row that was known to be on the disk.
    pub head: PathBuf,
    /// Locked while rows are added, because the runner and the owner's commands both write.
    pub lock: PathBuf,
}

impl AuditPaths {
    /// Returns the paths in this folder.
    pub fn within_folder(folder: &Path) -> Self {
        Self {
            rows: folder.join("audit.jsonl"),
            head: folder.join("audit.head"),
            lock: folder.join("audit.lock"),
        }
    }
}
