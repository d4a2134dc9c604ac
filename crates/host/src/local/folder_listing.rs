//! Lists a folder: one level from the opened folder itself, or everything below by a walk that follows no links.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;

use tokio_util::sync::CancellationToken;

use super::similar_paths;
use crate::files::{FolderEntry, FolderEntryKind, FolderListing, ListFolder};
use crate::workspace::FolderHandle;
use punie_core::runner_home::is_runner_home;
use punie_tool::ToolError;

/// The largest number of entries that a recursive listing visits.
const MAX_WALKED_ENTRIES: u64 = 200_000;

pub(super) fn list_folder_entries(
    request: &ListFolder,
    cancel: &CancellationToken,
) -> Result<FolderListing, ToolError> {
    let shown = request.path.display_text();
    let folder = request
        .path
        .open_as_folder()
        .map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => similar_paths::missing_path_error(&request.path),
            io::ErrorKind::NotADirectory => ToolError::invalid_args(format!(
                "{shown} is a file, not a folder. Read it with Read."
            )),
            _ => ToolError::from_io(&shown, &cause),
        })?;
    if request.recursive {
        return walk_recursively(request, cancel);
    }
    let mut names = folder
        .entry_names()
        .map_err(|cause| ToolError::from_io(&shown, &cause))?;
    names.sort();
    let total = names.len() as u64;
    let first = resolve_first_entry(request.offset, total);
    let before = usize::try_from(first - 1).unwrap_or(usize::MAX);
    let mut entries = Vec::new();
    for name in names.iter().skip(before).take(request.limit) {
        if cancel.is_cancelled() {
            return Err(listing_cancelled_error(&shown));
        }
        entries.push(FolderEntry {
            name: name.clone(),
            kind: entry_kind_at(&folder, name),
        });
    }
    Ok(FolderListing {
        first,
        entries,
        total,
        cut_short: false,
    })
}

/// Returns the number of the first entry, for an offset that counts from 1 or from the end.
fn resolve_first_entry(offset: i64, total: u64) -> u64 {
    match offset {
        ..0 => total.saturating_sub(offset.unsigned_abs()) + 1,
        _ => offset.unsigned_abs().max(1),
    }
}

fn entry_kind_at(folder: &FolderHandle, name: &OsStr) -> FolderEntryKind {
    match folder.entry_metadata(name) {
        Ok(metadata) if metadata.is_symlink() => folder
            .entry_link_target(name)
            .map_or(FolderEntryKind::Unknown, FolderEntryKind::Link),
        Ok(metadata) => entry_kind_from(&metadata),
        Err(_) => FolderEntryKind::Unknown,
    }
}

fn entry_kind_from(metadata: &Metadata) -> FolderEntryKind {
    if metadata.is_dir() {
        FolderEntryKind::Folder
    } else if metadata.is_file() {
        FolderEntryKind::File(metadata.len())
    } else {
        FolderEntryKind::Special
    }
}

fn walk_recursively(
    request: &ListFolder,
    cancel: &CancellationToken,
) -> Result<FolderListing, ToolError> {
    let root = request.path.absolute_path();
    let walk = ignore::WalkBuilder::new(root)
        .hidden(false)
        .parents(true)
        .filter_entry(|at| {
            let is_folder = at.file_type().is_some_and(|kind| kind.is_dir());
            at.file_name() != ".git" && !(is_folder && is_runner_home(at.path()))
        })
        .sort_by_file_name(Ord::cmp)
        .build();
    let mut listing = FolderListing {
        first: 1,
        entries: Vec::new(),
        total: 0,
        cut_short: false,
    };
    for entry in walk.flatten().filter(|entry| entry.depth() > 0) {
        if cancel.is_cancelled() {
            return Err(listing_cancelled_error(&request.path.display_text()));
        }
        if listing.total == MAX_WALKED_ENTRIES {
            listing.cut_short = true;
            break;
        }
        listing.total += 1;
        if listing.entries.len() < request.limit {
            let name = entry
                .path()
                .strip_prefix(root)
                .unwrap_or(entry.path())
                .as_os_str()
                .to_owned();
            let kind = match entry.metadata() {
                Ok(metadata) if metadata.is_symlink() => entry
                    .path()
                    .read_link()
                    .map_or(FolderEntryKind::Unknown, FolderEntryKind::Link),
                Ok(metadata) => entry_kind_from(&metadata),
                Err(_) => FolderEntryKind::Unknown,
            };
            listing.entries.push(FolderEntry { name, kind });
        }
    }
    Ok(listing)
}

fn listing_cancelled_error(shown: &str) -> ToolError {
    ToolError::call_cancelled(format!(
        "Listing {shown} was cancelled. Nothing was changed."
    ))
}
