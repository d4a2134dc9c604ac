//! ACP's file methods with what they take and give. Not here: who serves them.

use std::fmt;
use std::io::{Read, Seek};
use std::ops::Range;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::content::Binary;
pub use super::encoding::Encoding;
pub use super::folders::{EntryKind, FolderEntry, FolderListing, ListFolder};
use super::prepared::PreparedWrite;
pub use super::source::Source;
use super::{Answer, WorkspacePath};
use crate::ids::hex;
pub use crate::output::line_index::read_full;
use crate::tool::ToolCx;

/// Reads and writes text files inside the workspace.
///
/// The first two methods are the protocol's; an editor that is connected can serve them too. The others are what
/// the tools of this machine need beside them.
pub trait FileClient: Send + Sync + 'static {
    /// Some lines of a text file.
    ///
    /// Fails with `is_directory`, `not_text`, `not_found` (with near names), `too_large` where the lines cannot be
    /// reached in bounded time, `cancelled`.
    fn read_text_file<'a>(&'a self, cx: &'a ToolCx, request: ReadTextFile) -> Answer<'a, TextWindow>;

    /// Replaces or makes a file: readers see the old content or the new one, never a part. It is declared before
    /// anything is done.
    ///
    /// Fails with `policy_denied`, `stale` when the [`Precondition`] does not hold, `is_directory`.
    fn write_text_file<'a>(&'a self, cx: &'a ToolCx, request: WriteTextFile) -> Answer<'a, Written>;

    /// Checks a write without making it, so that several can be declared and made together. Fails like
    /// `write_text_file`.
    fn prepare_file<'a>(
        &'a self,
        cx: &'a ToolCx,
        request: WriteTextFile,
    ) -> Answer<'a, Box<dyn PreparedWrite>>;
    /// Writes what was prepared and declared beside its file.
    fn stage_file<'a>(
        &'a self,
        cx: &'a ToolCx,
        write: Box<dyn PreparedWrite>,
    ) -> Answer<'a, Box<dyn PreparedWrite>>;
    /// Puts what was staged in its file's place. Fails with `stale`.
    fn place_file<'a>(&'a self, cx: &'a ToolCx, write: Box<dyn PreparedWrite>) -> Answer<'a, Written>;

    /// A whole file's bytes, for editing. Fails like `read_text_file`, and with `too_large` above `max_bytes`.
    fn load_file<'a>(&'a self, cx: &'a ToolCx, path: WorkspacePath, max_bytes: u64)
    -> Answer<'a, LoadedFile>;

    /// A file's bytes as they are, to look into a format that is not text. Fails like `read_text_file`, but for
    /// `not_text` where it is a regular file.
    fn open_file<'a>(&'a self, cx: &'a ToolCx, path: WorkspacePath) -> Answer<'a, OpenedFile>;
    /// Takes a file away. Fails with `policy_denied`, `not_found`, `stale`, `is_directory`.
    fn remove_file<'a>(&'a self, cx: &'a ToolCx, request: RemoveFile) -> Answer<'a, ()>;

    /// Gives a file another path, where there is nothing yet. Fails with `policy_denied`, `not_found`, `stale`.
    fn move_file<'a>(&'a self, cx: &'a ToolCx, request: MoveFile) -> Answer<'a, ()>;

    /// Takes a folder away if it is empty; true if it was.
    fn remove_empty_folder<'a>(&'a self, cx: &'a ToolCx, path: WorkspacePath) -> Answer<'a, bool>;

    /// What is in a folder.
    fn list_folder<'a>(&'a self, cx: &'a ToolCx, request: ListFolder) -> Answer<'a, FolderListing>;
}

/// Which part of a file to read.
#[derive(Debug, Clone)]
pub struct ReadTextFile {
    /// The file.
    pub path: WorkspacePath,
    /// The first line.
    pub start: Start,
    /// At most so many lines.
    pub lines: u64,
    /// At most so many characters, but one line at least.
    pub max_chars: usize,
    /// A line longer than this is cut in its middle.
    pub line_chars: usize,
    /// Read it as this, whatever it looks like; none tells it from the bytes.
    pub encoding: Option<Encoding>,
}

/// Where a window begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At this line, from 1.
    Line(u64),
    /// So many lines before the end, from 1: the last line.
    FromEnd(u64),
    /// Inside one line, at this character, both from 1; the window is the rest of that line only.
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
    /// The lines with their own endings. Long ones are cut in their middle, which is said in their text.
    pub text: String,
    /// The number of the first line: from 1, or negative (from -1, the last line) where lines before are not counted.
    pub first: i64,
    /// How many lines `text` has.
    pub lines: u64,
    /// How many lines the file has.
    pub total: LineTotal,
    /// Whether the window ends where the file ends.
    pub at_end: bool,
    /// The last line of the window is longer than what is looked at of one line; what follows it is not known.
    pub stopped_in_line: bool,
    /// The file's size in bytes.
    pub size: u64,
    /// How the bytes are read as text.
    pub encoding: Encoding,
    /// How its lines end, as far as was looked at.
    pub endings: Endings,
    /// SHA-256 of the whole file in hex; none above [`TextWindow::HASHED`] bytes, of a file that changed while it was
    /// read, and of one whose size the system does not know.
    pub sha256: Option<String>,
    /// The file changed while it was read; this is as much as it had before.
    pub changed: bool,
    /// How many places in the window were not valid text and are U+FFFD.
    pub lossy: u64,
    /// How many bytes are not valid UTF-8: of the whole file where it was read for this window, else of the window.
    /// None of other encodings.
    pub invalid_bytes: u64,
    /// How many control characters the window holds.
    pub control: u64,
    /// How many bytes of long lines are left out.
    pub omitted_bytes: u64,
    /// The first line that is cut in its middle, counted from 0 in the window, and how many characters come before
    /// the cut.
    pub first_cut: Option<(u64, u64)>,
    /// Of [`Start::Inside`]: so many characters before the one asked for the text begins, since that one stands within
    /// what is masked as a whole.
    pub back: u64,
    /// Where it is from.
    pub source: Source,
}

