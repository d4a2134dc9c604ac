//! Notices to the owner, which stay until the owner acknowledges them: files beside the switches, so that a running
//! runner sees them go.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::command_to_type;
use super::error::HomeError;
use super::private_files::remove_file_if_exists;
use super::switches::OwnerSwitches;
use punie_core::clock::Clock;
use punie_core::durable::{append_json_lines, parse_json_lines};

/// The number of bytes up to which notices are added.
const MAX_BYTES: u64 = 1 << 20;

/// A change of a protected path, or the loss of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerNotice {
    /// The time in milliseconds since 1970.
    pub at_ms: i64,
    /// The path.
    pub path: String,
    /// The entry of the trash, for `undo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The change and its undoing, for people.
    pub text: String,
}

impl OwnerSwitches {
    fn notices_file(&self) -> PathBuf {
        self.folder.join("protected-paths.jsonl")
    }

    fn journal_notices_file(&self) -> PathBuf {
        self.folder.join("journal-losses.jsonl")
    }

    /// Adds a notice of a protected path. Where there are very many, a further one is left out: the log and the audit have
    /// it.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    pub fn add_notice(&self, notice: &OwnerNotice) -> Result<(), HomeError> {
        append_notice(&self.notices_file(), notice)
    }

    /// Adds a notice of a lost or damaged journal, and logs it.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    pub fn add_journal_notice(&self, text: &str) -> Result<(), HomeError> {
        tracing::error!("{text} `{}` acknowledges this", command_to_type("ack"));
        let notice = OwnerNotice {
            at_ms: Clock::system().now_ms(),
            path: String::new(),
            request: None,
            text: text.to_owned(),
        };
        append_notice(&self.journal_notices_file(), &notice)
    }

    /// Returns the notices of protected paths that are not acknowledged, the oldest first.
    pub fn list_notices(&self) -> Vec<OwnerNotice> {
        read_notices(&self.notices_file())
    }

    /// Returns the notices of lost journals that are not acknowledged, the oldest first.
    pub fn list_journal_notices(&self) -> Vec<OwnerNotice> {
        read_notices(&self.journal_notices_file())
    }

    /// Returns whether a notice of a protected path is not acknowledged.
    pub fn has_notices(&self) -> bool {
        self.notices_file().symlink_metadata().is_ok()
    }

    /// Removes all notices, and returns them.
    ///
    /// # Errors
    /// [`HomeError`] when they cannot be removed.
    pub fn acknowledge_notices(&self) -> Result<Vec<OwnerNotice>, HomeError> {
        let mut notices = self.list_notices();
        notices.extend(self.list_journal_notices());
        remove_file_if_exists(&self.notices_file())?;
        remove_file_if_exists(&self.journal_notices_file())?;
        Ok(notices)
    }
}

fn append_notice(file: &Path, notice: &OwnerNotice) -> Result<(), HomeError> {
    if file
        .symlink_metadata()
        .is_ok_and(|found| found.len() > MAX_BYTES)
    {
        return Ok(());
    }
    append_json_lines(file, std::slice::from_ref(notice))
        .map(drop)
        .map_err(HomeError::unwritable(file))
}

fn read_notices(file: &Path) -> Vec<OwnerNotice> {
    let bytes = std::fs::read(file).unwrap_or_default();
    parse_json_lines(&bytes).collect()
}
