//! A folder as a snapshot sees it: its entries with their content, as a tree in the order of names; its file, and the
//! differences of two.

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::manifest::ManifestPath;

/// The content of a path, as far as a snapshot covers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum PathContent {
    File {
        sha256: String,
        size: u64,
        mode: u32,
    },
    Link {
        target: ManifestPath,
    },
    Folder {
        mode: u32,
    },
    /// Something whose content no snapshot has.
    Uncovered {
        why: UncoveredReason,
        /// Shows a change, where that is looked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stamp: Option<ChangeStamp>,
    },
}

/// The reason why a snapshot does not cover something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UncoveredReason {
    /// By a `.gitignore`.
    Ignored,
    /// A repository's own folder.
    Repository,
    TooLarge,
    /// A FIFO, a socket or a device.
    Special,
    Unreadable,
    TooDeep,
    OtherFileSystem,
    /// The home of the runner.
    Home,
}

impl UncoveredReason {
    /// The reason in words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Ignored => "git ignores it",
            Self::Repository => "it is a repository's own folder",
            Self::TooLarge => "it is larger than 64 MiB",
            Self::Special => "it is no file, folder or link",
            Self::Unreadable => "it cannot be read",
            Self::TooDeep => "it lies more than 200 folders deep",
            Self::OtherFileSystem => "it is on another file system",
            Self::Home => "it is the home of punie-runner",
        }
    }
}

/// The metadata that changes with a file: size, inode, times of modification and of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangeStamp(pub u64, pub u64, pub i64, pub u64, pub i64, pub u64);

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeNode {
    pub name: OsString,
    pub content: PathContent,
    /// A file with the same stamp has the same content. None where a change could go unnoticed.
    pub stamp: Option<ChangeStamp>,
    /// Its content all the same, where a change of it is not looked for: an ignored file comes back if a call removes it.
    pub removable: Option<Box<PathContent>>,
    /// The entries of a folder, by name.
    pub entries: Vec<TreeNode>,
}

/// A path that differs between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PathChange {
    pub path: ManifestPath,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<PathContent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<PathContent>,
    /// True for a file that git ignores and a call removed: what is there by now is left alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_ignored: bool,
}

impl PathChange {
    /// Returns whether it is, or was, no folder.
    pub fn is_of_file(&self) -> bool {
        let both = [&self.before, &self.after];
        both.into_iter()
            .flatten()
            .any(|content| matches!(content, PathContent::File { .. } | PathContent::Link { .. }))
    }

    /// The size of the file that it was.
    pub fn size_before(&self) -> u64 {
        match &self.before {
            Some(PathContent::File { size, .. }) => *size,
            _ => 0,
        }
    }
}

/// A line of the file of a tree: a folder comes before its entries.
#[derive(Serialize, Deserialize)]
struct NodeLine {
    depth: usize,
    name: ManifestPath,
    content: PathContent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stamp: Option<ChangeStamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    removable: Option<Box<PathContent>>,
}

impl TreeNode {
    /// An entry without others below it.
    pub fn leaf(name: OsString, content: PathContent, stamp: Option<ChangeStamp>) -> Self {
        Self {
            name,
            content,
            stamp,
            removable: None,
            entries: Vec::new(),
        }
    }

    /// An entry that is not covered. The stamp is that of its content, where a change of that is looked for.
    pub fn uncovered(name: OsString, why: UncoveredReason, stamp: Option<ChangeStamp>) -> Self {
        Self::leaf(name, PathContent::Uncovered { why, stamp }, None)
    }

    /// What comes back if a call removes it.
    fn content_if_removed(&self) -> &PathContent {
        self.removable.as_deref().unwrap_or(&self.content)
    }
}

pub(super) fn write_tree(entries: &[TreeNode], to: &mut impl Write) -> io::Result<()> {
    fn write_level(entries: &[TreeNode], depth: usize, to: &mut impl Write) -> io::Result<()> {
        for node in entries {
            let line = NodeLine {
                depth,
                name: ManifestPath(PathBuf::from(&node.name)),
                content: node.content.clone(),
                stamp: node.stamp,
                removable: node.removable.clone(),
            };
            serde_json::to_writer(&mut *to, &line)?;
            to.write_all(b"\n")?;
            write_level(&node.entries, depth + 1, to)?;
        }
        Ok(())
    }
    write_level(entries, 0, to)?;
    to.write_all(b"end\n")
}

/// Reads a tree that was written whole.
pub(super) fn read_tree(from: impl BufRead) -> io::Result<Vec<TreeNode>> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "a snapshot's file is damaged");
    // The open folders, the outermost first; at the bottom the tree itself.
    let mut open: Vec<Vec<TreeNode>> = vec![Vec::new()];
    let close_to = |open: &mut Vec<Vec<TreeNode>>, depth: usize| {
        while open.len() > depth + 1 {
            let entries = open.pop().unwrap_or_default();
            if let Some(folder) = open.last_mut().and_then(|level| level.last_mut()) {
                folder.entries = entries;
            }
        }
    };
    for line in from.split(b'\n') {
        let line = line?;
        if line == b"end" {
            close_to(&mut open, 0);
            return open.pop().ok_or_else(damaged);
        }
        let line: NodeLine = serde_json::from_slice(&line)?;
        close_to(&mut open, line.depth);
        if line.depth == open.len() && open.last().is_some_and(|level| !level.is_empty()) {
            open.push(Vec::new());
        }
        if line.depth + 1 != open.len() {
            return Err(damaged());
        }
        let node = TreeNode {
            name: line.name.0.into_os_string(),
            content: line.content,
            stamp: line.stamp,
            removable: line.removable,
            entries: Vec::new(),
        };
        open.last_mut().ok_or_else(damaged)?.push(node);
    }
    Err(damaged())
}

/// Lists the paths that differ, each folder before its entries.
pub(super) fn compare_trees(
    folder: &Path,
    before: &[TreeNode],
    after: &[TreeNode],
    changes: &mut Vec<PathChange>,
) {
    let mut old = before.iter().peekable();
    let mut new = after.iter().peekable();
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(old), Some(new)) => old.name.cmp(&new.name),
        };
        let was = old.next_if(|_| order.is_le());
        let is = new.next_if(|_| order.is_ge());
        let Some(name) = was.or(is).map(|node| &node.name) else {
            return;
        };
        let path = folder.join(name);
        let before = match is {
            None => was.map(TreeNode::content_if_removed),
            Some(_) => was.map(|node| &node.content),
        };
        let after = is.map(|node| &node.content);
        if before != after {
            changes.push(PathChange {
                path: ManifestPath(path.clone()),
                before: before.cloned(),
                after: after.cloned(),
                is_ignored: is.is_none() && was.is_some_and(|node| node.removable.is_some()),
            });
        }
        compare_trees(&path, list_entries(was), list_entries(is), changes);
    }
}

/// Returns whether two trees without a change between them have the same contents of ignored files.
pub(super) fn have_same_removables(before: &[TreeNode], after: &[TreeNode]) -> bool {
    before.iter().zip(after).all(|(was, is)| {
        was.removable == is.removable && have_same_removables(&was.entries, &is.entries)
    })
}

fn list_entries(node: Option<&TreeNode>) -> &[TreeNode] {
    node.map_or(&[], |node| &node.entries)
}
