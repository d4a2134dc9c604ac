//! The folders that the tools may access, and the proof that a path lies in one of them.
//!
//! A root is opened once and held open. Every later open is relative to that folder, and on Linux the kernel itself
//! refuses to leave it, even if a path is replaced meanwhile. Not here: the tools' use of a path (handlers), and
//! protected paths inside (`acp::protected`).

mod failure;
mod lexical;
mod path;

#[cfg(target_os = "linux")]
#[path = "workspace/beneath.rs"]
mod held;
#[cfg(not(target_os = "linux"))]
#[path = "workspace/by_name.rs"]
mod held;

pub(in crate::acp) use failure::in_words;
pub use held::Folder;
pub use path::{DanglingLink, WorkspacePath};

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::tool::{ErrorCode, ToolError};
use held::Held;

/// The number of symlinks that Linux itself follows.
const MAX_LINKS: usize = 40;

/// A path as the model wrote it: absolute, relative to the first workspace, or beginning with `~`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
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
        Self(text.to_owned())
    }
}

/// The folders in which the tools work.
#[derive(Debug, Clone)]
pub struct Workspace {
    roots: Arc<[Arc<Root>]>,
    home: Option<Arc<Path>>,
}

/// One open folder, with the two paths by which a caller may name it.
#[derive(Debug)]
struct Root {
    held: Held,
    canonical: PathBuf,
    given: PathBuf,
}

impl Workspace {
    /// Opens the folders; at least one is needed, and each must exist. `~` is not expanded.
    pub fn open(roots: &[PathBuf]) -> io::Result<Self> {
        Self::open_with_home(roots, None)
    }

