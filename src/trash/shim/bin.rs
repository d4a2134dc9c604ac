//! Where one run of a shim puts what it removes: a folder of its own beside the others' that are not over, with its
//! manifest first. Not here: what is put there (removal).
#![expect(clippy::disallowed_methods, reason = "this file owns the folder that a shim fills")]

use std::fs::{self, DirBuilder, File};
use std::io;
use std::path::{Path, PathBuf};

use super::terms::{Share, Taken, Terms};
use crate::failpoint::reach;
use crate::trash::inventory::MANIFEST;
use crate::trash::manifest::{self, Line, Name};
use crate::trash::{now_ms, tree};

/// The folder of one run, made when it is needed first.
pub(super) struct Bin<'a> {
    terms: &'a Terms,
    tool: &'static str,
    open: Option<Open>,
    /// Why it cannot be used; that is said once.
    pub unusable: Option<String>,
    next: u64,
    /// What it has taken.
    taken: Taken,
}

struct Open {
    folder: PathBuf,
    /// Held until this run is over, so that nobody takes the folder away before.
    _held: File,
}

impl<'a> Bin<'a> {
    pub fn new(terms: &'a Terms, tool: &'static str) -> Self {
        Self { terms, tool, open: None, unusable: None, next: 0, taken: Taken::default() }
    }

    /// What it has taken.
    pub fn taken(&self) -> Taken {
        self.taken
    }

    /// So many bytes on the disk come.
    pub fn takes(&mut self, share: Share, on_disk: u64) {
        self.taken.add(share, on_disk);
    }

    /// They did not.
    pub fn gives_back(&mut self, share: Share, on_disk: u64) {
        self.taken.give_back(share, on_disk);
    }

    /// A name for something that is about to come; it is the line's, whatever becomes of it.
    pub fn name(&mut self) -> String {
        self.next += 1;
        self.next.to_string()
    }

    /// Writes down what is about to be removed; once this is true it may be. False where the trash cannot be used.
    pub fn announce(&mut self, lines: &[Line]) -> bool {
        match self.try_announce(lines) {
            Ok(()) => {
                reach("shim.announced");
                true
            }
            Err(cause) => {
                self.unusable = Some(super::in_words(&cause));
                false
            }
        }
    }

    fn try_announce(&mut self, lines: &[Line]) -> io::Result<()> {
        if self.unusable.is_some() {
            return Err(io::Error::other("it could not be used before"));
        }
        if self.open.is_none() {
            self.open = Some(self.make()?);
        }
        let Some(open) = &self.open else { return Ok(()) };
        manifest::append(&open.folder.join(MANIFEST), lines)
    }

    /// A folder that was announced could not be removed.
    pub fn stayed(&mut self, announced: Option<PathBuf>) {
        if let Some(path) = announced {
            self.announce(&[Line::Stayed { path: Name(path), item: None }]);
        }
    }

    /// What was announced as this item did not come, or not whole: nothing of it is kept there.
    pub fn did_not_come(&mut self, path: &Path, item: &str) {
        if let Some(place) = self.place(item) {
            let _ = tree::remove(&place);
        }
        self.announce(&[Line::Stayed { path: Name(path.to_owned()), item: Some(item.to_owned()) }]);
    }

    /// Under a name that nobody looks at until its manifest is held.
    fn make(&self) -> io::Result<Open> {
        let name = format!("{}.{}", self.terms.request, uuid::Uuid::now_v7().simple());
        let hidden = self.terms.into.join(format!(".{name}"));
        let mut builder = DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&hidden)?;
        let begun =
            Line::Begun { request: self.terms.request.clone(), tool: self.tool.to_owned(), at_ms: now_ms() };
        manifest::append(&hidden.join(MANIFEST), &[begun])?;
        let held = File::open(hidden.join(MANIFEST))?;
        held.lock()?;
        let folder = self.terms.into.join(name);
        fs::rename(&hidden, &folder)?;
        manifest::sync_folder(&folder)?;
        manifest::sync_folder(&self.terms.into)?;
        Ok(Open { folder, _held: held })
    }

    /// Where something of this name goes.
    pub fn place(&self, item: &str) -> Option<PathBuf> {
        self.open.as_ref().map(|open| open.folder.join(item))
    }
}

/// The line of something that goes.
pub(super) fn removed(path: &Path, item: &str, files: u64, bytes: u64) -> Line {
    Line::Removed { path: Name(path.to_owned()), item: item.to_owned(), files, bytes }
}

/// The line of an empty folder.
pub(super) fn empty_folder(path: &Path, mode: u32) -> Line {
    Line::EmptyFolder { path: Name(path.to_owned()), mode }
}
