//! The files of a tree, such as a skill or the code of a bridge: listed with limits, hashed and copied. Links stay links if
//! they lead to a file of the same tree.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

use punie_core::bounded_file::{FinalLink, open_nonblocking};
use punie_core::content_hash::hash_content;
use punie_core::file_metadata::is_executable;
use punie_core::ids::to_hex;

/// The most levels of folders.
const MAX_DEPTH: usize = 16;

/// The files and links of a tree, sorted by path.
#[derive(Debug)]
pub(crate) struct FileTree {
    /// The folder, or the only file.
    root: PathBuf,
    is_single_file: bool,
    limits: TreeLimits,
    files: Vec<TreeFile>,
    bytes: u64,
}

/// The most files and bytes of a tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeLimits {
    pub files: usize,
    pub bytes: u64,
}

#[derive(Debug)]
struct TreeFile {
    /// The path in the tree.
    within: PathBuf,
    content: TreeContent,
}

#[derive(Debug)]
enum TreeContent {
    File { is_executable: bool },
    Link(PathBuf),
}

impl FileTree {
    /// Lists the files of a folder, or a single file, which gets `file_name`.
    pub(crate) fn list(root: &Path, file_name: &str, limits: TreeLimits) -> Result<Self, String> {
        let mut tree = Self {
            root: root.to_owned(),
            is_single_file: !root.is_dir(),
            limits,
            files: Vec::new(),
            bytes: 0,
        };
        if tree.is_single_file {
            tree.add_file(root, PathBuf::from(file_name))?;
        } else {
            tree.add_folder(root, 0)?;
        }
        tree.files.sort_by(|a, b| a.within.cmp(&b.within));
        Ok(tree)
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
                    let opened = self.open_file(&file.within);
                    let content = opened.and_then(hash_content);
                    let content = content.map_err(|error| file.fault(&error))?;
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

    /// Returns the paths of the files in the tree, and whether each is a link.
    pub(crate) fn relative_paths(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.files.iter().map(|file| {
            let is_link = matches!(file.content, TreeContent::Link(_));
            (file.within.as_path(), is_link)
        })
    }

    /// Opens a file of the tree for reading, if it still is a plain one.
    pub(crate) fn open_file(&self, within: &Path) -> io::Result<io::Take<File>> {
        let file = if self.is_single_file {
            open_nonblocking(&self.root, FinalLink::Refuse)?
        } else {
            open_below(&self.root, within)?
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a plain file any more"));
        }
        Ok(file.take(self.limits.bytes))
    }

    /// Copies the files into a new folder.
    pub(crate) fn copy_to(&self, to: &Path) -> Result<(), String> {
        fs::create_dir(to).map_err(|error| format!("{}: {error}", to.display()))?;
        for file in &self.files {
            let target = to.join(&file.within);
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent).map_err(|error| file.fault(&error))?;
            }
            let copied = match &file.content {
                TreeContent::File { is_executable } => {
                    self.copy_file(&file.within, &target, *is_executable)
                }
                TreeContent::Link(link) => create_link(link, &target),
            };
            copied.map_err(|error| file.fault(&error))?;
        }
        Ok(())
    }

    fn copy_file(&self, within: &Path, to: &Path, is_executable: bool) -> io::Result<()> {
        let mut from = self.open_file(within)?;
        let mut copy = create_plain_file(to, is_executable)?;
        io::copy(&mut from, &mut copy)?;
        // Linux makes all copies durable at once.
        if cfg!(target_os = "linux") {
            return Ok(());
        }
        copy.sync_all()
    }

    fn add_folder(&mut self, folder: &Path, depth: usize) -> Result<(), String> {
        let within = folder.strip_prefix(&self.root).unwrap_or(folder).to_owned();
        let at = |error: &io::Error| format!("{}: {error}", within.display());
        if depth > MAX_DEPTH {
            return Err(format!("its folders are more than {MAX_DEPTH} deep"));
        }
        for entry in fs::read_dir(folder).map_err(|error| at(&error))? {
            let entry = entry.map_err(|error| at(&error))?;
            let path = entry.path();
            let kind = entry.file_type().map_err(|error| at(&error))?;
            if entry.file_name() == ".git" {
                continue;
            }
            let inner = path.strip_prefix(&self.root).unwrap_or(&path).to_owned();
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
        self.files.push(TreeFile { within, content });
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

impl TreeFile {
    fn fault(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.within.display())
    }
}

/// Returns whether the target of a link is in the folder of the tree, whatever other links there are on the way.
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

/// Opens a file below a folder; no part of its path may be a link.
#[cfg(target_os = "linux")]
fn open_below(folder: &Path, within: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
    use rustix::io::Errno;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match openat2(File::open(folder)?, within, flags, Mode::empty(), resolve) {
        // An old kernel, or a container that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {
            open_nonblocking(&folder.join(within), FinalLink::Refuse)
        }
        opened => Ok(opened?.into()),
    }
}

/// Opens a file below a folder; it may not be a link.
#[cfg(not(target_os = "linux"))]
fn open_below(folder: &Path, within: &Path) -> io::Result<File> {
    open_nonblocking(&folder.join(within), FinalLink::Refuse)
}

/// Creates a file that others may read, and execute if it is a program.
pub(crate) fn create_plain_file(path: &Path, is_executable: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(
        &mut options,
        if is_executable { 0o755 } else { 0o644 },
    );
    #[cfg(not(unix))]
    let _ = is_executable;
    options.write(true).create_new(true).open(path)
}

#[cfg(unix)]
pub(crate) fn create_link(target: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(not(unix))]
pub(crate) fn create_link(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::other("links cannot be made on this system"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_in_its_tree_or_is_refused() {
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
