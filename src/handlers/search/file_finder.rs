//! The search for files by name, on several threads.

use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;

use super::coverage::SearchCoverage;
use super::file_glob::FileGlob;
use super::folder_entries::WalkEntryKind;
use super::search_scope::{MatchAction, SearchHandler, SearchScope};
use super::search_stop::SearchStop;
use super::smallest_items::SmallestItems;
use super::walk_entry::{WalkControl, WalkEntry};

/// The order of the paths that are found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum SortOrder {
    #[default]
    Mtime,
    Name,
    Any,
}

/// A found path, ordered as the list is.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FoundPath {
    pub(super) newest: Reverse<Option<SystemTime>>,
    pub(super) path: PathBuf,
    /// It is a symbolic link to a file.
    pub(super) is_link: bool,
}

pub(super) struct FoundPaths {
    pub(super) files: Vec<FoundPath>,
    pub(super) count: u64,
    /// The search stopped because enough was found.
    pub(super) stopped: bool,
    pub(super) coverage: SearchCoverage,
}

/// A search for names: its folders, pattern, kind of entry and time limit.
#[derive(Clone, Copy)]
pub(super) struct FileNameSearch<'a> {
    pub(super) scope: &'a SearchScope,
    pub(super) glob: &'a FileGlob,
    pub(super) kind: WalkEntryKind,
    pub(super) halt: &'a SearchStop,
}

impl FileNameSearch<'_> {
    pub(super) fn kind_noun(&self) -> &'static str {
        match self.kind {
            WalkEntryKind::Folder => "folder",
            WalkEntryKind::Link => "link",
            WalkEntryKind::File | WalkEntryKind::Other => "file",
        }
    }

    /// Searches the scope, or the parts that an earlier search skipped.
    pub(super) fn find_paths(
        &self,
        order: SortOrder,
        keep: usize,
        earlier: Option<&SearchCoverage>,
    ) -> FoundPaths {
        let pages = Mutex::new(SmallestItems::new(keep, |_: &FoundPath| 1));
        let count = AtomicU64::new(0);
        let enough = if order == SortOrder::Any {
            keep as u64 + 1
        } else {
            u64::MAX
        };
        let finder = || PathFinder {
            search: self,
            order,
            enough,
            count: &count,
            own: SmallestItems::new(keep, |_| 1),
            all: &pages,
        };
        let coverage = self.scope.walk_files(earlier, self.halt, finder);
        let count = count.into_inner();
        FoundPaths {
            files: pages.into_inner().into_sorted(),
            count,
            stopped: count >= enough,
            coverage,
        }
    }
}

/// The search on one thread.
struct PathFinder<'a> {
    search: &'a FileNameSearch<'a>,
    order: SortOrder,
    enough: u64,
    count: &'a AtomicU64,
    own: SmallestItems<FoundPath>,
    all: &'a Mutex<SmallestItems<FoundPath>>,
}

impl SearchHandler for PathFinder<'_> {
    fn wanted_kind(&self) -> WalkEntryKind {
        self.search.kind
    }

    fn matches_entry(&self, entry: &WalkEntry<'_>) -> bool {
        self.search.glob.matches(entry.rel, entry.name)
    }

    fn wants_links(&self) -> bool {
        self.search.kind == WalkEntryKind::File
    }

    fn handle_match(&mut self, entry: &WalkEntry<'_>, kind: WalkEntryKind) -> MatchAction {
        let is_by_time = self.order == SortOrder::Mtime;
        let newest = is_by_time.then(|| entry.modified_time()).flatten();
        let last = self.own.last_needed();
        if last.is_none_or(|last| Reverse(newest) <= last.newest) {
            self.own.push(FoundPath {
                newest: Reverse(newest),
                path: entry.absolute_path(),
                is_link: kind == WalkEntryKind::Link && self.search.kind != WalkEntryKind::Link,
            });
        }
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 >= self.enough {
            MatchAction::Quit
        } else {
            MatchAction::Done
        }
    }

    fn handle_file(&mut self, entry: &WalkEntry<'_>) -> WalkControl {
        // Only the start of a walk comes here without its name having been checked.
        if self.handle_match(entry, self.search.kind) == MatchAction::Quit {
            WalkControl::Quit
        } else {
            WalkControl::Continue
        }
    }
}

impl Drop for PathFinder<'_> {
    fn drop(&mut self) {
        self.all.lock().merge_from(&mut self.own);
    }
}
