//! The files of snapshots: the tree of each workspace as it was last; and of each call that runs, its start with the
//! trees from before, in a folder that its process holds a lock on.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::manifest::ManifestPath;
use super::tree_node::{TreeNode, read_tree, write_tree};
use punie_core::durable::{open_lock_file, open_private_file};
use punie_core::ids::RequestId;

/// The name of the file that a process locks in its folder.
const LOCK: &str = "lock";
const RECORD_ENDING: &str = "json";

/// The start of a call, written before it begins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CallStart {
    pub request: RequestId,
    pub tool: String,
    pub at_ms: i64,
    pub folders: Vec<FolderStart>,
}

/// The refs of a repository: HEAD, its branches and the stash, each with its target.
pub(crate) type RepositoryRefs = BTreeMap<String, String>;

/// A workspace when a call starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FolderStart {
    pub top: ManifestPath,
    /// The name of the file of its tree, or the reason why there is no snapshot.
    pub tree: Result<String, String>,
    pub refs: RepositoryRefs,
}

/// The end of a call in one workspace. The paths that it changed are in lines of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotEnd {
    pub folder: ManifestPath,
    pub ended_at_ms: i64,
    /// The reason why there is no snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<String>,
    /// The runner did not see the end: what others changed until then counts as well.
    #[serde(default)]
    pub is_end_unseen: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved_refs: Vec<MovedRef>,
}

/// A ref of the repository that a call moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MovedRef {
    pub name: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

impl MovedRef {
    /// Returns whether HEAD is gone, and with it the repository.
    pub fn is_repository_gone(&self) -> bool {
        self.name == "HEAD" && self.after.is_none()
    }

    /// Names a ref that a call moved, and the command that moves it back.
    pub fn describe_way_back(&self, folder: &Path) -> String {
        let name = &self.name;
        let git = format!("git -C {}", super::super::display_path(folder));
        let command = match self.before.as_deref() {
            Some(before) => match before.strip_prefix("ref: ") {
                Some(branch) => format!("{git} symbolic-ref {name} {branch}"),
                None => format!("{git} update-ref --no-deref {name} {before}"),
            },
            None => format!("{git} update-ref -d {name}"),
        };
        format!("{name} was moved by the request and stays; this moves it back: {command}")
    }
}

/// The folder of the calls of one process.
#[derive(Debug)]
pub(super) struct CallsFolder {
    pub path: PathBuf,
    /// Locked as long as the process lives.
    lock: File,
}

impl Drop for CallsFolder {
    fn drop(&mut self) {
        // Children that are being started inherit the file, and would hold the lock until their `exec`.
        let _ = self.lock.unlock();
    }
}

impl CallsFolder {
    /// Makes one for this process. Another process may take one away before it is locked.
    pub fn create_in(folder: &Path) -> io::Result<Self> {
        let create = || {
            let path = folder.join(uuid::Uuid::new_v4().simple().to_string());
            fs::create_dir_all(&path)?;
            Self::lock(path)
        };
        create().or_else(|_| create())
    }

    fn lock(path: PathBuf) -> io::Result<Self> {
        let lock = open_lock_file(&path.join(LOCK))?;
        lock.try_lock()?;
        // Another process may have removed the folder in between.
        fs::symlink_metadata(path.join(LOCK))?;
        Ok(Self { path, lock })
    }

    /// Takes over the folders of processes that are gone.
    pub fn take_over_abandoned(folder: &Path) -> Vec<Self> {
        let paths = fs::read_dir(folder).into_iter().flatten().flatten();
        paths
            .filter_map(|entry| Self::lock(entry.path()).ok())
            .collect()
    }

    /// Returns whether a process that lives takes snapshots.
    pub fn is_any_in_use(folder: &Path) -> bool {
        let mut paths = fs::read_dir(folder).into_iter().flatten().flatten();
        paths.any(|entry| Self::lock(entry.path()).is_err())
    }

    fn record_file(&self, request: &RequestId) -> PathBuf {
        self.path
            .join(format!("{}.{RECORD_ENDING}", request.as_str()))
    }

    /// The path of a tree from before a call.
    pub fn tree_file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn write_start(&self, start: &CallStart) -> io::Result<()> {
        write_whole(&self.record_file(&start.request), |file| {
            Ok(serde_json::to_writer(file, start)?)
        })
    }

    /// Reads the starts of the calls that did not end, of all processes.
    pub fn read_all_starts(folder: &Path) -> Vec<CallStart> {
        let folders = fs::read_dir(folder).into_iter().flatten().flatten();
        folders
            .flat_map(|entry| read_starts_in(&entry.path()))
            .collect()
    }

    /// Reads the starts of the calls that did not end.
    pub fn read_starts(&self) -> Vec<CallStart> {
        read_starts_in(&self.path)
    }

    /// Removes the files of a call.
    pub fn remove_call(&self, start: &CallStart) {
        let trees = start
            .folders
            .iter()
            .filter_map(|one| one.tree.as_ref().ok());
        let trees = trees.map(|name| self.tree_file(name));
        for path in trees.chain([self.record_file(&start.request)]) {
            let _ = fs::remove_file(path);
        }
    }

    /// Removes the folder itself, once its calls are dealt with.
    pub fn remove_folder(self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn read_starts_in(folder: &Path) -> Vec<CallStart> {
    let paths = fs::read_dir(folder).into_iter().flatten().flatten();
    let records = paths.filter(|entry| {
        entry
            .path()
            .extension()
            .is_some_and(|ending| ending == RECORD_ENDING)
    });
    records
        .filter_map(|entry| serde_json::from_slice(&fs::read(entry.path()).ok()?).ok())
        .collect()
}

/// Writes a tree to a file, whole or not at all.
pub(super) fn write_tree_file(path: &Path, tree: &[TreeNode]) -> io::Result<()> {
    write_whole(path, |file| write_tree(tree, file))
}

pub(super) fn read_tree_file(path: &Path) -> io::Result<Vec<TreeNode>> {
    read_tree(BufReader::new(File::open(path)?))
}

/// Lists the files of all trees: the last of each workspace, and those of calls that did not end.
pub(super) fn list_tree_files(trees: &Path, calls: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let of_calls = list(calls).into_iter().flat_map(|folder| list(&folder));
    let mut all = list(trees);
    all.extend(of_calls);
    all.retain(|path| path.extension().is_some_and(|ending| ending == "tree"));
    all
}

/// Writes a file under another name first. It is not synced.
pub(super) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let draft = path.with_file_name(format!(".{}.tmp", uuid::Uuid::new_v4().simple()));
    let file = open_private_file(&draft, |options| options.write(true).create_new(true))?;
    let mut file = BufWriter::new(file);
    let written = write(&mut file)
        .and_then(|()| file.flush())
        .and_then(|()| fs::rename(&draft, path));
    written.inspect_err(|_| {
        let _ = fs::remove_file(&draft);
    })
}

/// Puts a tree where the next process finds it.
pub(super) fn share_tree_file(own: &Path, shared: &Path) -> io::Result<()> {
    let draft = shared.with_file_name(format!(".{}.tmp", uuid::Uuid::new_v4().simple()));
    link_file(own, &draft)?;
    fs::rename(&draft, shared)
}

/// Gives a file a second name.
pub(super) fn link_file(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(drop))
}
