//! The trash and the notices for changes of protected paths, as the guard uses them.

use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use punie_core::bounded_file::{FinalLink, open_nonblocking};
use punie_core::ids::RequestId;
use punie_home::command_to_type;

/// The largest file whose content is remembered, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// The content and the mode of a protected file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The permission bits.
    pub mode: u32,
}

/// A change of a protected path, for the owner.
#[derive(Debug, Clone)]
pub struct ProtectedPathChange {
    /// The path.
    pub path: PathBuf,
    /// The entry of the trash that has the changed file; none if it could not be moved there.
    pub request: Option<RequestId>,
    /// The change, the reason for its danger, and its undoing.
    pub text: String,
}

/// The trash for changed files, and the owner's notices.
pub trait ProtectedPathRecords: Send + Sync {
    /// Moves a file to the trash, unless an entry `kept` has it already, and puts this content in its place, or
    /// nothing. Returns the entry; `None` if the file could not be kept or there was none.
    ///
    /// # Errors
    /// The system's; the file is where it was then.
    fn put_back(
        &self,
        path: &Path,
        content: Option<&FileContent>,
        kept: Option<&RequestId>,
    ) -> io::Result<Option<RequestId>>;

    /// Returns whether the owner undoes this entry of the trash, or did.
    fn is_undone(&self, request: &RequestId) -> bool;

    /// Tells the owner.
    fn notify_owner(&self, change: &ProtectedPathChange);
}

impl FileContent {
    /// Reads a small regular file. Never blocks on a FIFO, and follows no link.
    pub(super) fn read_small(path: &Path) -> Option<Self> {
        let file = open_nonblocking(path, FinalLink::Refuse).ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
            return None;
        }
        let mut bytes = Vec::new();
        let mode = metadata.mode() & 0o7777;
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
        Some(Self { bytes, mode })
    }

    pub(super) fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }
}

/// The content in the place of a changed file.
#[derive(Debug, Clone, Copy)]
pub(super) enum Replacement {
    /// There was no file before.
    Nothing,
    /// The content before is not known.
    Lost,
    ContentBefore,
    /// A configuration without the lines that may run a program.
    WithoutHarm,
}

/// Describes a change, what became of it, and its undoing, for the owner and the agent.
pub(super) fn describe_change(
    path: &Path,
    was_there: bool,
    why: &str,
    replaced: Replacement,
    done: &io::Result<Option<RequestId>>,
) -> String {
    let verb = if was_there { "was changed" } else { "appeared" };
    let outcome = match (done, replaced) {
        (Err(cause), _) => format!(
            "It could not be moved to the trash ({cause}). The owner should look at it before it is used"
        ),
        (Ok(_), Replacement::WithoutHarm) => {
            "The lines that may run a program were taken out".to_owned()
        }
        (Ok(_), Replacement::ContentBefore) => "The content before was put back".to_owned(),
        (Ok(None), _) => "It was removed".to_owned(),
        (Ok(_), Replacement::Lost) => {
            "It was moved to the trash. The content before was not kept".to_owned()
        }
        (Ok(_), Replacement::Nothing) => "It was moved to the trash".to_owned(),
    };
    let undo = match done {
        Ok(Some(request)) => {
            format!(
                ". If the owner made this change: `{}` brings it back",
                command_to_type(&format!("undo {request}"))
            )
        }
        _ => String::new(),
    };
    format!(
        "{} {verb} while a command ran: {why}. {outcome}{undo}.",
        path.display()
    )
}

/// Describes the end of commands that waited for a file to lose its cover.
pub(super) const WRITERS_ENDED: &str = " A command wrote it as soon as another program had replaced it, so the runner ended the \
     commands that could do so.";

/// Describes the end of commands that write a protected path in a loop.
pub(super) fn describe_loop_end(put_backs: u32) -> String {
    format!(" This happened {put_backs} times, so the runner ended the commands that were running.")
}
