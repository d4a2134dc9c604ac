//! The log of one bridge: its output with secrets masked, in two files of limited size. A log that cannot be written
//! stops nothing.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use punie_core::durable::open_private_file;
use punie_home::BridgeFolders;

/// The size at which a file is kept as the one before, and a new one begins.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct BridgeLog {
    path: PathBuf,
    earlier: PathBuf,
}

impl BridgeLog {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_takes_two_files_of_limited_size() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = BridgeLog {
            path: folder.path().join("b.log"),
            earlier: folder.path().join("b.log.1"),
        };
        for _ in 0..50 {
            log.append(&vec![b'x'; 100_000]);
        }
        log.append_note("the last line");
        let size = |path: &PathBuf| fs::metadata(path).expect("there").len();
        assert!(size(&log.path) <= MAX_BYTES + 100_000);
        assert!(size(&log.earlier) <= MAX_BYTES + 100_000);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);
        let text = fs::read_to_string(&log.path).expect("text");
        assert!(text.ends_with("[punie-runner] the last line\n"));
    }
}
