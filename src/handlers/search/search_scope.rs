//! The files that a search covers: folders, hidden names, ignored names and file types.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::types::{FileTypeDef, Types, TypesBuilder};
use parking_lot::Mutex;

use super::SearchDeps;
use super::coverage::SearchCoverage;
use super::folder::FolderOpener;
use super::folder_entries::{EntryNames, WalkEntryKind};
use super::folder_walk::walk_folders;
use super::ignore_rules::{IgnoreRules, RuleFiles};
use super::result_text::workspace_path_text;
use super::search_stop::SearchStop;
use super::walk_entry::{WalkControl, WalkEntry, WalkFolder, WalkStart, WalkVisitor};
use punie_host::{FileView, RawPath, Workspace};
use punie_tool::ToolError;

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
    /// The files that the call sees in place of the real ones.
    pub(super) view: Option<Arc<FileView>>,
    pub(super) deps: SearchDeps,
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
    fn matches_entry(&self, entry: &WalkEntry<'_>) -> bool;
    /// Handles an entry that matches and is not ignored.
    fn handle_match(&mut self, entry: &WalkEntry<'_>, kind: WalkEntryKind) -> MatchAction;
    fn handle_file(&mut self, entry: &WalkEntry<'_>) -> WalkControl;
}

impl SearchScope {
    /// Resolves the requested folder; without one, returns all workspaces.
    pub(super) fn resolve_roots(
        workspace: &Workspace,
        path: Option<&RawPath>,
        view: Option<&FileView>,
    ) -> Result<Vec<PathBuf>, ToolError> {
        let Some(path) = path.filter(|path| !path.as_str().is_empty()) else {
            let mut roots: Vec<PathBuf> = workspace.root_paths().map(Path::to_owned).collect();
            roots.dedup();
            return Ok(roots);
        };
        let resolved = workspace.resolve_inside(path)?;
        let absolute = resolved.absolute_path();
        let is_viewed = |view: &FileView| {
            matches!(view.file_at(absolute), Some(Some(_))) || view.has_files_below(absolute)
        };
        if let Some(Some(None)) = view.map(|view| view.file_at(absolute)) {
            return Err(ToolError::not_found(format!(
                "{} does not exist: it is removed among the staged files (SelfModStatus lists them).",
                resolved.display_text()
            )));
        }
        if view.is_some_and(is_viewed) {
            return Ok(vec![absolute.to_owned()]);
        }
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

    /// Returns the part of an answer that names the searched folders.
    pub(super) fn describe_roots(&self) -> String {
        match self.roots.as_slice() {
            [one] => format!("in {}", one.display()),
            many => format!("in {} workspaces", many.len()),
        }
    }

    /// Formats a path for the answer.
    pub(super) fn path_text(&self, path: &Path) -> String {
        workspace_path_text(self.deps.workspace.first_root(), path)
    }

    /// Walks all files on several threads, until the handlers or the stop signal end it. With the coverage of an
    /// earlier walk, it walks only the entries that were skipped as ignored or hidden.
    pub(super) fn walk_files<L: SearchHandler>(
        &self,
        earlier: Option<&SearchCoverage>,
        halt: &SearchStop,
        handler: impl Fn() -> L + Sync,
    ) -> SearchCoverage {
        let Some(earlier) = earlier else {
            let is_missing =
                |root: &Path| self.deps.workspace.missing_paths().any(|one| one == root);
            let roots = self.roots.iter().cloned();
            let (missing, roots): (Vec<PathBuf>, Vec<PathBuf>) =
                roots.partition(|root| is_missing(root));
            let starts = roots.iter().map(|root| self.to_walk_start(root));
            let mut coverage = self.walk_starts(starts.collect(), halt, handler);
            coverage.missing = missing;
            return coverage;
        };
        let all = Self {
            include_ignored: true,
            hidden: true,
            ..self.clone()
        };
        all.walk_starts(earlier.skipped.clone(), halt, handler)
    }

    fn walk_starts<L: SearchHandler>(
        &self,
        starts: Vec<WalkStart>,
        halt: &SearchStop,
        handler: impl Fn() -> L + Sync,
    ) -> SearchCoverage {
        let total = Mutex::new(SearchCoverage::default());
        let folders = FolderOpener::new(self.deps.workspace.clone(), self.view.clone());
        walk_folders(&folders, starts, halt, || EntryChooser {
            scope: self,
            handler: handler(),
            own: SearchCoverage::default(),
            total: &total,
        });
        let mut coverage = total.into_inner();
        coverage.timed_out = halt.has_timed_out();
        coverage
    }

    fn to_walk_start(&self, root: &Path) -> WalkStart {
        let viewed = self.view.as_ref().and_then(|view| view.file_at(root));
        if viewed.map_or_else(|| root.is_file(), |viewed| viewed.is_some()) {
            let folder = root.parent().unwrap_or(root);
            let name = root.file_name().unwrap_or_default();
            return WalkStart {
                root: folder.into(),
                rel: name.into(),
                kind: WalkEntryKind::File,
                rules: None,
            };
        }
        let rules = (!self.include_ignored)
            .then(|| IgnoreRules::from_parents(root, self.deps.user_ignore.as_deref()));
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
    fn links_to_file(&self, entry: &WalkEntry<'_>) -> bool {
        let real = entry.absolute_path().canonicalize();
        real.is_ok_and(|real| real.is_file() && self.deps.workspace.contains_real_path(&real))
    }

    /// Returns whether the folder is another root of this search, which is walked separately.
    fn is_other_root(&self, place: &WalkFolder, rel: &Path) -> bool {
        self.roots.len() > 1 && self.roots.contains(&place.root.join(rel))
    }
}

/// The choice of entries on one thread. Adds its counts to the total at the end.
struct EntryChooser<'a, L> {
    scope: &'a SearchScope,
    handler: L,
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
                && self.accepts(place, place.join_name(name, path), name, kind, &mut next)
        });
        (chosen, next)
    }

    fn visit_file(&mut self, entry: &WalkEntry<'_>) -> WalkControl {
        // Names found in a folder were checked there.
        if entry.named
            && !(self.handler.matches_entry(entry) && self.scope.has_wanted_type(entry.rel))
        {
            return WalkControl::Continue;
        }
        self.handler.handle_file(entry)
    }

    fn count_unreadable(&mut self) {
        self.own.unreadable += 1;
    }
}

