//! The arguments and results of ACP's file methods.

use std::any::Any;
use std::fmt;
use std::io::{Read, Seek};
use std::ops::Range;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::WorkspacePath;
pub use super::encoding::FileEncoding;
use super::file_content::BinaryContent;
pub use super::folders::{FolderEntry, FolderEntryKind, FolderListing, ListFolder};
pub use super::text_source::TextSource;
use punie_core::ids::to_hex;
pub use punie_text::output::line_index::read_full;

/// The part of a file to read.
#[derive(Debug, Clone)]
pub struct ReadTextFile {
    /// The file.
    pub path: WorkspacePath,
    /// The first line.
    pub start: WindowStart,
    /// The most lines to return.
    pub lines: u64,
    /// The most characters to return, but at least one line.
    pub max_chars: usize,
    /// Longer lines are cut in their middle.
    pub line_chars: usize,
    /// The encoding to use; `None` to detect it from the bytes.
    pub encoding: Option<FileEncoding>,
}

/// The start of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowStart {
    /// At this line, from 1.
    Line(u64),
    /// This many lines before the end; 1 is the last line.
    FromEnd(u64),
    /// Inside one line, at this character, both from 1; the window is only the rest of that line.
    Inside {
        /// The line.
        line: u64,
        /// The character.
        column: u64,
    },
}

/// Some lines of a text file.
#[derive(Debug, Clone, PartialEq)]
pub struct TextWindow {
    /// The lines with their own endings. Long lines are cut in their middle, with a note in the text.
    pub text: String,
    /// The number of the first line: from 1, or negative (-1 is the last line) if earlier lines were not counted.
    pub first: i64,
    /// The number of lines in `text`.
    pub lines: u64,
    /// The number of lines in the file.
    pub total: LineTotal,
    /// The window ends at the end of the file.
    pub at_end: bool,
    /// The last line of the window is longer than the part of one line that is read; the rest is unknown.
    pub stopped_in_line: bool,
    /// The file's size in bytes.
    pub size: u64,
    /// The encoding of the text.
    pub encoding: FileEncoding,
    /// Its line endings, in the part that was read.
    pub endings: LineEndings,
    /// The SHA-256 of the whole file in hex. `None` above [`TextWindow::HASHED`] bytes, if the file changed while it
    /// was read, or if the system does not know its size.
    pub sha256: Option<String>,
    /// The file changed while it was read; the window ends at its earlier size.
    pub changed: bool,
    /// The number of invalid places in the window that became U+FFFD.
    pub lossy: u64,
    /// The number of bytes that are not valid UTF-8: in the whole file if it was read for this window, else in the
    /// window. 0 for other encodings.
    pub invalid_bytes: u64,
    /// The number of control characters in the window.
    pub control: u64,
    /// The number of bytes of long lines that are left out.
    pub omitted_bytes: u64,
    /// The first line that is cut in its middle, counted from 0 in the window, and the number of characters before the
    /// cut.
    pub first_cut: Option<(u64, u64)>,
    /// For [`WindowStart::Inside`]: the number of characters by which the text begins earlier than requested, because
    /// the requested one lies in a masked range.
    pub back: u64,
    /// The source of the text.
    pub source: TextSource,
}

impl TextWindow {
    /// Files up to this size are hashed and their lines counted.
    pub const HASHED: u64 = 100 << 20;
}

/// The number of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineTotal {
    /// Counted to the end.
    Exactly(u64),
    /// Counted so far; the file continues.
    MoreThan(u64),
}

/// The line endings of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEndings {
    /// There is no line ending.
    None,
    /// All lines end in a line feed.
    Lf,
    /// All lines end in a carriage return and a line feed.
    Crlf,
    /// Both kinds.
    Mixed,
    /// All lines end in a carriage return alone.
    Cr,
}

impl LineEndings {
    /// Returns the name for a reply.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "no line ending",
            Self::Lf => "lf",
            Self::Crlf => "crlf",
            Self::Mixed => "mixed lf and crlf",
            Self::Cr => "cr alone, so shown as one line",
        }
    }

    /// Detects the line endings of these bytes.
    pub fn detect(bytes: &[u8]) -> Self {
        let mut lf = false;
        let mut crlf = false;
        for at in memchr::memchr_iter(b'\n', bytes) {
            if at > 0 && bytes[at - 1] == b'\r' {
                crlf = true;
            } else {
                lf = true;
            }
            if lf && crlf {
                return Self::Mixed;
            }
        }
        match (lf, crlf) {
            (true, _) => Self::Lf,
            (_, true) => Self::Crlf,
            _ if memchr::memchr(b'\r', bytes).is_some() => Self::Cr,
            _ => Self::None,
        }
    }
}

