//! The names in a folder, stored in few allocations.

use std::ffi::OsStr;
use std::path::Path;

use punie_host::FileView;
use punie_host::file_view::ViewedEntry;

/// The size of one read from the system. It must hold the longest possible name.
const BUFFER_BYTES: usize = 32 << 10;

/// The kind of a folder entry, without following a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WalkEntryKind {
    File,
    Folder,
    Link,
    /// A FIFO, a socket or a device: never opened.
    Other,
}

/// The buffers with which a thread lists one folder after the other.
#[derive(Debug)]
pub(super) struct FolderBuffer {
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "the standard library has its own buffer")
    )]
    pub(super) buffer: Vec<u8>,
    pub(super) names: EntryNames,
}

impl Default for FolderBuffer {
    fn default() -> Self {
        Self {
            buffer: Vec::with_capacity(BUFFER_BYTES),
            names: EntryNames::default(),
        }
    }
}

/// Names with their kinds.
#[derive(Debug, Default)]
pub(super) struct EntryNames {
    texts: NameTexts,
    entries: Vec<(Text, WalkEntryKind)>,
}

impl EntryNames {
    pub(super) fn clear(&mut self) {
        self.texts.clear();
        self.entries.clear();
    }

    pub(super) fn push(&mut self, name: &OsStr, kind: WalkEntryKind) {
        let text = self.texts.push(name);
        self.entries.push((text, kind));
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the name at an index. Panics if there is none.
    pub(super) fn name_at(&self, place: usize) -> (&OsStr, WalkEntryKind) {
        let (text, kind) = &self.entries[place];
        (self.texts.get(text), *kind)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&OsStr, WalkEntryKind)> {
        self.entries
            .iter()
            .map(|(text, kind)| (self.texts.get(text), *kind))
    }

    /// Adds and removes the names of a folder as a view of the files says.
    pub(super) fn apply_view(&mut self, view: &FileView, folder: &Path) {
        let viewed = view.entries_in(folder);
        if viewed.is_empty() {
            return;
        }
        let is_real_folder = |name: &OsStr| {
            self.iter()
                .any(|(known, kind)| known == name && kind == WalkEntryKind::Folder)
        };
        let added: Vec<(&OsStr, WalkEntryKind)> = viewed
            .iter()
            .filter_map(|(name, entry)| match entry {
                ViewedEntry::File(_) => Some((*name, WalkEntryKind::File)),
                ViewedEntry::Folder if !is_real_folder(name) => {
                    Some((*name, WalkEntryKind::Folder))
                }
                ViewedEntry::Folder | ViewedEntry::Removed => None,
            })
            .collect();
        let mut names = self.filter_sorted(|name, _| {
            let is_viewed = |(known, entry): &(&OsStr, ViewedEntry<'_>)| {
                *known == name && *entry != ViewedEntry::Folder
            };
            !viewed.iter().any(is_viewed)
        });
        for (name, kind) in added {
            names.push(name, kind);
        }
        *self = names;
    }

    /// Returns the names that the filter accepts, sorted, without spare capacity.
    pub(super) fn filter_sorted(
        &self,
        mut stays: impl FnMut(&OsStr, WalkEntryKind) -> bool,
    ) -> Self {
        let mut chosen = Self::default();
        let mut staying: Vec<(&OsStr, WalkEntryKind)> = self
            .iter()
            .filter(|(name, kind)| stays(name, *kind))
            .collect();
        staying.sort_unstable_by_key(|(name, _)| *name);
        chosen.entries.reserve_exact(staying.len());
        chosen
            .texts
            .reserve(staying.iter().map(|(name, _)| name.len()).sum());
        for (name, kind) in staying {
            chosen.push(name, kind);
        }
        chosen
    }
}

/// The texts of all names in one buffer.
#[cfg(unix)]
#[derive(Debug, Default)]
struct NameTexts(Vec<u8>);

/// The range of a name in the buffer.
#[cfg(unix)]
type Text = std::ops::Range<usize>;

#[cfg(unix)]
impl NameTexts {
    fn clear(&mut self) {
        self.0.clear();
    }

    fn reserve(&mut self, bytes: usize) {
        self.0.reserve_exact(bytes);
    }

    fn push(&mut self, name: &OsStr) -> Text {
        let start = self.0.len();
        self.0.extend_from_slice(name.as_encoded_bytes());
        start..self.0.len()
    }

    fn get(&self, text: &Text) -> &OsStr {
        std::os::unix::ffi::OsStrExt::from_bytes(&self.0[text.clone()])
    }
}

/// Empty: on other systems a slice of a name cannot be turned back into one, so each name is stored separately.
#[cfg(not(unix))]
#[derive(Debug, Default)]
struct NameTexts;

#[cfg(not(unix))]
type Text = Box<OsStr>;

#[cfg(not(unix))]
impl NameTexts {
    fn clear(&mut self) {}

    fn reserve(&mut self, _: usize) {}

    fn push(&mut self, name: &OsStr) -> Text {
        name.into()
    }

    fn get<'a>(&'a self, text: &'a Text) -> &'a OsStr {
        text
    }
}
