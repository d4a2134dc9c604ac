//! The search for files by name, on several threads. Not here: the pattern and the answer (Glob).

use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Deserialize;

use super::coverage::SearchCoverage;
use super::file_glob::FileGlob;
use super::folder_entries::WalkEntryKind;
use super::folder_walk::{WalkControl, WalkEntry};
use super::search_scope::{MatchAction, SearchHandler, SearchScope};
use super::search_stop::SearchStop;
use super::smallest_items::{SmallestItems, lock_ignoring_poison};

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
        left: Option<&SearchCoverage>,
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
            own: Some(SmallestItems::new(keep, |_| 1)),
            all: &pages,
        };
        let coverage = match left {
            Some(earlier) => self.scope.walk_skipped(&earlier.skipped, self.halt, finder),
            None => self.scope.walk_all(self.halt, finder),
        };
        let count = count.into_inner();
        let files = pages
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .into_sorted();
        FoundPaths {
            files,
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
    pub(super) count: &'a AtomicU64,
    own: Option<SmallestItems<FoundPath>>,
    all: &'a Mutex<SmallestItems<FoundPath>>,
}

impl SearchHandler for PathFinder<'_> {
    fn wanted_kind(&self) -> WalkEntryKind {
        self.search.kind
    }

    fn matches_entry(&self, spot: &WalkEntry<'_>) -> bool {
        self.search.glob.matches_file(spot.rel, spot.name)
    }

    fn wants_links(&self) -> bool {
        self.search.kind == WalkEntryKind::File
    }

    fn handle_match(&mut self, spot: &WalkEntry<'_>, kind: WalkEntryKind) -> MatchAction {
        let newest = match self.order {
            SortOrder::Mtime => spot.modified_time(),
            SortOrder::Name | SortOrder::Any => None,
        };
        if let Some(own) = &mut self.own {
            let too_old = own
                .last_needed()
                .is_some_and(|last| Reverse(newest) > last.newest);
            if !too_old {
                let is_link =
                    kind == WalkEntryKind::Link && self.search.kind != WalkEntryKind::Link;
                own.push(FoundPath {
                    newest: Reverse(newest),
                    path: spot.absolute_path(),
                    is_link,
                });
            }
        }
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 >= self.enough {
            MatchAction::Quit
        } else {
            MatchAction::Done
        }
    }

    fn handle_file(&mut self, spot: &WalkEntry<'_>) -> WalkControl {
        // Only the start of a walk comes here without its name having been checked.
        if self.handle_match(spot, self.search.kind) == MatchAction::Quit {
            WalkControl::Quit
        } else {
            WalkControl::Continue
        }
    }
}

impl Drop for PathFinder<'_> {
    fn drop(&mut self) {
        if let Some(own) = self.own.take() {
            lock_ignoring_poison(self.all).merge_from(own);
        }
    }
}
