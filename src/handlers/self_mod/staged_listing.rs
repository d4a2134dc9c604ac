//! The listing of a folder with the files of a view in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use punie_host::FileClient;
use punie_host::FileView;
use punie_host::file_view::ViewedEntry;
use punie_host::files::{FolderEntry, FolderEntryKind, FolderListing, ListFolder};
use punie_tool::{ErrorCode, ToolContext, ToolError};

/// Lists a folder as a view shows it.
pub(super) async fn list_viewed_folder(
    client: &dyn FileClient,
    cx: &ToolContext,
    request: ListFolder,
    view: &FileView,
) -> Result<FolderListing, ToolError> {
    let folder = request.path.absolute_path().to_owned();
    if view.files_below(&folder).next().is_none() {
        return client.list_folder(cx, request).await;
    }
    let recursive = request.recursive;
    let offset = request.offset;
    let limit = request.limit;
    let all = ListFolder {
        offset: 1,
        limit: usize::MAX,
        ..request
    };
    let real = match client.list_folder(cx, all).await {
        Err(error)
            if error.stable_code() == ErrorCode::NotFound && view.has_files_below(&folder) =>
        {
            None
        }
        listed => Some(listed?),
    };
    let cut_short = real.as_ref().is_some_and(|real| real.cut_short);
    let mut entries: BTreeMap<PathBuf, FolderEntryKind> = real
        .map(|real| real.entries)
        .unwrap_or_default()
        .into_iter()
        .map(|entry| (PathBuf::from(entry.name), entry.kind))
        .collect();
    if recursive {
        merge_all_levels(&mut entries, view, &folder);
    } else {
        merge_one_level(&mut entries, view, &folder);
    }
    let total = entries.len() as u64;
    let first = match offset {
        ..0 => total.saturating_sub(offset.unsigned_abs()) + 1,
        _ => offset.unsigned_abs().max(1),
    };
    let entries = entries
        .into_iter()
        .skip(usize::try_from(first - 1).unwrap_or(usize::MAX))
        .take(limit)
        .map(|(name, kind)| FolderEntry {
            name: name.into_os_string(),
            kind,
        })
        .collect();
    Ok(FolderListing {
        first,
        entries,
        total,
        cut_short,
    })
}

fn merge_one_level(
    entries: &mut BTreeMap<PathBuf, FolderEntryKind>,
    view: &FileView,
    folder: &Path,
) {
    for (name, entry) in view.entries_in(folder) {
        let kind = match entry {
            ViewedEntry::File(file) => FolderEntryKind::File(file.size),
            ViewedEntry::Folder => FolderEntryKind::Folder,
            ViewedEntry::Removed => {
                entries.remove(Path::new(name));
                continue;
            }
        };
        entries.insert(name.into(), kind);
    }
}

fn merge_all_levels(
    entries: &mut BTreeMap<PathBuf, FolderEntryKind>,
    view: &FileView,
    folder: &Path,
) {
    for (rest, file) in view.files_below(folder) {
        let Some(file) = file else {
            entries.remove(rest);
            continue;
        };
        entries.insert(rest.to_owned(), FolderEntryKind::File(file.size));
        let above = rest.ancestors().skip(1);
        for parent in above.filter(|parent| !parent.as_os_str().is_empty()) {
            entries.insert(parent.to_owned(), FolderEntryKind::Folder);
        }
    }
}
