//! Copying the stored files of a request into a folder that the owner names. Not here: putting it back in its place
//! (undo).
#![expect(clippy::disallowed_methods, reason = "this file writes into the folder that the owner names")]

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::contents::Contents;
use super::inventory::TrashEntry;
use super::manifest::Line;
use super::net_effect::{Removal, RemovedThing, removals};
use super::steps::Removed;
use super::undo::{UndoError, Undone, find_entry};
use super::{Trash, display_path, tree};
use crate::acp::{Workspace, WorkspacePath};

/// The stored data of one path.
struct KeptPath {
    path: PathBuf,
    what: Removed,
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
    pub fn restore(&self, request: &str, to: &Path) -> Result<Undone, UndoError> {
        let _lock = self.lock()?;
        self.collect()?;
        let all = self.inventory()?;
        let entry = find_entry(&all, request)?;
        let failed = |text: String| UndoError::Failed(entry.request.clone(), text);
        fs::create_dir_all(to)?;
        if fs::read_dir(to)?.next().is_some() {
            return Err(failed(format!("{} is not empty", to.display())));
        }
        // Each folder on the way is opened beneath this one, and no link is followed: what was restored before may be one.
        let folder = Workspace::open(&[to.to_owned()])?;
        let (mut lines, mut left_out) = (Vec::new(), Vec::new());
        let mut trees: HashSet<PathBuf> = HashSet::new();
        for KeptPath { path, what, was_removed } in self.list_kept(entry) {
            let Some(target) = folder.found(&path_below(folder.first(), &path)) else { continue };
            let replaces = was_removed && path.ancestors().skip(1).any(|above| trees.contains(above));
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
            let nothing = || UndoError::Nothing(entry.request.clone());
            return Err(if left_out.is_empty() { nothing() } else { failed(left_out.join("; ")) });
        }
        lines.extend(left_out.into_iter().map(|text| format!("left out: {text}")));
        Ok(Undone { request: entry.request.clone(), lines, is_partial: false })
    }

    /// Lists what is kept. What a command removed comes as an undo would bring it: a folder before what it had lost
    /// earlier; what came there after it was removed comes last.
    fn list_kept(&self, entry: &TrashEntry) -> Vec<KeptPath> {
        let contents = Contents::in_folder(self.home.trash_objects_dir());
        let before = entry.tool_lines().filter_map(|line| match line {
            Line::File { path, before: Some(before), .. } if contents.has(&before.sha256, before.size) => {
                let what = Removed::Item(contents.path(&before.sha256));
                Some(KeptPath { path: path.0.clone(), what, was_removed: false })
            }
            _ => None,
        });
        let removals = removals(&entry.records, entry.was_begun);
        let first = removals.first.into_iter().rev().filter_map(|Removal { path, what }| match what {
            RemovedThing::Kept(what) => Some(KeptPath { path, what, was_removed: true }),
            RemovedThing::Lost | RemovedThing::ForGood => None,
        });
        // Beside the first state of a path, under names of their own.
        let mut counts: HashMap<PathBuf, u32> = HashMap::new();
        let later = removals.later.into_iter().map(|(path, at)| {
            let count = counts.entry(path.clone()).and_modify(|count| *count += 1).or_insert(1);
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".later-{count}"));
            KeptPath { path: path.with_file_name(name), what: Removed::Item(at), was_removed: false }
        });
        before.chain(first).chain(later).collect()
    }
}

/// Copies one thing to where it belongs. Returns `false` where there is something already that it does not replace.
fn copy_out(what: &Removed, target: &WorkspacePath, replaces: bool) -> io::Result<bool> {
    let (folder, name) = target.open_parent(true)?;
    let path = folder.path_of(&name);
    match folder.metadata(&name) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
        Ok(_) if replaces => tree::remove_tree(&path)?,
        Ok(_) => return Ok(false),
        Err(cause) => return Err(cause),
    }
    match what {
        Removed::Item(at) => tree::copy_without_replacing(at, &path)?,
        Removed::EmptyFolder(_) => fs::create_dir(&path)?,
    }
    Ok(true)
}

/// A path below another folder, without a way out of it.
fn path_below(folder: &Path, path: &Path) -> PathBuf {
    let plain = path.components().filter(|part| matches!(part, Component::Normal(_)));
    plain.fold(folder.to_owned(), |below, part| below.join(part))
}
