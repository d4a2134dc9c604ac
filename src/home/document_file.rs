//! Reads the text of a skill, an agent or a manifest: a plain file in the home, of limited length, that does not change
//! meanwhile.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use super::layout::Home;
use punie_core::bounded_file::{FinalLink, open_nonblocking};
use punie_core::failpoint;

/// The most bytes of such a file.
const MAX_BYTES: u64 = 1024 * 1024;
/// The number of times that a file is read while it keeps changing.
const MAX_READS: usize = 3;

/// The reason why a document has no text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UnreadableDocument {
    /// It is not there, or may not be used: an earlier version does not count either.
    Refused(String),
    /// Its content is broken; an earlier version may be used.
    Broken(String),
}

impl UnreadableDocument {
    /// Returns the reason.
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Refused(text) | Self::Broken(text) => text,
        }
    }
}

/// Reads a plain file that lies in the home after all symlinks are resolved. A symlink that leads out of the home is
/// refused, because it could publish any file.
pub(super) fn read_document_text(
    home: &Home,
    file: &Path,
    file_name: &str,
) -> Result<String, UnreadableDocument> {
    use UnreadableDocument::{Broken, Refused};
    let unreadable = |error: io::Error| Broken(format!("cannot be read: {error}"));
    let real = match fs::canonicalize(file) {
        Ok(real) => real,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let text = format!("the folder has no {file_name}, so there is nothing to load");
            return Err(Refused(text));
        }
        Err(error) => return Err(unreadable(error)),
    };
    let root = fs::canonicalize(home.root_dir())
        .map_err(|error| Refused(format!("the home cannot be read: {error}")))?;
    if !real.starts_with(&root) {
        return Err(Refused(format!(
            "a link leads out of the home, to {}. Copy the file instead",
            real.display()
        )));
    }
    for _ in 0..MAX_READS {
        if let Some(bytes) = read_if_unchanged(&real)? {
            let text = String::from_utf8(bytes).map_err(|_| Broken("is not UTF-8 text".into()))?;
            if text.trim().is_empty() {
                return Err(Broken("is empty".into()));
            }
            return Ok(text);
        }
    }
    let text = "changed while it was read. It is read again after the next change";
    Err(Broken(text.into()))
}

/// Reads a file once. `None` if it changed meanwhile.
fn read_if_unchanged(file: &Path) -> Result<Option<Vec<u8>>, UnreadableDocument> {
    use UnreadableDocument::{Broken, Refused};
    let unreadable = |error: io::Error| Broken(format!("cannot be read: {error}"));
    let opened = open_nonblocking(file, FinalLink::Refuse).map_err(unreadable)?;
    let before = opened.metadata().map_err(unreadable)?;
    if !before.is_file() {
        return Err(Refused("is not a plain file".to_owned()));
    }
    failpoint::reach("home.document_opened");
    let mut bytes = Vec::new();
    let length = (&opened).take(MAX_BYTES + 1).read_to_end(&mut bytes);
    if length.map_err(unreadable)? as u64 > MAX_BYTES {
        return Err(Broken(format!(
            "is longer than {} KiB. Shorten it, or split it",
            MAX_BYTES / 1024
        )));
    }
    let after = opened.metadata().map_err(unreadable)?;
    let is_same =
        after.len() == bytes.len() as u64 && after.modified().ok() == before.modified().ok();
    Ok(is_same.then_some(bytes))
}
