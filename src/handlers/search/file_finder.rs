//! The search for files by name, on several threads. Not here: the pattern and the answer (Glob).

use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Deserialize;

use super::coverage::Coverage;
use super::file_glob::FileGlob;
use super::halt::Halt;
use super::listing::Kind;
use super::page::{Page, unlocked};
use super::scope::{Look, Scope, Take};
use super::walk::{Next, Spot};

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
    pub(super) coverage: Coverage,
}

/// A search for names: its folders, pattern, kind of entry and time limit.
#[derive(Clone, Copy)]
pub(super) struct FileSearch<'a> {
    pub(super) scope: &'a Scope,
    pub(super) glob: &'a FileGlob,
    pub(super) kind: Kind,
    pub(super) halt: &'a Halt,
}

impl FileSearch<'_> {
    pub(super) fn noun(&self) -> &'static str {
        match self.kind {
            Kind::Folder => "folder",
            Kind::Link => "link",
            Kind::File | Kind::Other => "file",
        }
    }

    /// Searches the scope, or the parts that an earlier search skipped.
    pub(super) fn run(&self, order: SortOrder, keep: usize, left: Option<&Coverage>) -> FoundPaths {
        let pages = Mutex::new(Page::new(keep, |_: &FoundPath| 1));
        let count = AtomicU64::new(0);
        let enough = if order == SortOrder::Any { keep as u64 + 1 } else { u64::MAX };
        let finder = || Finder {
            search: self,
            order,
            enough,
            count: &count,
            own: Some(Page::new(keep, |_| 1)),
            all: &pages,
        };
        let coverage = match left {
            Some(earlier) => self.scope.walk_left(&earlier.left, self.halt, finder),
            None => self.scope.walk(self.halt, finder),
        };
        let count = count.into_inner();
        let files = pages.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_items();
        FoundPaths { files, count, stopped: count >= enough, coverage }
    }
}

/// The search on one thread.
struct Finder<'a> {
    search: &'a FileSearch<'a>,
    order: SortOrder,
    enough: u64,
    pub(super) count: &'a AtomicU64,
    own: Option<Page<FoundPath>>,
    all: &'a Mutex<Page<FoundPath>>,
}

impl Look for Finder<'_> {
    fn kind(&self) -> Kind {
        self.search.kind
    }

    fn matches(&self, spot: &Spot<'_>) -> bool {
        self.search.glob.matches(spot.rel, spot.name)
    }

    fn wants_links(&self) -> bool {
        self.search.kind == Kind::File
    }

    fn take(&mut self, spot: &Spot<'_>, kind: Kind) -> Take {
        let newest = match self.order {
            SortOrder::Mtime => spot.modified(),
            SortOrder::Name | SortOrder::Any => None,
        };
        if let Some(own) = &mut self.own {
            let too_old = own.last().is_some_and(|last| Reverse(newest) > last.newest);
            if !too_old {
                let is_link = kind == Kind::Link && self.search.kind != Kind::Link;
                own.push(FoundPath { newest: Reverse(newest), path: spot.path(), is_link });
            }
        }
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 >= self.enough { Take::Quit } else { Take::Done }
    }

    fn file(&mut self, spot: &Spot<'_>) -> Next {
        // Only the start of a walk comes here without its name having been checked.
        if self.take(spot, self.search.kind) == Take::Quit { Next::Quit } else { Next::On }
    }
}

impl Drop for Finder<'_> {
    fn drop(&mut self) {
        if let Some(own) = self.own.take() {
            unlocked(self.all).absorb(own);
        }
    }
}
