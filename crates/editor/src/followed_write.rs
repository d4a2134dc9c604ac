//! A write on this machine that a connected editor follows: once it is made, the editor shows it as a diff. Not here:
//! writes that the editor makes (write_routing).

use std::io::Read as _;
use std::sync::Arc;

use super::tool_call_view::ShownCall;
use punie_host::WorkspacePath;
use punie_host::files::WriteReport;
use punie_host::prepared_write::PreparedWrite;
use punie_tool::{CallIntent, ToolError};

/// The largest text that is shown, in bytes.
const MAX_SHOWN_BYTES: u64 = 256 << 10;

/// A write that is made on this machine and shown in the editor.
pub(super) struct FollowedWrite {
    write: Box<dyn PreparedWrite>,
    call: Arc<ShownCall>,
    path: WorkspacePath,
    before: DisplayableText,
    warning: Option<String>,
}

/// The text of a file, as far as it can be shown.
enum DisplayableText {
    Missing,
    Text(String),
    /// It is too long or not text.
    Other,
}

impl FollowedWrite {
    /// Wraps this write, with a warning to add to its result.
    pub fn new(
        write: Box<dyn PreparedWrite>,
        call: Arc<ShownCall>,
        path: WorkspacePath,
        warning: Option<String>,
    ) -> Self {
        Self {
            write,
            call,
            path,
            before: DisplayableText::Other,
            warning,
        }
    }
}

impl PreparedWrite for FollowedWrite {
    fn next_intent(&self) -> Option<CallIntent> {
        self.write.next_intent()
    }

    fn stage_content(&mut self) -> Result<(), ToolError> {
        self.before = DisplayableText::read(&self.path);
        self.write.stage_content()
    }

    fn place_content(self: Box<Self>) -> Result<WriteReport, ToolError> {
        let Self {
            write,
            call,
            path,
            before,
            warning,
        } = *self;
        let mut written = write.place_content()?;
        written.warnings.extend(warning);
        if written.unchanged {
            return Ok(written);
        }
        if let DisplayableText::Text(after) = DisplayableText::read(&path) {
            match before {
                DisplayableText::Missing => call.show_diff(path.absolute_path(), None, &after),
                DisplayableText::Text(before) => {
                    call.show_diff(path.absolute_path(), Some(&before), &after);
                }
                DisplayableText::Other => {}
            }
        }
        Ok(written)
    }
}

impl DisplayableText {
    /// Reads the file as it is now. Blocks.
    fn read(path: &WorkspacePath) -> Self {
        let file = match path.open_for_reading() {
            Ok(file) => file,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Self::Missing,
            Err(_) => return Self::Other,
        };
        let mut bytes = Vec::new();
        match file.take(MAX_SHOWN_BYTES + 1).read_to_end(&mut bytes) {
            Ok(read) if read as u64 <= MAX_SHOWN_BYTES => {}
            _ => return Self::Other,
        }
        String::from_utf8(bytes).map_or(Self::Other, Self::Text)
    }
}
