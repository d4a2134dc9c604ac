//! Paths and trees as a removal looks at them first: the true path of an operand, and whether a tree can go as a whole.
//! Not here: removing.
#![expect(clippy::disallowed_methods, reason = "this file looks at what is to be removed")]

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::trash::tree::{is_new, taken};
use rustix::fs::{Access, AtFlags, CWD, accessat};

/// A tree, looked at as a whole.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// What is no folder.
    pub files: u64,
    pub bytes: u64,
    /// What it takes on the disk, in bytes: a sparse file less than it is long.
    pub on_disk: u64,
    /// Nothing in it would stop a removal one by one, so that it may go in one step.
    pub goes_whole: bool,
    /// Files with several names that were counted: each counts once, and as if it had no name elsewhere, since the trash
    /// may be the last to have it.
    counted: HashSet<(u64, u64)>,
    /// What went, in the order in which it is told, and whether it is a folder; only where somebody wants to know.
    pub told: Vec<(PathBuf, bool)>,
}

/// Looks at everything below a path.
pub(super) fn look(path: &Path, metadata: &Metadata, tell: bool) -> Tree {
    let mut tree = Tree { goes_whole: true, ..Tree::default() };
    let us = rustix::process::geteuid();
    let device = metadata.dev();
    if visit(path, metadata, &mut tree, &Seen { tell, device, us: us.as_raw() }).is_err() {
        tree.goes_whole = false;
    }
    tree
}

struct Seen {
    tell: bool,
    device: u64,
    us: u32,
}

fn visit(path: &Path, metadata: &Metadata, tree: &mut Tree, seen: &Seen) -> io::Result<()> {
    let is_folder = metadata.is_dir();
    if metadata.dev() != seen.device {
        tree.goes_whole = false;
    }
    if is_folder {
        let mut is_empty = true;
        // Looked into once this one is closed: they lie deeper than many may be open.
        let mut folders = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            is_empty = false;
            let (below, metadata) = (entry.path(), entry.metadata()?);
            if metadata.is_dir() {
                folders.push((below, metadata));
            } else {
                visit(&below, &metadata, tree, seen)?;
            }
        }
        for (below, metadata) in folders {
            visit(&below, &metadata, tree, seen)?;
        }
        // One by one, what is in it could not be removed. One that is not ours could not be moved either.
        let sticky = metadata.permissions().mode() & 0o1000 != 0 && metadata.uid() != seen.us && seen.us != 0;
        if !is_empty && (sticky || !may(path, Access::WRITE_OK | Access::EXEC_OK)) {
            tree.goes_whole = false;
        }
    } else {
        tree.files += 1;
        let counts = metadata.is_file() && is_new(metadata, &mut tree.counted);
        tree.bytes += if counts { metadata.len() } else { 0 };
        tree.on_disk += if counts { taken(metadata) } else { 0 };
    }
    if seen.tell {
        tree.told.push((path.to_owned(), is_folder));
    }
    Ok(())
}

/// Whether this process may do that with it.
pub(super) fn may(path: &Path, access: Access) -> bool {
    accessat(CWD, path, access, AtFlags::EACCESS).is_ok()
}

/// An operand without the slashes at its end.
pub(super) fn trimmed(operand: &OsStr) -> &OsStr {
    let bytes = operand.as_bytes();
    let end = bytes.iter().rposition(|b| *b != b'/').map_or(bytes.len().min(1), |at| at + 1);
    OsStr::from_bytes(&bytes[..end])
}

/// The last part of a path as it was typed, `.` and `..` included.
pub(super) fn last_part(operand: &OsStr) -> &OsStr {
    let bytes = trimmed(operand).as_bytes();
    let start = bytes.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    OsStr::from_bytes(&bytes[start..])
}

/// The path without links, of what is there itself and not of what it may lead to.
pub(super) fn true_path(path: &Path) -> Option<PathBuf> {
    let (operand, name) = (trimmed(path.as_os_str()).as_bytes(), last_part(path.as_os_str()));
    if name.is_empty() || name == "." || name == ".." {
        return None;
    }
    let parent = &operand[..operand.len() - name.len()];
    let parent = if parent.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(parent) };
    let mut real: OsString = fs::canonicalize(parent).ok()?.into_os_string();
    if real != "/" {
        real.push("/");
    }
    real.push(name);
    Some(PathBuf::from(real))
}

/// Whether a folder is named by a link and a slash: the link is not the folder's to remove.
pub(super) fn is_behind_a_link(path: &Path, metadata: &Metadata) -> bool {
    let trimmed: OsString = trimmed(path.as_os_str()).to_owned();
    metadata.is_dir()
        && trimmed != path.as_os_str()
        && fs::symlink_metadata(&trimmed).is_ok_and(|found| found.is_symlink())
}

/// What it is, in GNU's words.
pub(super) fn kind(metadata: &Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = metadata.file_type();
    match () {
        () if kind.is_dir() => "directory",
        () if kind.is_symlink() => "symbolic link",
        () if kind.is_fifo() => "fifo",
        () if kind.is_socket() => "socket",
        () if kind.is_char_device() => "character special file",
        () if kind.is_block_device() => "block special file",
        () if metadata.len() == 0 => "regular empty file",
        () => "regular file",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_is_as_it_was_typed() {
        for (operand, last, rest) in [
            ("a/b", "b", "a/b"),
            ("a/b//", "b", "a/b"),
            ("a/.", ".", "a/."),
            ("..", "..", ".."),
            ("/", "", "/"),
            ("//", "", "/"),
        ] {
            assert_eq!(last_part(OsStr::new(operand)), last, "{operand}");
            assert_eq!(trimmed(OsStr::new(operand)), rest, "{operand}");
        }
    }
}
