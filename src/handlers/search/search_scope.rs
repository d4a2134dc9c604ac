//! The files that a search covers: folders, hidden names, ignored names and file types. Not here: the order, the
//! threads and the pattern.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ignore::types::{Types, TypesBuilder};

use super::coverage::SearchCoverage;
use super::folder::FolderOpener;
use super::folder_entries::{EntryNames, WalkEntryKind};
use super::folder_walk::{
    WalkControl, WalkEntry, WalkFolder, WalkStart, WalkVisitor, walk_folders,
};
use super::ignore_rules::{IgnoreRules, RuleFiles};
use super::search_stop::SearchStop;
use super::smallest_items::lock_ignoring_poison;
use crate::acp::{RawPath, Workspace};
use crate::output::path_text::path_text;
use crate::tool::ToolError;

/// The files that a search covers.
#[derive(Debug, Clone)]
pub(super) struct SearchScope {
    /// Absolute folders (or one file) inside the workspace.
    pub(super) roots: Vec<PathBuf>,
    /// Include files that ignore rules exclude.
    pub(super) include_ignored: bool,
    /// Include names that begin with a dot.
    pub(super) hidden: bool,
    /// Only files of these types.
    pub(super) types: Option<Types>,
    /// The user's own git ignore file.
    pub(super) user_ignore: Option<PathBuf>,
    pub(super) workspace: Workspace,
}

/// The handling of a matching name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MatchAction {
    /// It is handled later, in order of path.
    Later,
    /// It is handled.
    Done,
    /// The search needs no more.
    Quit,
}

