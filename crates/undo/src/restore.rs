//! Copying the stored files of a request into a folder that the owner names. Not here: putting it back in its place
//! (undo).

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::content_store::ContentStore;
use super::inventory::TrashEntry;
use super::manifest::ManifestLine;
use super::snapshot::PathContent;
use super::step_changes::{make_folder, make_link, write_file};
use super::undo::{UndoError, UndoReport, find_entry};
use super::{Trash, display_path, tree};
use punie_host::{Workspace, WorkspacePath};

/// What is stored of a path.
enum StoredContent {
    /// A file: the hash of its content, and its mode.
    File(String, Option<u32>),
    Link(PathBuf),
    Folder,
    /// Something that lies in the trash as it is.
    Item(PathBuf),
}

impl Trash {
    /// Copies the stored files of a request below this folder, each under the path that it had; the first state of each
    /// path counts.
    ///
    /// # Errors
    /// [`UndoError`].
    pub fn restore_copy(&self, request: &str, to: &Path) -> Result<UndoReport, UndoError> {
        let _lock = self.lock()?;
        let all = self.list_entries_locked()?;
        let entry = find_entry(&all, request)?;
        let failed = |text: String| UndoError::Failed(entry.request.clone(), text);
        fs::create_dir_all(to)?;
        if fs::read_dir(to)?.next().is_some() {
            return Err(failed(format!("{} is not empty", to.display())));
        }
        // Each folder on the way is opened beneath this one, and no link is followed: what was restored before may be one.
        let folder = Workspace::open_roots(&[to.to_owned()])?;
        let mut lines = Vec::new();
        let mut left_out = Vec::new();
        let contents = ContentStore::in_folder(self.home.trash_objects_dir())
            .with_snapshots(self.home.trash_snapshot_contents_dir());
        for (path, what) in list_stored_paths(entry) {
            let Some(target) = folder.path_if_inside(&path_below(folder.first_root(), &path))
            else {
                continue;
            };
            let shown = display_path(&path_below(to, &path));
            match copy_out(&what, &target, &contents) {
                Ok(true) => lines.push(shown),
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
}

/// Lists what is kept: files as they were before the call, and what an undo took away.
fn list_stored_paths(entry: &TrashEntry) -> Vec<(PathBuf, StoredContent)> {
    let of_lines = entry.manifest_lines().filter_map(|line| match line {
        ManifestLine::File {
            path,
            before: Some(before),
            ..
        } if before.kept => {
            let what = StoredContent::File(before.sha256.clone(), before.mode);
            Some((path.0.clone(), what))
        }
        ManifestLine::Changed(change) => {
            let what = match change.before.as_ref()? {
                PathContent::File { sha256, mode, .. } => {
                    StoredContent::File(sha256.clone(), Some(*mode))
                }
                PathContent::Link { target } => StoredContent::Link(target.0.clone()),
                PathContent::Folder { .. } => StoredContent::Folder,
                PathContent::Uncovered { .. } => return None,
            };
            Some((change.path.0.clone(), what))
        }
        _ => None,
    });
    let of_undo = entry.removed_items();
    let of_undo = of_undo.map(|(path, item)| (path.to_owned(), StoredContent::Item(item)));
    of_lines.chain(of_undo).collect()
}

/// Copies one thing to where it belongs. Returns `false` where there is something already.
fn copy_out(
    what: &StoredContent,
    target: &WorkspacePath,
    contents: &ContentStore,
) -> io::Result<bool> {
    let (folder, name) = target.open_parent_folder(true)?;
    match folder.entry_metadata(&name) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
        Ok(_) => return Ok(false),
        Err(cause) => return Err(cause),
    }
    match what {
        StoredContent::Item(item) => {
            tree::copy_without_replacing(item, &folder.entry_path(&name))?;
        }
        StoredContent::File(sha256, mode) => {
            write_file(&folder, &name, contents, sha256, *mode).inspect_err(|_| {
                let _ = folder.remove_file_entry(&name);
            })?;
        }
        StoredContent::Folder => make_folder(&folder, &name, 0o700)?,
        StoredContent::Link(to) => make_link(&folder.entry_path(&name), to)?,
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
