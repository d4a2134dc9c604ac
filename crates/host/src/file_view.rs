//! Files that some calls see in place of the real ones: replaced, added and removed files by their paths.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ToolFuture;
use punie_tool::ToolContext;

/// Decides which calls see a view of the files.
pub trait FileViews: fmt::Debug + Send + Sync + 'static {
    /// Returns the view of this call; `None` if it sees the real files.
    fn view_for_call<'a>(&'a self, cx: &'a ToolContext) -> ToolFuture<'a, Option<Arc<FileView>>>;
}

/// A view: paths without symlinks, each with the file that stands in for it, or with none if the file is removed.
#[derive(Debug, Default)]
pub struct FileView {
    files: BTreeMap<PathBuf, Option<ViewedFile>>,
}

/// A file that stands in for another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewedFile {
    /// The path of the content.
    pub content: PathBuf,
    /// Its size in bytes.
    pub size: u64,
}

/// An entry that a view has in a folder.
#[derive(Debug, PartialEq, Eq)]
pub enum ViewedEntry<'a> {
    /// A file in place of the real one, or beside the real ones.
    File(&'a ViewedFile),
    /// A folder with files of the view in it.
    Folder,
    /// A real file that the view does not have.
    Removed,
}

impl FileView {
    /// Creates a view of these files.
    pub fn new(files: BTreeMap<PathBuf, Option<ViewedFile>>) -> Self {
        Self { files }
    }

    /// Returns what the view has at a path: `None` is the real file, `Some(None)` is no file.
    pub fn file_at(&self, path: &Path) -> Option<Option<&ViewedFile>> {
        self.files.get(path).map(Option::as_ref)
    }

    /// Opens the content at a path; `None` for the real file.
    ///
    /// # Errors
    /// `NotFound` for a removed file; the system's.
    pub fn open_at(&self, path: &Path) -> Option<io::Result<File>> {
        Some(match self.file_at(path)? {
            Some(file) => File::open(&file.content),
            None => Err(io::ErrorKind::NotFound.into()),
        })
    }

    /// Returns whether the view has a file below this folder.
    pub fn has_files_below(&self, folder: &Path) -> bool {
        self.entries_in(folder)
            .iter()
            .any(|(_, entry)| *entry != ViewedEntry::Removed)
    }

    /// Returns the files that the view adds, replaces or removes anywhere below a folder.
    pub fn files_below<'a>(
        &'a self,
        folder: &'a Path,
    ) -> impl Iterator<Item = (&'a Path, Option<&'a ViewedFile>)> {
        self.files
            .range(folder.to_owned()..)
            .take_while(move |(path, _)| path.starts_with(folder))
            .filter_map(move |(path, file)| {
                let rest = path.strip_prefix(folder).ok()?;
                (!rest.as_os_str().is_empty()).then_some((rest, file.as_ref()))
            })
    }

    /// Returns the entries that the view has in a folder, in order of their names.
    pub fn entries_in<'a>(&'a self, folder: &'a Path) -> Vec<(&'a OsStr, ViewedEntry<'a>)> {
        let mut entries: Vec<(&OsStr, ViewedEntry<'_>)> = Vec::new();
        for (rest, file) in self.files_below(folder) {
            let mut parts = rest.iter();
            let Some(name) = parts.next() else { continue };
            let is_direct = parts.next().is_none();
            let entry = match (file, is_direct) {
                (Some(file), true) => ViewedEntry::File(file),
                (None, true) => ViewedEntry::Removed,
                (Some(_), false) => ViewedEntry::Folder,
                (None, false) => continue,
            };
            if entry != ViewedEntry::Folder || entries.last().is_none_or(|(last, _)| *last != name)
            {
                entries.push((name, entry));
            }
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_the_entries_of_its_own_level() {
        let file = |name: &str| ViewedFile {
            content: name.into(),
            size: 1,
        };
        let view = FileView::new(BTreeMap::from([
            ("/w/a".into(), Some(file("1"))),
            ("/w/b/c".into(), Some(file("2"))),
            ("/w/b/d/e".into(), Some(file("3"))),
            ("/w/f".into(), None),
            ("/w/g/h".into(), None),
            ("/wide/i".into(), Some(file("4"))),
        ]));
        let entries = view.entries_in(Path::new("/w"));
        let names: Vec<&OsStr> = entries.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["a", "b", "f"]);
        assert_eq!(entries[1].1, ViewedEntry::Folder);
        assert_eq!(entries[2].1, ViewedEntry::Removed);
        assert!(view.has_files_below(Path::new("/w/b/d")));
        assert!(!view.has_files_below(Path::new("/w/g")));
        assert!(view.file_at(Path::new("/w/x")).is_none());
        assert_eq!(view.file_at(Path::new("/w/f")), Some(None));
    }
}