/// The handler of a search on one thread.
pub(super) trait SearchHandler: Send {
    /// Returns the kind of entry that the search looks for.
    fn wanted_kind(&self) -> WalkEntryKind;
    /// Returns whether links to files count as well.
    fn wants_links(&self) -> bool {
        false
    }
    /// Returns whether the name or path matches.
    fn matches_entry(&self, spot: &WalkEntry<'_>) -> bool;
    /// Handles an entry that matches and is not ignored.
    fn handle_match(&mut self, spot: &WalkEntry<'_>, kind: WalkEntryKind) -> MatchAction;
    /// Searches a file.
    fn handle_file(&mut self, spot: &WalkEntry<'_>) -> WalkControl;
}

impl SearchScope {
    /// Resolves the requested folder; without one, returns all workspaces.
    pub(super) fn resolve_roots(
        workspace: &Workspace,
        path: Option<&RawPath>,
    ) -> Result<Vec<PathBuf>, ToolError> {
        let Some(path) = path.filter(|path| !path.as_str().is_empty()) else {
            let mut roots: Vec<PathBuf> = workspace.root_paths().map(Path::to_owned).collect();
            roots.dedup();
            return Ok(roots);
        };
        let resolved = workspace.resolve_in_workspace(path)?;
        let kind = resolved.file_metadata().map_err(|cause| {
            if cause.kind() == std::io::ErrorKind::NotFound {
                ToolError::not_found(format!(
                    "There is nothing at {}. Use Glob to find the folder.",
                    resolved.display_text()
                ))
            } else {
                ToolError::from_io(resolved.display_text(), &cause)
            }
        })?;
        if !kind.is_dir() && !kind.is_file() {
            return Err(ToolError::invalid_args(format!(
                "{} is neither a folder nor a regular file, so it cannot be searched.",
                resolved.display_text()
            )));
        }
        Ok(vec![resolved.absolute_path().to_owned()])
    }

    /// Walks all files on several threads, until the handlers or the stop signal end it.
    pub(super) fn walk_all<L: SearchHandler>(
        &self,
        halt: &SearchStop,
        looker: impl Fn() -> L + Sync,
    ) -> SearchCoverage {
        let starts: Vec<WalkStart> = self
            .roots
            .iter()
            .map(|root| self.to_walk_start(root))
            .collect();
        self.walk_starts(&starts, halt, looker)
    }

    /// Walks the entries that an earlier walk skipped as ignored or hidden.
    pub(super) fn walk_skipped<L: SearchHandler>(
        &self,
        left: &[WalkStart],
        halt: &SearchStop,
        looker: impl Fn() -> L + Sync,
    ) -> SearchCoverage {
        let all = Self {
            include_ignored: true,
            hidden: true,
            ..self.clone()
        };
        all.walk_starts(left, halt, looker)
    }

    fn walk_starts<L: SearchHandler>(
        &self,
        starts: &[WalkStart],
        halt: &SearchStop,
        looker: impl Fn() -> L + Sync,
    ) -> SearchCoverage {
        let total = Mutex::new(SearchCoverage::default());
        let folders = FolderOpener::new(self.workspace.clone());
        walk_folders(&folders, starts, halt, || EntryChooser {
            scope: self,
            looker: looker(),
            own: SearchCoverage::default(),
            total: &total,
        });
        let mut coverage = std::mem::take(&mut *lock_ignoring_poison(&total));
        coverage.timed_out = halt.has_timed_out();
        coverage
    }

    fn to_walk_start(&self, root: &Path) -> WalkStart {
        if root.is_file() {
            let (folder, name) = (
                root.parent().unwrap_or(root),
                root.file_name().unwrap_or_default(),
            );
            return WalkStart {
                root: folder.into(),
                rel: name.into(),
                kind: WalkEntryKind::File,
                rules: None,
            };
        }
        let rules = (!self.include_ignored)
            .then(|| IgnoreRules::from_parents(root, self.user_ignore.as_deref()));
        WalkStart {
            root: root.into(),
            rel: PathBuf::new(),
            kind: WalkEntryKind::Folder,
            rules,
        }
    }

    fn has_wanted_type(&self, rel: &Path) -> bool {
        self.types
            .as_ref()
            .is_none_or(|types| !types.matched(rel, false).is_ignore())
    }

    /// Returns whether a link leads to a file in a workspace, which Read accepts.
    fn links_to_file(&self, spot: &WalkEntry<'_>) -> bool {
        let real = spot.absolute_path().canonicalize();
        real.is_ok_and(|real| {
            real.is_file()
                && self
                    .workspace
                    .root_paths()
                    .any(|root| real.starts_with(root))
        })
    }

    /// Returns whether the folder is another root of this search, which is walked separately.
    fn is_other_root(&self, place: &WalkFolder, rel: &Path) -> bool {
        self.roots.len() > 1 && self.roots.contains(&place.root.join(rel))
    }
}

/// The choice of entries on one thread. Adds its counts to the total at the end.
struct EntryChooser<'a, L> {
    scope: &'a SearchScope,
    looker: L,
    own: SearchCoverage,
    total: &'a Mutex<SearchCoverage>,
}

impl<L: SearchHandler> WalkVisitor for EntryChooser<'_, L> {
    fn choose_entries(
        &mut self,
        place: &mut WalkFolder,
        names: &EntryNames,
        path: &mut OsString,
    ) -> (EntryNames, WalkControl) {
        if let Some(rules) = &place.rules {
            place.rules =
                Some(rules.with_folder(&place.rel, &place.folder, find_rule_files(names)));
        }
        let mut next = WalkControl::Continue;
        let chosen = names.filter_sorted(|name, kind| {
            next != WalkControl::Quit
                && self.accepts_entry(place, place.join_name(name, path), name, kind, &mut next)
        });
        (chosen, next)
    }

    fn visit_file(&mut self, spot: &WalkEntry<'_>) -> WalkControl {
        // Names found in a folder were checked there.
        if spot.named && !(self.looker.matches_entry(spot) && self.scope.has_wanted_type(spot.rel))
        {
            return WalkControl::Continue;
        }
        self.looker.handle_file(spot)
    }

    fn count_unreadable(&mut self) {
        self.own.unreadable += 1;
    }
}

impl<L: SearchHandler> EntryChooser<'_, L> {
    /// Returns whether to keep a name, to enter the folder or to search the file.
    fn accepts_entry(
        &mut self,
        place: &WalkFolder,
        rel: &Path,
        name: &OsStr,
        kind: WalkEntryKind,
        next: &mut WalkControl,
    ) -> bool {
        // The contents of `.git` are never searched, even with hidden files.
        if name == ".git" {
            return false;
        }
        let spot = WalkEntry::in_folder(place, rel, name);
        let wanted = self.looker.wanted_kind();
        let looker = &self.looker;
        let fits = || {
            (kind != WalkEntryKind::File || self.scope.has_wanted_type(rel))
                && looker.matches_entry(&spot)
        };
        let hidden = !self.scope.hidden && name.as_encoded_bytes().first() == Some(&b'.');
        if hidden
            || place.rules.as_ref().is_some_and(|rules| {
                rules.is_ignored(&place.root, rel, kind == WalkEntryKind::Folder)
            })
        {
            if kind == WalkEntryKind::Folder || kind == wanted && fits() {
                let rel = rel.to_owned();
                self.own.record_skipped(
                    WalkStart {
                        root: Arc::clone(&place.root),
                        rel,
                        kind,
                        rules: None,
                    },
                    hidden,
                );
            }
            return false;
        }
        let enters = kind == WalkEntryKind::Folder && !self.scope.is_other_root(place, rel);
        let is_wanted_link = kind == WalkEntryKind::Link
            && looker.wants_links()
            && fits()
            && self.scope.links_to_file(&spot);
        if kind != wanted && !is_wanted_link {
            match kind {
                WalkEntryKind::Link => self.own.links += u64::from(fits()),
                WalkEntryKind::Other => self.own.special += u64::from(fits()),
                WalkEntryKind::File | WalkEntryKind::Folder => {}
            }
            return enters;
        }
        if !fits() {
            return enters;
        }
        match self.looker.handle_match(&spot, kind) {
            MatchAction::Later => true,
            MatchAction::Done => enters,
            MatchAction::Quit => {
                *next = WalkControl::Quit;
                false
            }
        }
    }
}

