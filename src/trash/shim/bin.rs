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
use crate::trash::now_ms;

/// A manifest is followed by another once it is longer than this, in bytes, and gets so many lines at once, each with a
/// path: together less than is read of one.
const LONG: u64 = manifest::LARGEST / 2;
const MOST_LINES: usize = 4_000;

/// The folder of one run, made when it is needed first.
pub(super) struct Bin<'a> {
    terms: &'a Terms,
    tool: &'static str,
    /// The latest last: one whose manifest has become long is followed by another.
    open: Vec<Open>,
    /// Why it cannot be used; that is said once.
    pub unusable: Option<String>,
    next: u64,
    /// What it has taken.
    taken: Taken,
    /// What went for good and is not written down yet.
    lost: Vec<Line>,
}

struct Open {
    folder: PathBuf,
    /// The number of the first item that is announced here.
    first: u64,
    /// How long the manifest is.
    written: u64,
    /// Held until this run is over, so that nobody takes the folder away before.
    _held: File,
}

impl<'a> Bin<'a> {
    pub fn new(terms: &'a Terms, tool: &'static str) -> Self {
        let (open, lost) = (Vec::new(), Vec::new());
        Self { terms, tool, open, unusable: None, next: 0, taken: Taken::default(), lost }
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

    /// This was removed, and not to the trash. It is written down with what comes next, or at the end: nothing of it is
    /// kept that could depend on it.
    pub fn went_for_good(&mut self, path: &Path) {
        self.lost.push(Line::ForGood { path: Name(path.to_owned()) });
        if self.lost.len() >= MOST_LINES {
            self.announce(&[]);
        }
    }

    fn try_announce(&mut self, lines: &[Line]) -> io::Result<()> {
        if self.unusable.is_some() {
            return Err(io::Error::other("it could not be used before"));
        }
        let lines = [std::mem::take(&mut self.lost).as_slice(), lines].concat();
        for lines in lines.chunks(MOST_LINES) {
            if self.open.last().is_none_or(|open| open.written > LONG) {
                let number = |line: &Line| {
                    if let Line::Removed { item, .. } = line { item.parse().ok() } else { None }
                };
                let made = self.make(lines.iter().find_map(number).unwrap_or(self.next + 1))?;
                self.open.push(made);
            }
            self.open.last_mut().map_or(Ok(()), |open| open.append(lines))?;
        }
        Ok(())
    }

    /// The folder that was announced last could not be removed.
    pub fn stayed(&mut self) {
        if let Some(last) = self.open.len().checked_sub(1) {
            self.take_back(last, Line::Stayed);
        }
    }

    /// What was announced as this item did not come; nothing of it is kept.
    pub fn did_not_come(&mut self, item: &str) {
        if let Some(at) = self.of(item) {
            self.take_back(at, Line::NotCome { item: item.to_owned() });
        }
    }

    /// In the manifest that it was announced in.
    fn take_back(&mut self, at: usize, line: Line) {
        if let Err(cause) = self.open[at].append(&[line]) {
            self.unusable = Some(super::in_words(&cause));
        }
    }

    /// Under a name that nobody looks at until its manifest is held.
    fn make(&self, first: u64) -> io::Result<Open> {
        let name = format!("{}.{}", self.terms.request, uuid::Uuid::now_v7().simple());
        let hidden = self.terms.into.join(format!(".{name}"));
        let mut builder = DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&hidden)?;
        let begun = Line::Begun {
            request: self.terms.request.clone(),
            tool: self.tool.to_owned(),
            at_ms: now_ms(),
            proof: self.terms.proof.clone(),
        };
        manifest::append(&hidden.join(MANIFEST), &[begun])?;
        let held = File::open(hidden.join(MANIFEST))?;
        held.lock()?;
        let folder = self.terms.into.join(name);
        fs::rename(&hidden, &folder)?;
        manifest::sync_folder(&folder)?;
        manifest::sync_folder(&self.terms.into)?;
        Ok(Open { folder, first, written: 0, _held: held })
    }

    /// Where something of this name goes.
    pub fn place(&self, item: &str) -> Option<PathBuf> {
        Some(self.open[self.of(item)?].folder.join(item))
    }

    /// Which of the folders an item was announced in.
    fn of(&self, item: &str) -> Option<usize> {
        let number: u64 = item.parse().ok()?;
        self.open.iter().rposition(|open| open.first <= number)
    }
}

impl Drop for Bin<'_> {
    fn drop(&mut self) {
        if !self.lost.is_empty() {
            self.announce(&[]);
        }
    }
}

impl Open {
    fn append(&mut self, lines: &[Line]) -> io::Result<()> {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let us = now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1_000);
        let dated = [&[Line::Now { us: us.unsigned_abs() }], lines].concat();
        self.written += manifest::append(&self.folder.join(MANIFEST), &dated)?;
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_manifest_is_followed_by_another_and_each_item_has_its_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let terms = Terms {
            request: crate::ids::RequestId::new(),
            proof: String::new(),
            into: folder.path().to_owned(),
            max_bytes: 0,
            workspaces: Vec::new(),
            programs: PathBuf::new(),
        };
        let mut bin = Bin::new(&terms, "rm");
        let long = PathBuf::from("/w").join("x".repeat(4_000));
        // With the next lines the first manifest would be longer than what is read of one.
        let lines: Vec<Line> = (0..MOST_LINES * 5).map(|_| removed(&long, &bin.name(), 1, 1)).collect();
        assert!(bin.announce(&lines), "{:?}", bin.unusable);
        let places: Vec<PathBuf> = lines
            .iter()
            .map(|line| match line {
                Line::Removed { item, .. } => bin.place(item).expect("announced"),
                _ => unreachable!("only these"),
            })
            .collect();
        let mut folders = Vec::new();
        for place in &places {
            let folder = place.parent().expect("in a folder").to_owned();
            if folders.last() != Some(&folder) {
                folders.push(folder);
            }
        }
        assert!(folders.len() > 1, "{folders:?}");
        let mut at = 0;
        for folder in &folders {
            let manifest = folder.join(MANIFEST);
            assert!(manifest.metadata().expect("there").len() < manifest::LARGEST);
            for line in manifest::read::<Line>(&manifest).expect("readable") {
                if let Line::Removed { item, .. } = line {
                    assert_eq!(places[at], folder.join(item));
                    at += 1;
                }
            }
        }
        assert_eq!(at, places.len());
        // What did not come is said where it was announced, and is not among the rest then.
        bin.did_not_come("1");
        let first = manifest::read::<Line>(&folders[0].join(MANIFEST)).expect("readable");
        let has_first = |lines: &[Line]| {
            lines.iter().any(|line| matches!(line, Line::Removed { item, .. } if item == "1"))
        };
        assert!(has_first(&first) && !has_first(&manifest::settled(first)));
    }
}
