//! The folders that the tools may access, and the proof that a path lies in one of them.
//!
//! A root is opened once and held open. Every later open is relative to that folder, and on Linux the kernel itself
//! refuses to leave it, even if a path is replaced meanwhile.

mod io_error_text;
mod lexical_path;
mod narrowed_workspace;
mod path_errors;
mod workspace_folder;
mod workspace_path;
mod workspace_root;

#[cfg(target_os = "linux")]
#[path = "beneath.rs"]
mod held;
#[cfg(not(target_os = "linux"))]
#[path = "by_name.rs"]
mod held;

pub use held::FolderHandle;
pub(crate) use io_error_text::explain_io_error;
pub use narrowed_workspace::ReachableFolders;
pub use workspace_folder::find_workspace_fault;
use workspace_path::PathForm;
pub use workspace_path::{DanglingLink, WorkspacePath};

use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use path_errors::{file_in_path_error, no_workspace_error, refuse_runner_home};
use punie_tool::ToolError;
use workspace_folder::WorkspaceFolder;
use workspace_root::{ResolveFailure, WorkspaceRoot, find_resolve_failure};

/// The number of symlinks that Linux itself follows.
const MAX_LINKS: usize = 40;

/// A path as the model wrote it: absolute, relative to the first workspace, or beginning with `~`. A `file://` address is
/// taken as its path.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(from = "String")]
#[schemars(extend("format" = "path"))]
pub struct RawPath(String);

impl RawPath {
    /// Returns the text as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for RawPath {
    fn from(text: &str) -> Self {
        let address = text.strip_prefix("file://");
        let address = address.map(|rest| rest.strip_prefix("localhost").unwrap_or(rest));
        match address.filter(|path| path.starts_with('/')) {
            Some(path) => Self(decode_percents(path).unwrap_or_else(|| path.to_owned())),
            None => Self(text.to_owned()),
        }
    }
}

impl From<String> for RawPath {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

/// Decodes `%20` and its like (RFC 3986, section 2.1).
fn decode_percents(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

/// The folders in which the tools work.
#[derive(Debug, Clone)]
pub struct Workspace {
    roots: Arc<[Arc<WorkspaceFolder>]>,
    home: Option<Arc<Path>>,
    /// The folders from which the owner's rules write paths, if they are others than the roots.
    rule_roots: Option<Arc<[PathBuf]>>,
}

impl Workspace {
    /// Opens the folders; each must exist. `~` is not expanded.
    pub fn open_roots(roots: &[PathBuf]) -> io::Result<Self> {
        let roots = roots
            .iter()
            .map(|given| WorkspaceFolder::open_given(given).map(Arc::new))
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Self {
            roots: roots.into(),
            home: None,
            rule_roots: None,
        })
    }

    /// Opens the folders that are there, by paths without links; [`Self::open_returned`] opens the others. A leading `~`,
    /// `$HOME` or `%USERPROFILE%` in a path means `home`.
    pub fn open_existing(roots: &[PathBuf], home: Option<PathBuf>) -> Self {
        let roots = roots
            .iter()
            .map(|path| Arc::new(WorkspaceFolder::open_if_there(path)));
        Self {
            roots: roots.collect(),
            home: home.map(Arc::from),
            rule_roots: None,
        }
    }

    /// Opens the folders that are back, and closes those that are gone or replaced. Returns whether there were any. Blocks
    /// for some system calls.
    pub fn open_returned(&self) -> bool {
        let mut has_changed = false;
        for folder in self.roots.iter() {
            has_changed |= folder.open_again();
        }
        has_changed
    }

    /// Returns the folders. Relative paths are resolved against the first one.
    pub fn root_paths(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.canonical.as_path())
    }

    /// Returns the folders that are missing.
    pub fn missing_paths(&self) -> impl Iterator<Item = &Path> {
        let missing = self.roots.iter().filter(|root| root.opened().is_none());
        missing.map(|root| root.canonical.as_path())
    }

    /// Returns the first folder; `/` where there is none, which no path is in then.
    pub fn first_root(&self) -> &Path {
        self.roots
            .first()
            .map_or(Path::new("/"), |root| &root.canonical)
    }

    /// Resolves the folder that a call names, or returns the first folder. It need not exist.
    ///
    /// # Errors
    /// As [`Self::resolve_inside`].
    pub fn resolve_folder(&self, asked: Option<&RawPath>) -> Result<PathBuf, ToolError> {
        if let Some(raw) = asked {
            return Ok(self.resolve_inside(raw)?.absolute_path().to_owned());
        }
        let first = self.roots.first();
        let first = first.ok_or_else(|| no_workspace_error("The first folder"))?;
        self.open_root_of(first, "the folder in which calls start")?;
        Ok(first.canonical.clone())
    }

