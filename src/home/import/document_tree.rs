//! The files of a document: listed with limits, hashed and copied. Links stay links if they lead to a file of the same
//! document.
#![expect(
    clippy::disallowed_methods,
    reason = "this file reads the sources that the owner named and writes their copies"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

use punie_core::bounded_file::{FinalLink, open_nonblocking};
use punie_core::content_hash::hash_content;
use punie_core::file_metadata::is_executable;
use punie_core::ids::to_hex;

/// The most files, bytes and levels of folders of one document.
const MAX_FILES: usize = 2_000;
const MAX_BYTES: u64 = 64 << 20;
const MAX_DEPTH: usize = 16;

/// The files and links of a document, sorted by path.
#[derive(Debug)]
pub(crate) struct DocumentTree {
    files: Vec<TreeFile>,
}

/// The most files and bytes of a tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeLimits {
    pub files: usize,
    pub bytes: u64,
}

#[derive(Debug)]
struct TreeFile {
    /// The path in the document.
    within: PathBuf,
    source: PathBuf,
    content: TreeContent,
}

#[derive(Debug)]
enum TreeContent {
    File { is_executable: bool },
    Link(PathBuf),
}

impl DocumentTree {
    /// Lists the files of a document. One without a folder of its own is a single file, which gets `file_name`.
    pub(crate) fn list(root: &Path, file_name: &str) -> Result<Self, String> {
        let limits = TreeLimits {
            files: MAX_FILES,
            bytes: MAX_BYTES,
        };
        Self::list_within(root, file_name, limits)
    }

    /// As [`DocumentTree::list`], within other limits.
    pub(crate) fn list_within(
        root: &Path,
        file_name: &str,
        limits: TreeLimits,
    ) -> Result<Self, String> {
        let mut listing = TreeListing {
            root,
            limits,
            files: Vec::new(),
            bytes: 0,
        };
        if root.is_dir() {
            listing.add_folder(root, 0)?;
        } else {
            listing.add_file(root, PathBuf::from(file_name))?;
        }
        listing.files.sort_by(|a, b| a.within.cmp(&b.within));
        Ok(Self {
            files: listing.files,
        })
    }

    /// Returns the hash of all paths, contents, links and execute permissions.
    pub(crate) fn content_hash(&self) -> Result<String, String> {
        let mut hasher = Sha256::new();
        for file in &self.files {
            let path = file.within.as_os_str().as_encoded_bytes();
            let (mark, content): (u8, [u8; 32]) = match &file.content {
                TreeContent::Link(target) => {
                    let target = target.as_os_str().as_encoded_bytes();
                    (b'l', Sha256::digest(target).into())
                }
                TreeContent::File { is_executable } => {
                    let content = hash_file(&file.source).map_err(|error| file.fault(&error))?;
                    (if *is_executable { b'x' } else { b'f' }, content)
                }
            };
            hasher.update((path.len() as u64).to_le_bytes());
            hasher.update(path);
            hasher.update([mark]);
            hasher.update(content);
        }
        Ok(to_hex(&hasher.finalize()))
    }

    /// Returns the paths of the files in the document, and whether each is a link.
    pub(crate) fn relative_paths(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.files.iter().map(|file| {
            let is_link = matches!(file.content, TreeContent::Link(_));
            (file.within.as_path(), is_link)
        })
    }

    /// Copies the files into a new folder.
    pub(super) fn copy_tree(&self, to: &Path) -> Result<(), String> {
        let at = |path: &Path, error: &io::Error| format!("{}: {error}", path.display());
        fs::create_dir(to).map_err(|error| at(to, &error))?;
        for file in &self.files {
            let target = to.join(&file.within);
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent).map_err(|error| at(parent, &error))?;
            }
            match &file.content {
                TreeContent::File { is_executable } => {
                    copy_file(&file.source, &target, *is_executable)
                }
                TreeContent::Link(link) => create_link(link, &target),
            }
            .map_err(|error| at(&target, &error))?;
        }
        Ok(())
    }
}

impl TreeFile {
    fn fault(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.within.display())
    }
}