impl TextWindow {
    /// Files up to this size are hashed and their lines counted.
    pub const HASHED: u64 = 100 << 20;
}

/// How many lines there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineTotal {
    /// Counted to the end.
    Exactly(u64),
    /// Counted so far; the file goes on.
    MoreThan(u64),
}

/// How lines end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endings {
    /// There is no line ending.
    None,
    /// All with a line feed.
    Lf,
    /// All with carriage return and line feed.
    Crlf,
    /// Both kinds.
    Mixed,
}

impl Endings {
    /// The name in an answer.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "no line ending",
            Self::Lf => "lf",
            Self::Crlf => "crlf",
            Self::Mixed => "mixed lf and crlf",
        }
    }

    /// How the lines of these bytes end.
    pub fn of(bytes: &[u8]) -> Self {
        let (mut lf, mut crlf) = (false, false);
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
            _ => Self::None,
        }
    }
}

/// What to write, and when.
#[derive(Debug, Clone)]
pub struct WriteTextFile {
    /// The file.
    pub path: WorkspacePath,
    /// What it shall hold.
    pub content: NewContent,
    /// What must hold for it to be written.
    pub only_if: Precondition,
    /// Make missing folders on the way.
    pub create_folders: bool,
    /// Set or take away the right to run it; none leaves it as it is.
    pub executable: Option<bool>,
}

/// The bytes to write.
#[derive(Debug, Clone)]
pub enum NewContent {
    /// This text. A byte order mark, UTF-16 and CRLF endings of the file that it replaces are kept.
    Text(String),
    /// The old bytes with these places replaced, every other byte as it was. In order, without overlap.
    Spliced {
        /// The bytes that were loaded.
        old: Arc<Vec<u8>>,
        /// What to put where.
        splices: Vec<Splice>,
    },
    /// The same of a file that is too big to hold: what stays is copied from the file itself, so it must be as it was
    /// when the places were found ([`Precondition::AsLoaded`]).
    SplicedOnDisk {
        /// What the bytes of each place end with; looked at again before they are replaced.
        old: Arc<[u8]>,
        /// What to put where.
        splices: Vec<DiskSplice>,
    },
}

/// One replaced place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    /// The bytes that go.
    pub range: Range<usize>,
    /// The bytes that come.
    pub with: Vec<u8>,
}

/// One replaced place of a file that is not held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskSplice {
    /// The bytes that go.
    pub range: Range<u64>,
    /// The bytes that come; one text may come at many places.
    pub with: Arc<[u8]>,
}

/// What must hold for a file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing.
    None,
    /// There is no such file.
    Absent,
    /// The file has this SHA-256 (hex).
    Content(String),
    /// The file is as it was loaded.
    AsLoaded(Stamp),
}

/// What tells one state of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Device and inode, where there are such.
    pub file: (u64, u64),
    /// In bytes.
    pub size: u64,
    /// Last change of the content, in nanoseconds since 1970.
    pub modified: i128,
    /// Last change of the file's own record, where there is such.
    pub changed: i128,
}

/// A whole file.
#[derive(Debug, Clone)]
pub struct LoadedFile {
    /// Its bytes.
    pub bytes: Arc<Vec<u8>>,
    /// How they are text.
    pub encoding: Encoding,
    /// The file's state when it was read; one that no file has where the bytes are not the disk's.
    pub stamp: Stamp,
    /// Where the bytes are from.
    pub source: Source,
}

impl LoadedFile {
    /// SHA-256 of the bytes, in hex.
    pub fn sha256(&self) -> String {
        hex(&Sha256::digest(self.bytes.as_slice()))
    }
}

/// What a write did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// There was no such file.
    pub created: bool,
    /// The file held these bytes already; it was not touched.
    pub unchanged: bool,
    /// SHA-256 before, in hex; none for a new file.
    pub before: Option<String>,
    /// SHA-256 after, in hex.
    pub after: String,
    /// Its size now.
    pub size: u64,
    /// What was done that the content did not ask for.
    pub warnings: Vec<String>,
    /// Who wrote it.
    pub by: Source,
}

/// Bytes that can be read from any place.
pub trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// A file that is open.
pub struct OpenedFile {
    /// Its bytes, from the first.
    pub bytes: Box<dyn ReadSeek>,
    /// How many there are.
    pub size: u64,
    /// The state in which it was opened.
    pub stamp: Stamp,
    /// What they are.
    pub content: Result<Encoding, Binary>,
}

impl fmt::Debug for OpenedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedFile")
            .field("size", &self.size)
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}

/// Which file to take away, and when.
#[derive(Debug, Clone)]
pub struct RemoveFile {
    /// The file.
    pub path: WorkspacePath,
    /// What must hold for it.
    pub only_if: Precondition,
}

/// Which file gets which path, and when.
#[derive(Debug, Clone)]
pub struct MoveFile {
    /// Where it is.
    pub from: WorkspacePath,
    /// Where it shall be. Missing folders on the way are made.
    pub to: WorkspacePath,
    /// What must hold of the file for it.
    pub only_if: Precondition,
}