    /// Resolves a path and proves that it lies in a workspace; it need not exist. Symlinks that stay inside are
    /// followed, so the result has none.
    ///
    /// # Errors
    /// `outside_workspace` naming the workspaces and the symlink that led out, or `invalid_args`.
    pub fn resolve_inside(&self, raw: &RawPath) -> Result<WorkspacePath, ToolError> {
        let asked = lexical_path::parse_path_text(raw.as_str(), self.home.as_deref())?;
        let (folder, rel) = self
            .split_root(&asked.path)
            .ok_or_else(|| self.outside_error(raw, None))?;
        let root = self.open_root_of(&folder, raw.as_str())?;
        let asked_absolute = join_names(&root.canonical, &rel);
        let mut found = self.locate_through_links(raw, root, rel)?;
        found.asked_absolute = Some(asked_absolute.into());
        if asked.path.is_relative() {
            found.asked_form = PathForm::Relative;
        }
        refuse_runner_home(raw, &found)?;
        if asked.names_folder {
            match found.file_metadata() {
                Ok(metadata) if !metadata.is_dir() => {
                    return Err(file_in_path_error(
                        raw,
                        found.absolute_path(),
                        Path::new(""),
                        None,
                    ));
                }
                _ => found.names_folder = true,
            }
        }
        Ok(found)
    }

    /// Opens a file that a walk through a workspace found, beneath the open root. It fails if a folder on the way has
    /// become a symlink since. It does not block, and does not check the kind of the file.
    ///
    /// # Errors
    /// `CrossesDevices` when the path lies in no workspace, or the system's error.
    pub fn open_found_file(&self, absolute: &Path) -> io::Result<File> {
        let (folder, rel) = self
            .find_root(|root| path_remainder(absolute, &root.canonical))
            .ok_or_else(|| io::Error::new(io::ErrorKind::CrossesDevices, "is in no workspace"))?;
        let root = folder.opened().ok_or(io::ErrorKind::NotFound)?;
        root.handle.open_file_beneath(rel)
    }

    /// Returns whether a path without symlinks lies in a workspace, or is one.
    pub fn contains_real_path(&self, real: &Path) -> bool {
        self.root_paths().any(|root| real.starts_with(root))
    }

    /// Returns a path that was found earlier, without symlinks; `None` if it lies in no workspace. Opening it refuses
    /// symlinks that were put there since.
    pub fn path_if_inside(&self, absolute: &Path) -> Option<WorkspacePath> {
        let (root, rel) = self.find_root(|root| absolute.strip_prefix(&root.canonical).ok())?;
        if !has_only_names(rel) || rel.as_os_str().is_empty() {
            return None;
        }
        let root = root.opened()?;
        let exists = root.handle.metadata_beneath(rel).is_ok();
        Some(WorkspacePath::new(
            root,
            rel.to_owned(),
            rel.to_owned(),
            exists,
            None,
        ))
    }