struct TreeListing<'a> {
    root: &'a Path,
    limits: TreeLimits,
    files: Vec<TreeFile>,
    bytes: u64,
}

impl TreeListing<'_> {
    fn add_folder(&mut self, folder: &Path, depth: usize) -> Result<(), String> {
        let within = folder.strip_prefix(self.root).unwrap_or(folder).to_owned();
        let at = |error: &io::Error| format!("{}: {error}", within.display());
        if depth > MAX_DEPTH {
            return Err(format!("its folders are more than {MAX_DEPTH} deep"));
        }
        for entry in fs::read_dir(folder).map_err(|error| at(&error))? {
            let entry = entry.map_err(|error| at(&error))?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(|error| at(&error))?);
            if entry.file_name() == ".git" {
                continue;
            }
            let inner = path.strip_prefix(self.root).unwrap_or(&path).to_owned();
            if kind.is_dir() {
                self.add_folder(&path, depth + 1)?;
            } else {
                self.add_file(&path, inner)?;
            }
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path, within: PathBuf) -> Result<(), String> {
        let fault = |error: io::Error| format!("{}: {error}", within.display());
        let meta = fs::symlink_metadata(path).map_err(fault)?;
        let content = if meta.is_symlink() {
            let target = fs::read_link(path).map_err(fault)?;
            if !stays_inside(&within, &target) {
                return Err(format!(
                    "{} is a link to {}, outside of its folder. Copy the file instead",
                    within.display(),
                    target.display()
                ));
            }
            TreeContent::Link(target)
        } else if meta.is_file() {
            self.bytes = self.bytes.saturating_add(meta.len());
            TreeContent::File {
                is_executable: is_executable(&meta).unwrap_or_default(),
            }
        } else {
            return Err(format!(
                "{} is neither a file nor a folder nor a link",
                within.display()
            ));
        };
        self.files.push(TreeFile {
            within,
            source: path.to_owned(),
            content,
        });
        let TreeLimits { files, bytes } = self.limits;
        if self.files.len() > files {
            return Err(format!("it has more than {files} files"));
        }
        if self.bytes > bytes {
            return Err(format!("it has more than {} MiB", bytes >> 20));
        }
        Ok(())
    }
}

/// Returns whether the target of a link is in the folder of the document, whatever other links there are on the way.
fn stays_inside(link: &Path, target: &Path) -> bool {
    let mut depth = link.components().count().saturating_sub(1);
    // Names after `..` could be links, which `..` leaves at another place than the text says: `..` comes first or never.
    let mut is_below = false;
    for component in target.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if depth > 0 && !is_below => depth -= 1,
            Component::Normal(_) => {
                is_below = true;
                depth += 1;
            }
            _ => return false,
        }
    }
    true
}

/// Opens a file of a source, if it still is a plain one.
fn open_plain_file(path: &Path) -> io::Result<File> {
    let file = open_nonblocking(path, FinalLink::Refuse)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a plain file any more"));
    }
    Ok(file)
}

fn hash_file(path: &Path) -> io::Result<[u8; 32]> {
    hash_content(open_plain_file(path)?.take(MAX_BYTES))
}

fn copy_file(from: &Path, to: &Path, is_executable: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(
        &mut options,
        if is_executable { 0o755 } else { 0o644 },
    );
    let mut target = options.open(to)?;
    io::copy(&mut open_plain_file(from)?.take(MAX_BYTES), &mut target)?;
    target.flush()
}

#[cfg(unix)]
pub(super) fn create_link(target: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(not(unix))]
pub(super) fn create_link(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::other("links cannot be made on this system"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_in_its_document_or_is_refused() {
        for (link, target, inside) in [
            ("a", "b", true),
            ("a", "./b/c", true),
            ("d/a", "../b", true),
            ("d/e/a", "../../b/c", true),
            ("a", "../b", false),
            ("d/a", "../../b", false),
            ("a", "/etc/passwd", false),
            ("d/a", "x/../../b", false),
        ] {
            assert_eq!(
                stays_inside(Path::new(link), Path::new(target)),
                inside,
                "{link} -> {target}"
            );
        }
    }
}
