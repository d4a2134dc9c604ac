//! A write that is ready to be made: checked, its bytes and hashes known, nothing done yet. What makes several of them
//! one: all are declared together, then all are written beside their files, then each takes its place. Not here: who
//! prepares one.

use super::files::Written;
use crate::tool::{Intent, ToolError};

/// A write between its checks and its end. Dropping it takes away what it has written beside the file.
///
/// The methods block.
pub trait PreparedWrite: Send {
    /// What is to be declared next: before it is staged the whole change, or only where the new content is written
    /// where that is hashed beside the writing; then the change before it is placed. None where the file is as it
    /// shall be already.
    fn intent(&self) -> Option<Intent>;

    /// Writes the content beside the file and makes it durable. Folders on the way are made.
    ///
    /// # Errors
    /// The disk's.
    fn stage(&mut self) -> Result<(), ToolError>;

    /// Puts what was staged in the file's place, for whoever looks and for good.
    ///
    /// # Errors
    /// `stale` where the file is not any more as it was when this was prepared; the disk's.
    fn place(self: Box<Self>) -> Result<Written, ToolError>;
}