impl<L: SearchHandler> EntryChooser<'_, L> {
    /// Returns whether to keep a name, to enter the folder or to search the file.
    fn accepts(
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
        let entry = WalkEntry::in_folder(place, rel, name);
        let wanted = self.handler.wanted_kind();
        let handler = &self.handler;
        let fits = || {
            (kind != WalkEntryKind::File || self.scope.has_wanted_type(rel))
                && handler.matches_entry(&entry)
        };
        let hidden = !self.scope.hidden && name.as_encoded_bytes().first() == Some(&b'.');
        if hidden
            || place.rules.as_ref().is_some_and(|rules| {
                rules.is_ignored(&place.root, rel, kind == WalkEntryKind::Folder)
            })
        {
            if kind == WalkEntryKind::Folder || kind == wanted && fits() {
                let skipped = WalkStart {
                    root: Arc::clone(&place.root),
                    rel: rel.to_owned(),
                    kind,
                    rules: None,
                };
                self.own.record_skipped(skipped, hidden);
            }
            return false;
        }
        let enters = kind == WalkEntryKind::Folder && !self.scope.is_other_root(place, rel);
        let is_wanted_link = kind == WalkEntryKind::Link
            && handler.wants_links()
            && fits()
            && self.scope.links_to_file(&entry);
        if kind != wanted && !is_wanted_link {
            match kind {
                // Below a linked folder any name may fit.
                WalkEntryKind::Link => {
                    let leads_on = || entry.absolute_path().metadata().is_ok_and(|to| to.is_dir());
                    self.own.links += u64::from(fits() || leads_on());
                }
                WalkEntryKind::Other => self.own.special += u64::from(fits()),
                WalkEntryKind::File | WalkEntryKind::Folder => {}
            }
            return enters;
        }
        if !fits() {
            return enters;
        }
        match self.handler.handle_match(&entry, kind) {
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
        self.total
            .lock()
            .merge_counts(std::mem::take(&mut self.own));
    }
}

fn find_rule_files(names: &EntryNames) -> RuleFiles {
    let mut files = RuleFiles::default();
    for (name, kind) in names.iter() {
        match (name.as_encoded_bytes(), kind) {
            (b".ignore", WalkEntryKind::File) => files.ignore = true,
            (b".gitignore", WalkEntryKind::File) => files.git_ignore = true,
            (b".git", WalkEntryKind::Folder | WalkEntryKind::File) => files.git = Some(kind),
            _ => {}
        }
    }
    files
}

/// Returns the files of a language, by ripgrep's type names.
pub(super) fn select_file_types(name: &str) -> Result<Types, ToolError> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    builder.select(name);
    builder.build().map_err(|_| {
        let definitions = builder.definitions();
        let mut names: Vec<&str> = definitions.iter().map(FileTypeDef::name).collect();
        let score = |known: &str| strsim::jaro_winkler(name, known);
        names.sort_by(|a, b| score(b).total_cmp(&score(a)));
        names.truncate(4);
        ToolError::invalid_args(format!(
            "There is no file type {name:?}. Near ones: {}. Or use a file pattern, such as `*.{name}`.",
            names.join(", ")
        ))
    })
}
