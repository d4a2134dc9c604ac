//! Lists a folder: one level from the opened folder itself, or everything below by a walk that follows no links. Not
//! here: searching (the search tools).

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;

use tokio_util::sync::CancellationToken;

use super::near_names;
use crate::acp::files::{EntryKind, FolderEntry, FolderListing, ListFolder};
use crate::acp::workspace::Folder;
use crate::tool::ToolError;

/// The largest number of entries that a recursive listing visits.
const WALKED: u64 = 200_000;

pub(super) fn list(request: &ListFolder, cancel: &CancellationToken) -> Result<FolderListing, ToolError> {
    let shown = request.path.shown();
    let folder = request.path.open_folder().map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => near_names::missing(&request.path),
        io::ErrorKind::NotADirectory => {
            ToolError::invalid_args(format!("{shown} is a file, not a folder. Read it with Read."))
        }
        _ => ToolError::io(&shown, &cause),
    })?;
    if request.recursive {
        return walk(request, cancel);
    }
    let mut names = folder.names().map_err(|cause| ToolError::io(&shown, &cause))?;
    names.sort();
    let total = names.len() as u64;
    let first = first_of(request.offset, total);
    let before = usize::try_from(first - 1).unwrap_or(usize::MAX);
    let mut entries = Vec::new();
    for name in names.iter().skip(before).take(request.limit) {
        if cancel.is_cancelled() {
            return Err(cancelled(&shown));
        }
        entries.push(FolderEntry { name: name.clone(), kind: kind_in(&folder, name) });
    }
    Ok(FolderListing { first, entries, total, cut_short: false })
}

/// Returns the number of the first entry, for an offset that counts from 1 or from the end.
fn first_of(offset: i64, total: u64) -> u64 {
    match offset {
        ..0 => total.saturating_sub(offset.unsigned_abs()) + 1,
        _ => offset.unsigned_abs().max(1),
    }
}

fn kind_in(folder: &Folder, name: &OsStr) -> EntryKind {
    match folder.metadata(name) {
        Ok(metadata) if metadata.is_symlink() => {
            folder.link_target(name).map_or(EntryKind::Unknown, EntryKind::Link)
        }
        Ok(metadata) => kind_of(&metadata),
        Err(_) => EntryKind::Unknown,
    }
}

fn kind_of(metadata: &Metadata) -> EntryKind {
    if metadata.is_dir() {
        EntryKind::Folder
    } else if metadata.is_file() {
        EntryKind::File(metadata.len())
    } else {
        EntryKind::Special
    }
}

fn walk(request: &ListFolder, cancel: &CancellationToken) -> Result<FolderListing, ToolError> {
    let root = request.path.absolute();
    let walk = ignore::WalkBuilder::new(root)
        .hidden(false)
        .parents(true)
        .filter_entry(|at| at.file_name() != ".git")
        .sort_by_file_name(Ord::cmp)
        .build();
    let mut listing = FolderListing { first: 1, entries: Vec::new(), total: 0, cut_short: false };
    for entry in walk.flatten().filter(|entry| entry.depth() > 0) {
        if cancel.is_cancelled() {
            return Err(cancelled(&request.path.shown()));
        }
        if listing.total == WALKED {
            listing.cut_short = true;
            break;
        }
        listing.total += 1;
        if listing.entries.len() < request.limit {
            let name = entry.path().strip_prefix(root).unwrap_or(entry.path()).as_os_str().to_owned();
            let kind = match entry.metadata() {
                Ok(metadata) if metadata.is_symlink() => {
                    entry.path().read_link().map_or(EntryKind::Unknown, EntryKind::Link)
                }
                Ok(metadata) => kind_of(&metadata),
                Err(_) => EntryKind::Unknown,
            };
            listing.entries.push(FolderEntry { name, kind });
        }
    }
    Ok(listing)
}

fn cancelled(shown: &str) -> ToolError {
    ToolError::cancelled(format!("Listing {shown} was cancelled. Nothing was changed."))
}
