//! A write that is ready to be made: its checks have passed, its bytes and hashes are known, and no file has changed.
//! Several writes become one by stages: all are declared, then all are staged beside their files, then each replaces
//! its file.

use super::files::WriteReport;
use punie_tool::{CallIntent, ToolError};

/// A write between its checks and its end. Dropping it removes the staged content.
///
/// The methods block.
pub trait PreparedWrite: Send {
    /// Returns the intent to declare next. Before staging it is the whole change, or only the temporary path if hashing
    /// happens while staging; after staging it is the change. `None` if the file has the content already.
    fn next_intent(&self) -> Option<CallIntent>;

    /// Writes the content beside the file and makes it durable. Missing parent folders are created.
    ///
    /// # Errors
    /// The disk's error.
    fn stage_content(&mut self) -> Result<(), ToolError>;

    /// Replaces the file with the staged content, durably.
    ///
    /// # Errors
    /// `stale` if the file changed since this was prepared; the disk's error.
    fn place_content(self: Box<Self>) -> Result<WriteReport, ToolError>;
}
