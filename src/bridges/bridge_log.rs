//! The log of one bridge: its output with secrets masked, in two files of limited size. A log that cannot be written stops
//! nothing. Not here: reading the output (bridge_copy).
#![expect(
    clippy::disallowed_methods,
    reason = "this file owns the logs of bridges"
)]

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use crate::durable::open_private_file;
use crate::home::BridgeFolders;

/// The size at which a file is kept as the one before, and a new one begins.
const MAX_BYTES: u64 = 1 << 20;

/// The log of one bridge.
#[derive(Debug)]
pub(super) struct BridgeLog {
    path: PathBuf,
    earlier: PathBuf,
}

impl BridgeLog {
    /// Returns the log of a bridge.
    pub fn new(folders: &BridgeFolders) -> Self {
        Self {
            path: folders.log_file().to_owned(),
            earlier: folders.earlier_log_file(),
        }
    }

    /// Appends bytes that are masked. Blocks.
    pub fn append(&self, bytes: &[u8]) {
        let appended = (|| {
            if fs::metadata(&self.path).is_ok_and(|found| found.len() >= MAX_BYTES) {
                fs::rename(&self.path, &self.earlier)?;
            }
            let mut file =
                open_private_file(&self.path, |options| options.append(true).create(true))?;
            file.write_all(bytes)
        })();
        if let Err(error) = appended {
            tracing::debug!(%error, path = %self.path.display(), "output of a bridge is not logged");
        }
    }

    /// Appends a line of the runner's own.
    pub fn append_note(&self, note: &str) {
        self.append(format!("[punie-runner] {note}\n").as_bytes());
    }
}
