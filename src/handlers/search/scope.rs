//! The files that a search covers: folders, hidden names, ignored names and file types. Not here: the order, the
//! threads and the pattern.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ignore::types::{Types, TypesBuilder};

use super::coverage::Coverage;
use super::folder::Folders;
use super::halt::Halt;
use super::listing::{Kind, Names};
use super::page::unlocked;
use super::rules::{Rules, Signs};
use super::walk::{Next, Place, Spot, Start, Visit, walk};
use crate::acp::{RawPath, Workspace};
use crate::output::path_text::path_text;
use crate::tool::ToolError;

/// The files that a search covers.
#[derive(Debug, Clone)]
pub(super) struct Scope {
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
pub(super) enum Take {
    /// It is handled later, in order of path.
    Later,
    /// It is handled.
    Done,
    /// The search needs no more.
    Quit,
}

/// The handler of a search on one thread.
pub(super) trait Look: Send {
    /// Returns the kind of entry that the search looks for.
    fn kind(&self) -> Kind;
    /// Returns whether links to files count as well.
    fn wants_links(&self) -> bool {
        false
    }
    /// Returns whether the name or path matches.
    fn matches(&self, spot: &Spot<'_>) -> bool;
    /// Handles an entry that matches and is not ignored.
    fn take(&mut self, spot: &Spot<'_>, kind: Kind) -> Take;
    /// Searches a file.
    fn file(&mut self, spot: &Spot<'_>) -> Next;
}

impl Scope {
    /// Resolves the requested folder; without one, returns all workspaces.
    pub(super) fn roots(workspace: &Workspace, path: Option<&RawPath>) -> Result<Vec<PathBuf>, ToolError> {
        let Some(path) = path.filter(|path| !path.as_str().is_empty()) else {
            let mut roots: Vec<PathBuf> = workspace.roots().map(Path::to_owned).collect();
            roots.dedup();
            return Ok(roots);
        };
        let resolved = workspace.resolve(path)?;
        let kind = resolved.metadata().map_err(|cause| {
            if cause.kind() == std::io::ErrorKind::NotFound {
                ToolError::not_found(format!(
                    "There is nothing at {}. Use Glob to find the folder.",
                    resolved.shown()
                ))
            } else {
                ToolError::io(resolved.shown(), &cause)
            }
        })?;
        if !kind.is_dir() && !kind.is_file() {
            return Err(ToolError::invalid_args(format!(
                "{} is neither a folder nor a regular file, so it cannot be searched.",
                resolved.shown()
            )));
        }
        Ok(vec![resolved.absolute().to_owned()])
    }

    /// Walks all files on several threads, until the handlers or the stop signal end it.
    pub(super) fn walk<L: Look>(&self, halt: &Halt, looker: impl Fn() -> L + Sync) -> Coverage {
        let starts: Vec<Start> = self.roots.iter().map(|root| self.start(root)).collect();
        self.walk_from(&starts, halt, looker)
    }

    /// Walks the entries that an earlier walk skipped as ignored or hidden.
    pub(super) fn walk_left<L: Look>(
        &self,
        left: &[Start],
        halt: &Halt,
        looker: impl Fn() -> L + Sync,
    ) -> Coverage {
        let all = Self { include_ignored: true, hidden: true, ..self.clone() };
        all.walk_from(left, halt, looker)
    }

    fn walk_from<L: Look>(&self, starts: &[Start], halt: &Halt, looker: impl Fn() -> L + Sync) -> Coverage {
        let total = Mutex::new(Coverage::default());
        let folders = Folders::new(self.workspace.clone());
        walk(&folders, starts, halt, || Chooser {
            scope: self,
            looker: looker(),
            own: Coverage::default(),
            total: &total,
        });
        let mut coverage = std::mem::take(&mut *unlocked(&total));
        coverage.timed_out = halt.late();
        coverage
    }

    fn start(&self, root: &Path) -> Start {
        if root.is_file() {
            let (folder, name) = (root.parent().unwrap_or(root), root.file_name().unwrap_or_default());
            return Start { root: folder.into(), rel: name.into(), kind: Kind::File, rules: None };
        }
        let rules = (!self.include_ignored).then(|| Rules::above(root, self.user_ignore.as_deref()));
        Start { root: root.into(), rel: PathBuf::new(), kind: Kind::Folder, rules }
    }

    fn of_type(&self, rel: &Path) -> bool {
        self.types.as_ref().is_none_or(|types| !types.matched(rel, false).is_ignore())
    }

    /// Returns whether a link leads to a file in a workspace, which Read accepts.
    fn leads_to_file(&self, spot: &Spot<'_>) -> bool {
        let real = spot.path().canonicalize();
        real.is_ok_and(|real| real.is_file() && self.workspace.roots().any(|root| real.starts_with(root)))
    }

    /// Returns whether the folder is another root of this search, which is walked separately.
    fn is_other_root(&self, place: &Place, rel: &Path) -> bool {
        self.roots.len() > 1 && self.roots.contains(&place.root.join(rel))
    }
}

/// The choice of entries on one thread. Adds its counts to the total at the end.
struct Chooser<'a, L> {
    scope: &'a Scope,
    looker: L,
    own: Coverage,
    total: &'a Mutex<Coverage>,
}

impl<L: Look> Visit for Chooser<'_, L> {
    fn choose(&mut self, place: &mut Place, names: &Names, path: &mut OsString) -> (Names, Next) {
        if let Some(rules) = &place.rules {
            place.rules = Some(rules.below(&place.rel, &place.folder, signs(names)));
        }
        let mut next = Next::On;
        let chosen = names.chosen(|name, kind| {
            next != Next::Quit && self.name(place, place.path_of(name, path), name, kind, &mut next)
        });
        (chosen, next)
    }

    fn file(&mut self, spot: &Spot<'_>) -> Next {
        // Names found in a folder were checked there.
        if spot.named && !(self.looker.matches(spot) && self.scope.of_type(spot.rel)) {
            return Next::On;
        }
        self.looker.file(spot)
    }

    fn unreadable(&mut self) {
        self.own.unreadable += 1;
    }
}

impl<L: Look> Chooser<'_, L> {
    /// Returns whether to keep a name, to enter the folder or to search the file.
    fn name(&mut self, place: &Place, rel: &Path, name: &OsStr, kind: Kind, next: &mut Next) -> bool {
        // The contents of `.git` are never searched, even with hidden files.
        if name == ".git" {
            return false;
        }
        let spot = Spot::below(place, rel, name);
        let wanted = self.looker.kind();
        let looker = &self.looker;
        let fits = || (kind != Kind::File || self.scope.of_type(rel)) && looker.matches(&spot);
        let hidden = !self.scope.hidden && name.as_encoded_bytes().first() == Some(&b'.');
        if hidden
            || place.rules.as_ref().is_some_and(|rules| rules.ignore(&place.root, rel, kind == Kind::Folder))
        {
            if kind == Kind::Folder || kind == wanted && fits() {
                let rel = rel.to_owned();
                self.own.leave(Start { root: Arc::clone(&place.root), rel, kind, rules: None }, hidden);
            }
            return false;
        }
        let enters = kind == Kind::Folder && !self.scope.is_other_root(place, rel);
        let is_wanted_link =
            kind == Kind::Link && looker.wants_links() && fits() && self.scope.leads_to_file(&spot);
        if kind != wanted && !is_wanted_link {
            match kind {
                Kind::Link => self.own.links += u64::from(fits()),
                Kind::Other => self.own.special += u64::from(fits()),
                Kind::File | Kind::Folder => {}
            }
            return enters;
        }
        if !fits() {
            return enters;
        }
        match self.looker.take(&spot, kind) {
            Take::Later => true,
            Take::Done => enters,
            Take::Quit => {
                *next = Next::Quit;
                false
            }
        }
    }
}

impl<L> Drop for Chooser<'_, L> {
    fn drop(&mut self) {
        unlocked(self.total).add(std::mem::take(&mut self.own));
    }
}

fn signs(names: &Names) -> Signs {
    let mut signs = Signs::default();
    for (name, kind) in names.iter() {
        match (name.as_encoded_bytes(), kind) {
            (b".ignore", Kind::File) => signs.ignore = true,
            (b".gitignore", Kind::File) => signs.git_ignore = true,
            (b".git", Kind::Folder | Kind::File) => signs.git = Some(kind),
            _ => {}
        }
    }
    signs
}

/// Returns the files of a language, by ripgrep's type names.
pub(super) fn types(name: &str) -> Result<Types, ToolError> {
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
pub(super) fn shown(first: &Path, path: &Path) -> String {
    path_text(path.strip_prefix(first).ok().filter(|rest| !rest.as_os_str().is_empty()).unwrap_or(path))
}
