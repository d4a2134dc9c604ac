//! Copying the stored files of a request into a folder that the owner names. Not here: putting it back in its place
//! (undo).
#![expect(
    clippy::disallowed_methods,
    reason = "this file writes into the folder that the owner names"
)]

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::content_store::ContentStore;
use super::inventory::TrashEntry;
use super::manifest::ManifestLine;
use super::net_effect::{RemovedPath, RemovedThing, sum_removals};
use super::undo::{UndoError, UndoReport, find_entry};
use super::undo_steps::RemovedContent;
use super::{Trash, display_path, tree};
use punie_host::{Workspace, WorkspacePath};

/// The stored data of one path.
struct StoredPath {
    path: PathBuf,
    what: RemovedContent,
    /// A command removed it: what came with a folder around it is newer, since the request had made it there before it
    /// removed the folder.
    was_removed: bool,
}

impl Trash {
    /// Copies the stored files of a request below this folder, each under the path that it had; the first state of each
    /// path counts.
    ///
    /// # Errors
    /// [`UndoError`].
    pub fn restore_copy(&self, request: &str, to: &Path) -> Result<UndoReport, UndoError> {
        let _lock = self.lock()?;
        self.collect_from_commands()?;
        let all = self.list_entries_locked()?;
        let entry = find_entry(&all, request)?;
        let failed = |text: String| UndoError::Failed(entry.request.clone(), text);
        fs::create_dir_all(to)?;
        if fs::read_dir(to)?.next().is_some() {
            return Err(failed(format!("{} is not empty", to.display())));
        }
        // Each folder on the way is opened beneath this one, and no link is followed: what was restored before may be one.
        let folder = Workspace::open_roots(&[to.to_owned()])?;
        let (mut lines, mut left_out) = (Vec::new(), Vec::new());
        let mut trees: HashSet<PathBuf> = HashSet::new();
        for StoredPath {
            path,
            what,
            was_removed,
        } in self.list_stored_paths(entry)
        {
            let Some(target) = folder.path_if_inside(&path_below(folder.first_root(), &path))
            else {
                continue;
            };
            let replaces =
                was_removed && path.ancestors().skip(1).any(|above| trees.contains(above));
            let shown = display_path(&path_below(to, &path));
            match copy_out(&what, &target, replaces) {
                Ok(true) => {
                    lines.push(shown);
                    if was_removed {
                        trees.insert(path);
                    }
                }
                Ok(false) => {}
                Err(cause) => {
                    tracing::warn!(path = shown, %cause, "one of the things that were to be restored is left out");
                    left_out.push(format!("{shown}: {cause}"));
                }
            }
        }
        if lines.is_empty() {
            let nothing = || UndoError::Nothing(entry.request.clone(), vec![]);
            return Err(if left_out.is_empty() {
                nothing()
            } else {
                failed(left_out.join("; "))
            });
        }
        lines.extend(left_out.into_iter().map(|text| format!("left out: {text}")));
        Ok(UndoReport {
            request: entry.request.clone(),
            lines,
            is_partial: false,
        })
    }

    /// Lists what is kept. What a command removed comes as an undo would bring it: a folder before what it had lost
    /// earlier; what came there after it was removed comes last.
    fn list_stored_paths(&self, entry: &TrashEntry) -> Vec<StoredPath> {
        let contents = ContentStore::in_folder(self.home.trash_objects_dir());
        let before = entry.tool_lines().filter_map(|line| match line {
            ManifestLine::File {
                path,
                before: Some(before),
                ..
            } if contents.has_content_of_size(&before.sha256, before.size) => {
                let what = RemovedContent::Item(contents.content_path(&before.sha256));
                Some(StoredPath {
                    path: path.0.clone(),
                    what,
                    was_removed: false,
                })
            }
            _ => None,
        });
        let removals = sum_removals(&entry.records, entry.was_begun);
        let first = removals.first.into_iter().rev().filter_map(
            |RemovedPath { path, what, .. }| match what {
                RemovedThing::Kept(what) => Some(StoredPath {
                    path,
                    what,
                    was_removed: true,
                }),
                RemovedThing::Lost | RemovedThing::ForGood => None,
            },
        );
        // Beside the first state of a path, under names of their own.
        let mut counts: HashMap<PathBuf, u32> = HashMap::new();
        let later = removals.later.into_iter().map(|(path, at)| {
            let count = counts
                .entry(path.clone())
                .and_modify(|count| *count += 1)
                .or_insert(1);
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".later-{count}"));
            StoredPath {
                path: path.with_file_name(name),
                what: RemovedContent::Item(at),
                was_removed: false,
            }
        });
        before.chain(first).chain(later).collect()
    }
}

/// Copies one thing to where it belongs. Returns `false` where there is something already that it does not replace.
fn copy_out(what: &RemovedContent, target: &WorkspacePath, replaces: bool) -> io::Result<bool> {
    let (folder, name) = target.open_parent_folder(true)?;
    let path = folder.entry_path(&name);
    match folder.entry_metadata(&name) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
        Ok(_) if replaces => tree::remove_tree(&path)?,
        Ok(_) => return Ok(false),
        Err(cause) => return Err(cause),
    }
    match what {
        RemovedContent::Item(at) => tree::copy_without_replacing(at, &path)?,
        RemovedContent::EmptyFolder(_) => fs::create_dir(&path)?,
        RemovedContent::Link(to) => std::os::unix::fs::symlink(to, &path)?,
    }
    Ok(true)
}

/// A path below another folder, without a way out of it.
fn path_below(folder: &Path, path: &Path) -> PathBuf {
    let plain = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_)));
    plain.fold(folder.to_owned(), |below, part| below.join(part))
}
