//! What the manifest says of the end of a call in one workspace: what differs, and which refs moved.

use std::path::Path;

use super::super::manifest::ManifestLine;
use super::call_record::{FolderStart, MovedRef, RepositoryRefs, SnapshotEnd};
use super::git_index::{find_git_folder, read_refs};
use super::ignore_rules::find_repository_above;
use super::tree_node::{PathChange, compare_trees};
use super::watched_folder::FolderTree;
use punie_core::clock::unix_time_ms;

/// The lines that say what a call changed in one folder.
pub(super) fn describe_end(
    start: &FolderStart,
    trees: Result<(FolderTree, FolderTree), String>,
    is_end_unseen: bool,
) -> Vec<ManifestLine> {
    let (mut changes, mut off): (Vec<PathChange>, Option<String>) = (Vec::new(), None);
    match trees {
        Ok((before, after)) => compare_trees(&start.top.0, &before, &after, &mut changes),
        Err(why) => off = Some(why),
    }
    let end = ManifestLine::Snapshot(SnapshotEnd {
        folder: start.top.clone(),
        ended_at_ms: unix_time_ms(),
        off,
        is_end_unseen,
        moved_refs: list_moved_refs(&start.refs, &read_folder_refs(&start.top.0)),
    });
    let changes = changes.into_iter().map(ManifestLine::Changed);
    std::iter::once(end).chain(changes).collect()
}

/// The refs of the repository that a folder is, or lies in.
pub(super) fn read_folder_refs(top: &Path) -> RepositoryRefs {
    let repository = find_repository_above(top).unwrap_or(top);
    find_git_folder(&repository.join(".git"))
        .map(|git_folder| read_refs(&git_folder))
        .unwrap_or_default()
}

fn list_moved_refs(before: &RepositoryRefs, after: &RepositoryRefs) -> Vec<MovedRef> {
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let moved = names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name));
    moved
        .map(|name| MovedRef {
            name: name.clone(),
            before: before.get(name).cloned(),
            after: after.get(name).cloned(),
        })
        .collect()
}
