//! A write of this machine's that a connected editor follows: shown there as a difference once it is made. Not here:
//! writes that the editor makes (writes).

use std::io::Read as _;
use std::sync::Arc;

use super::shown::ShownCall;
use crate::acp::WorkspacePath;
use crate::acp::files::Written;
use crate::acp::prepared::PreparedWrite;
use crate::tool::{Intent, ToolError};

/// A longer text is not shown.
const SHOWN: u64 = 256 << 10;

/// A write that is made here and shown there.
pub(super) struct Followed {
    write: Box<dyn PreparedWrite>,
    call: Arc<ShownCall>,
    path: WorkspacePath,
    before: Small,
    warning: Option<String>,
}

/// As much of a file as can be shown.
enum Small {
    Missing,
    Text(String),
    /// It is long, or no text.
    Other,
}

impl Followed {
    /// This write, with what is to be said of it beside.
    pub fn new(
        write: Box<dyn PreparedWrite>,
        call: Arc<ShownCall>,
        path: WorkspacePath,
        warning: Option<String>,
    ) -> Self {
        Self { write, call, path, before: Small::Other, warning }
    }
}

impl PreparedWrite for Followed {
    fn intent(&self) -> Option<Intent> {
        self.write.intent()
    }

    fn stage(&mut self) -> Result<(), ToolError> {
        self.before = Small::of(&self.path);
        self.write.stage()
    }

    fn place(self: Box<Self>) -> Result<Written, ToolError> {
        let Self { write, call, path, before, warning } = *self;
        let mut written = write.place()?;
        written.warnings.extend(warning);
        if written.unchanged {
            return Ok(written);
        }
        if let Small::Text(after) = Small::of(&path) {
            match before {
                Small::Missing => call.wrote(path.absolute(), None, &after),
                Small::Text(before) => call.wrote(path.absolute(), Some(&before), &after),
                Small::Other => {}
            }
        }
        Ok(written)
    }
}

impl Small {
    /// What is there now. Blocks.
    fn of(path: &WorkspacePath) -> Self {
        let file = match path.open_read() {
            Ok(file) => file,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Self::Missing,
            Err(_) => return Self::Other,
        };
        let mut bytes = Vec::new();
        match file.take(SHOWN + 1).read_to_end(&mut bytes) {
            Ok(read) if read as u64 <= SHOWN => {}
            _ => return Self::Other,
        }
        String::from_utf8(bytes).map_or(Self::Other, Self::Text)
    }
}
