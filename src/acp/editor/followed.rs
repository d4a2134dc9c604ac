//! A write on this machine that a connected editor follows: once it is made, the editor shows it as a diff. Not here:
//! writes that the editor makes (writes).

use std::io::Read as _;
use std::sync::Arc;

use super::shown::ShownCall;
use crate::acp::WorkspacePath;
use crate::acp::files::Written;
use crate::acp::prepared::PreparedWrite;
use crate::tool::{Intent, ToolError};

/// The largest text that is shown, in bytes.
const SHOWN: u64 = 256 << 10;

/// A write that is made on this machine and shown in the editor.
pub(super) struct Followed {
    write: Box<dyn PreparedWrite>,
    call: Arc<ShownCall>,
    path: WorkspacePath,
    before: Small,
    warning: Option<String>,
}

/// The text of a file, as far as it can be shown.
enum Small {
    Missing,
    Text(String),
    /// It is too long or not text.
    Other,
}

impl Followed {
    /// Wraps this write, with a warning to add to its result.
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
    /// Reads the file as it is now. Blocks.
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