/// A write and its condition.
#[derive(Debug, Clone)]
pub struct WriteTextFile {
    /// The file.
    pub path: WorkspacePath,
    /// The new content.
    pub content: NewContent,
    /// The condition for the write.
    pub only_if: WritePrecondition,
    /// Creates missing parent folders.
    pub create_folders: bool,
    /// Sets or clears the permission to execute it; `None` leaves it unchanged.
    pub executable: Option<bool>,
}

/// The bytes to write.
#[derive(Debug, Clone)]
pub enum NewContent {
    /// This text. A byte order mark, UTF-16 and CRLF endings of the replaced file are preserved.
    Text(String),
    /// The old bytes with these ranges replaced. The splices are in order, without overlap.
    Spliced {
        /// The bytes that were loaded.
        old: Arc<Vec<u8>>,
        /// The replacements.
        splices: Vec<ByteSplice>,
    },
}

/// One replaced range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteSplice {
    /// The bytes to remove.
    pub range: Range<usize>,
    /// The bytes to insert.
    pub with: Vec<u8>,
}

/// The condition for a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WritePrecondition {
    /// No condition.
    None,
    /// There is no such file.
    Absent,
    /// The file has this SHA-256 (hex).
    Content(String),
    /// The file is as it was loaded.
    AsLoaded(FileStamp),
}

/// The metadata that changes when a file changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileStamp {
    /// Device and inode, where the system has them.
    pub file: (u64, u64),
    /// In bytes.
    pub size: u64,
    /// Last change of the content, in nanoseconds since 1970.
    pub modified: i128,
    /// Last change of the file's metadata, where the system has it.
    pub changed: i128,
}

/// A whole file.
#[derive(Debug, Clone)]
pub struct LoadedFile {
    /// Its bytes.
    pub bytes: Arc<Vec<u8>>,
    /// Its encoding.
    pub encoding: FileEncoding,
    /// The file's stamp when it was read; if the bytes are not from the disk, one that no file has.
    pub stamp: FileStamp,
    /// The source of the bytes.
    pub source: TextSource,
}

impl LoadedFile {
    /// Returns the SHA-256 of the bytes, in hex.
    pub fn bytes_sha256(&self) -> String {
        to_hex(&Sha256::digest(self.bytes.as_slice()))
    }
}

/// The result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteReport {
    /// The file did not exist.
    pub created: bool,
    /// The file had these bytes already and was not touched.
    pub unchanged: bool,
    /// The SHA-256 before, in hex; `None` for a new file.
    pub before: Option<String>,
    /// The SHA-256 after, in hex.
    pub after: String,
    /// Its size now.
    pub size: u64,
    /// Notes on changes that the content did not ask for.
    pub warnings: Vec<String>,
    /// The writer: this machine or an editor.
    pub by: TextSource,
}

/// The warning of a change that a client staged.
pub const STAGED_WARNING: &str = "Staged: SelfModApply writes it to the real file.";

/// Seekable bytes.
pub trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// The bytes of an open file. A worker process asks for the file itself by its type.
pub trait OpenedBytes: ReadSeek + Any {}

impl<T: ReadSeek + Any> OpenedBytes for T {}

/// An open file.
pub struct OpenedFile {
    /// Its bytes, from the first.
    pub bytes: Box<dyn OpenedBytes>,
    /// The number of bytes.
    pub size: u64,
    /// The stamp when it was opened.
    pub stamp: FileStamp,
    /// The type of its content.
    pub content: Result<FileEncoding, BinaryContent>,
}

impl fmt::Debug for OpenedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedFile")
            .field("size", &self.size)
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}

/// The removal of a file and its condition.
#[derive(Debug, Clone)]
pub struct RemoveFile {
    /// The file.
    pub path: WorkspacePath,
    /// The condition for it.
    pub only_if: WritePrecondition,
}

/// The move of a file and its condition.
#[derive(Debug, Clone)]
pub struct MoveFile {
    /// The current path.
    pub from: WorkspacePath,
    /// The new path. Missing parent folders are created.
    pub to: WorkspacePath,
    /// The condition on the file.
    pub only_if: WritePrecondition,
}