    /// Returns the root that contains a path, with the rest of the path that this returns for it. Of several, one that is
    /// there comes first, then the innermost.
    fn find_root<'p>(
        &self,
        rest_below: impl Fn(&WorkspaceFolder) -> Option<&'p Path>,
    ) -> Option<(&Arc<WorkspaceFolder>, &'p Path)> {
        self.roots
            .iter()
            .filter_map(|root| Some((root, rest_below(root)?)))
            .min_by_key(|(root, rest)| (root.opened().is_none(), rest.components().count()))
    }

    /// Returns the root that contains an absolute path by its spelling, with the rest of the path; the first root for a
    /// relative path.
    fn split_root(&self, path: &Path) -> Option<(Arc<WorkspaceFolder>, PathBuf)> {
        if path.is_relative() {
            let first = self.roots.first()?;
            return Some((Arc::clone(first), path.to_owned()));
        }
        let (root, rest) = self.find_root(|root| {
            let by_path = path.strip_prefix(&root.canonical);
            by_path.or_else(|_| path.strip_prefix(&root.given)).ok()
        })?;
        Some((Arc::clone(root), rest.to_owned()))
    }

    /// Follows symlinks one by one if the kernel refuses: it accepts no absolute symlink, not even one that leads back
    /// inside. The result is opened beneath the root again, so no result here is trusted.
    fn locate_through_links(
        &self,
        raw: &RawPath,
        mut root: Arc<WorkspaceRoot>,
        mut rel: PathBuf,
    ) -> Result<WorkspacePath, ToolError> {
        let asked = rel.clone();
        let mut link: Option<DanglingLink> = None;
        for _ in 0..MAX_LINKS {
            if let Ok(real) = root.handle.resolve_beneath(&rel) {
                return Ok(WorkspacePath::new(root, real, asked, true, None));
            }
            match find_resolve_failure(&root, &rel) {
                ResolveFailure::Changed => {}
                ResolveFailure::OtherForm { found, rest } => rel = join_rest(&found, &rest),
                ResolveFailure::Missing { parent, rest } if has_only_names(&rest) => {
                    let missing = parent.join(rest);
                    return Ok(WorkspacePath::new(root, missing, asked, false, link));
                }
                ResolveFailure::Missing { .. } if lexical_path::climbs_above_start(&rel) => {
                    return Err(self.outside_error(raw, link.as_ref()));
                }
                ResolveFailure::Missing { parent, .. } => {
                    return Err(ToolError::not_found(format!(
                        "{}: a folder on the way does not exist. The deepest one that does is {}.",
                        raw.as_str(),
                        root.canonical.join(parent).display()
                    )));
                }
                ResolveFailure::Link {
                    parent,
                    name,
                    target,
                    rest,
                } => {
                    let met = DanglingLink {
                        link: root.canonical.join(&parent).join(&name),
                        target,
                    };
                    // An absolute target replaces the parent.
                    let next = join_rest(&parent.join(&met.target), &rest);
                    if next.is_absolute() {
                        let (folder, rest) = self
                            .split_root(&next)
                            .ok_or_else(|| self.outside_error(raw, Some(&met)))?;
                        (root, rel) = (self.open_root_of(&folder, raw.as_str())?, rest);
                    } else {
                        rel = next;
                    }
                    link = Some(met);
                }
                ResolveFailure::Outside => return Err(self.outside_error(raw, link.as_ref())),
                ResolveFailure::NotFolder { file, rest } => {
                    let file = root.canonical.join(file);
                    return Err(file_in_path_error(raw, &file, &rest, link.as_ref()));
                }
                ResolveFailure::Failed(cause) => {
                    return Err(ToolError::from_io(raw.as_str(), &explain_io_error(cause)));
                }
            }
        }
        let names = link.map_or_else(String::new, |met| {
            format!(" (last at {})", met.link.display())
        });
        Err(ToolError::invalid_args(format!(
            "{}: too many symbolic links; they form a loop{names}.",
            raw.as_str()
        )))
    }
}

/// Returns whether a path has only names, without a root, `.` or `..`.
fn has_only_names(path: &Path) -> bool {
    path.components()
        .all(|part| matches!(part, Component::Normal(_)))
}

/// Joins the rest of a path. Joining an empty one would add a slash.
fn join_rest(path: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() {
        path.to_owned()
    } else {
        path.join(rest)
    }
}

/// Joins a path as its text says, without asking the disk: `..` removes the name before it.
fn join_names(folder: &Path, rel: &Path) -> PathBuf {
    let mut joined = folder.to_owned();
    for part in rel.components() {
        match part {
            Component::Normal(name) => joined.push(name),
            Component::ParentDir => drop(joined.pop()),
            _ => {}
        }
    }
    joined
}

/// Returns the rest of a path behind this folder. Compares the text first, because comparing components takes a quarter
/// as long as opening the file.
#[cfg(unix)]
fn path_remainder<'a>(path: &'a Path, folder: &Path) -> Option<&'a Path> {
    use std::os::unix::ffi::OsStrExt as _;
    let text = path.as_os_str().as_bytes();
    let above = folder.as_os_str().as_bytes();
    let rest = text
        .strip_prefix(above)
        .and_then(|rest| rest.strip_prefix(b"/"));
    match rest.filter(|rest| rest.first().is_some_and(|first| *first != b'/')) {
        Some(rest) => Some(Path::new(std::ffi::OsStr::from_bytes(rest))),
        None => path.strip_prefix(folder).ok(),
    }
}

#[cfg(not(unix))]
fn path_remainder<'a>(path: &'a Path, folder: &Path) -> Option<&'a Path> {
    path.strip_prefix(folder).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_behind_a_folder_is_the_same_by_its_text_and_by_its_parts() {
        for (path, folder) in [
            ("/w/a/b", "/w"),
            ("/w", "/w"),
            ("/w/", "/w"),
            ("/w//a", "/w"),
            ("/wide/a", "/w"),
            ("/a/b", "/"),
            ("/x/a", "/w"),
            ("/w/../x", "/w"),
        ] {
            let path = Path::new(path);
            let folder = Path::new(folder);
            assert_eq!(
                path_remainder(path, folder),
                path.strip_prefix(folder).ok(),
                "{}",
                path.display()
            );
        }
    }
}