    /// Opens the folders; a leading `~`, `$HOME` or `%USERPROFILE%` in a path means `home`.
    pub fn open_with_home(roots: &[PathBuf], home: Option<PathBuf>) -> io::Result<Self> {
        if roots.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a workspace needs at least one folder"));
        }
        let roots =
            roots.iter().map(|given| Root::open(given).map(Arc::new)).collect::<io::Result<Vec<_>>>()?;
        Ok(Self { roots: roots.into(), home: home.map(Arc::from) })
    }

    /// Returns the folders. Relative paths are resolved against the first one.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.canonical.as_path())
    }

    /// Returns the first folder.
    pub fn first(&self) -> &Path {
        &self.roots[0].canonical
    }

    /// Resolves a path and proves that it lies in a workspace; it need not exist. Symlinks that stay inside are
    /// followed, so the result has none.
    ///
    /// # Errors
    /// `outside_workspace` naming the workspaces and the symlink that led out, or `invalid_args`.
    pub fn resolve(&self, raw: &RawPath) -> Result<WorkspacePath, ToolError> {
        let asked = lexical::parse(raw.as_str(), self.home.as_deref())?;
        let (root, rel) = self.split(&asked.path).ok_or_else(|| self.outside(raw, None))?;
        let mut found = self.locate(raw, root, rel)?;
        if asked.names_folder {
            match found.metadata() {
                Ok(metadata) if !metadata.is_dir() => {
                    return Err(not_a_folder(raw, found.absolute(), Path::new(""), None));
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
    pub fn open_found(&self, absolute: &Path) -> io::Result<File> {
        let found = self.roots.iter().find_map(|root| Some((root, rest_of(absolute, &root.canonical)?)));
        let (root, rel) =
            found.ok_or_else(|| io::Error::new(io::ErrorKind::CrossesDevices, "is in no workspace"))?;
        root.held.open_file(rel)
    }

    /// Returns a path that was found earlier, without symlinks; `None` if it lies in no workspace. Opening it refuses
    /// symlinks that were put there since.
    pub fn found(&self, absolute: &Path) -> Option<WorkspacePath> {
        let (root, rel) = self
            .roots
            .iter()
            .filter_map(|root| Some((root, absolute.strip_prefix(&root.canonical).ok()?)))
            .min_by_key(|(_, rel)| rel.components().count())?;
        let plain = rel.components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || rel.as_os_str().is_empty() {
            return None;
        }
        let exists = root.held.metadata(rel).is_ok();
        Some(WorkspacePath::new(Arc::clone(root), rel.to_owned(), rel.to_owned(), exists, None))
    }

    /// Returns the root that contains an absolute path by its spelling, with the rest of the path; the first root for a
    /// relative path.
    fn split(&self, path: &Path) -> Option<(Arc<Root>, PathBuf)> {
        if path.is_relative() {
            return Some((Arc::clone(&self.roots[0]), path.to_owned()));
        }
        self.roots
            .iter()
            .filter_map(|root| {
                let rest =
                    path.strip_prefix(&root.canonical).or_else(|_| path.strip_prefix(&root.given)).ok()?;
                Some((Arc::clone(root), rest.to_owned()))
            })
            .min_by_key(|(_, rest)| rest.components().count())
    }

    /// Follows symlinks one by one if the kernel refuses: it accepts no absolute symlink, not even one that leads back
    /// inside. The result is opened beneath the root again, so no result here is trusted.
    fn locate(&self, raw: &RawPath, root: Arc<Root>, rel: PathBuf) -> Result<WorkspacePath, ToolError> {
        let asked = rel.clone();
        let (mut root, mut rel) = (root, rel);
        let mut link: Option<DanglingLink> = None;
        for _ in 0..MAX_LINKS {
            if let Ok(real) = root.held.real(&rel) {
                return Ok(WorkspacePath::new(root, real, asked, true, None));
            }
            match stumble(&root, &rel) {
                Stumble::Gone => {}
                Stumble::Missing { parent, rest } => {
                    if rest.components().all(|part| matches!(part, Component::Normal(_))) {
                        return Ok(WorkspacePath::new(root, parent.join(rest), asked, false, link));
                    }
                    if lexical::escapes(&rel) {
                        return Err(self.outside(raw, link.as_ref()));
                    }
                    return Err(ToolError::not_found(format!(
                        "{}: a folder on the way does not exist. The deepest one that does is {}.",
                        raw.as_str(),
                        root.canonical.join(parent).display()
                    )));
                }
                Stumble::Link { parent, name, target, rest } => {
                    let met = DanglingLink {
                        link: root.canonical.join(&parent).join(&name),
                        target: target.clone(),
                    };
                    let next = if target.is_absolute() { target } else { parent.join(target) };
                    let next = if rest.as_os_str().is_empty() { next } else { next.join(rest) };
                    if next.is_absolute() {
                        (root, rel) = self.split(&next).ok_or_else(|| self.outside(raw, Some(&met)))?;
                    } else {
                        rel = next;
                    }
                    link = Some(met);
                }
                Stumble::Outside => return Err(self.outside(raw, link.as_ref())),
                Stumble::NotFolder { file, rest } => {
                    let file = root.canonical.join(file);
                    return Err(not_a_folder(raw, &file, &rest, link.as_ref()));
                }
                Stumble::Failed(cause) => return Err(ToolError::io(raw.as_str(), &in_words(cause))),
            }
        }
        let names = link.map_or_else(String::new, |met| format!(" (last at {})", met.link.display()));
        Err(ToolError::invalid_args(format!(
            "{}: too many symbolic links; they form a loop{names}.",
            raw.as_str()
        )))
    }

    fn outside(&self, raw: &RawPath, link: Option<&DanglingLink>) -> ToolError {
        let roots: Vec<String> = self.roots().map(|root| root.display().to_string()).collect();
        let via = link.map_or_else(String::new, |met| {
            format!(" (the link {} leads to {})", met.link.display(), met.target.display())
        });
        ToolError::new(
            ErrorCode::OutsideWorkspace,
            format!(
                "{} is outside the workspace{via}. File tools reach only: {}. Use a path in there.",
                raw.as_str(),
                roots.join(", ")
            ),
        )
    }
}

/// Builds the error for a file in place of a folder: above the rest of a path, or before a slash at its end.
fn not_a_folder(raw: &RawPath, file: &Path, rest: &Path, link: Option<&DanglingLink>) -> ToolError {
    let (raw, shown) = (raw.as_str(), file.display());
    let via = link.map_or_else(String::new, |met| {
        format!(" (the link {} leads to {})", met.link.display(), met.target.display())
    });
    if rest.as_os_str().is_empty() {
        return ToolError::invalid_args(format!(
            "{raw}: it ends in a slash, which only a folder may, but {shown} is a file{via}. Leave out the slash."
        ));
    }
    ToolError::not_found(format!(
        "{raw} does not exist: {shown} is a file, not a folder{via}, so there can be no {} in it. Use {shown} itself, \
         or another folder.",
        rest.display()
    ))
}

impl Root {
    fn open(given: &Path) -> io::Result<Self> {
        let (held, canonical) = Held::open(given)?;
        Ok(Self { held, canonical, given: given.to_owned() })
    }
}

/// The reason why a path could not be resolved, found by trying one component after the other.
enum Stumble {
    /// The path changed meanwhile; it must be resolved again.
    Gone,
    /// The parent exists, the rest does not.
    Missing { parent: PathBuf, rest: PathBuf },
    /// A symlink that the kernel does not follow, or that is dangling.
    Link { parent: PathBuf, name: PathBuf, target: PathBuf, rest: PathBuf },
    /// The path climbs out by itself.
    Outside,
    /// There is a file in place of a folder, and the path continues below it.
    NotFolder { file: PathBuf, rest: PathBuf },
    /// Any other error, such as missing permission.
    Failed(io::Error),
}

fn stumble(root: &Root, rel: &Path) -> Stumble {
    let parts: Vec<Component<'_>> = rel.components().collect();
    let mut parent = PathBuf::new();
    for (at, part) in parts.iter().enumerate() {
        let cause = match root.held.real(&parent.join(part)) {
            Ok(found) => {
                parent = found;
                continue;
            }
            Err(cause) => cause,
        };
        let name: &OsStr = part.as_os_str();
        if matches!(part, Component::Normal(_))
            && let Ok(target) = root.held.link_target(&parent, name)
        {
            let rest = parts[at + 1..].iter().collect();
            return Stumble::Link { parent, name: name.into(), target, rest };
        }
        let rest: PathBuf = parts[at..].iter().collect();
        if is_file(root, &parent) {
            return Stumble::NotFolder { file: parent, rest };
        }
        return match cause.kind() {
            io::ErrorKind::NotFound => Stumble::Missing { parent, rest },
            io::ErrorKind::CrossesDevices => Stumble::Outside,
            _ => Stumble::Failed(cause),
        };
    }
    // Every component exists, so the slash at the end was refused.
    if is_file(root, &parent) {
        return Stumble::NotFolder { file: parent, rest: PathBuf::new() };
    }
    Stumble::Gone
}

fn is_file(root: &Root, rel: &Path) -> bool {
    root.held.metadata(rel).is_ok_and(|metadata| !metadata.is_dir())
}

/// Returns the rest of a path behind this folder. Compares the text first, because comparing components takes a quarter
/// as long as opening the file.
#[cfg(unix)]
fn rest_of<'a>(path: &'a Path, folder: &Path) -> Option<&'a Path> {
    use std::os::unix::ffi::OsStrExt as _;
    let (text, above) = (path.as_os_str().as_bytes(), folder.as_os_str().as_bytes());
    let rest = text.strip_prefix(above).and_then(|rest| rest.strip_prefix(b"/"));
    match rest.filter(|rest| rest.first().is_some_and(|first| *first != b'/')) {
        Some(rest) => Some(Path::new(std::ffi::OsStr::from_bytes(rest))),
        None => path.strip_prefix(folder).ok(),
    }
}

#[cfg(not(unix))]
fn rest_of<'a>(path: &'a Path, folder: &Path) -> Option<&'a Path> {
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
            let (path, folder) = (Path::new(path), Path::new(folder));
            assert_eq!(rest_of(path, folder), path.strip_prefix(folder).ok(), "{}", path.display());
        }
    }
}