impl<L> Drop for EntryChooser<'_, L> {
    fn drop(&mut self) {
        lock_ignoring_poison(self.total).merge_counts(std::mem::take(&mut self.own));
    }
}

fn find_rule_files(names: &EntryNames) -> RuleFiles {
    let mut signs = RuleFiles::default();
    for (name, kind) in names.iter() {
        match (name.as_encoded_bytes(), kind) {
            (b".ignore", WalkEntryKind::File) => signs.ignore = true,
            (b".gitignore", WalkEntryKind::File) => signs.git_ignore = true,
            (b".git", WalkEntryKind::Folder | WalkEntryKind::File) => signs.git = Some(kind),
            _ => {}
        }
    }
    signs
}

/// Returns the files of a language, by ripgrep's type names.
pub(super) fn select_file_types(name: &str) -> Result<Types, ToolError> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    builder.select(name);
    builder.build().map_err(|_| {
        let mut near: Vec<(f64, String)> = builder
            .definitions()
            .into_iter()
            .map(|known| (strsim::jaro_winkler(name, known.name()), known.name().to_owned()))
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        let near: Vec<String> = near.into_iter().take(4).map(|(_, name)| name).collect();
        ToolError::invalid_args(format!(
            "There is no file type {name:?}. Near ones: {}. Or use a file pattern, such as `*.{name}`.",
            near.join(", ")
        ))
    })
}

/// Formats a path as tools accept it: relative to the first workspace, or absolute outside it.
pub(super) fn workspace_path_text(first: &Path, path: &Path) -> String {
    path_text(
        path.strip_prefix(first)
            .ok()
            .filter(|rest| !rest.as_os_str().is_empty())
            .unwrap_or(path),
    )
}
