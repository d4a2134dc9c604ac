//! A folder's content as text.

use std::fmt::Write as _;
use std::path::Path;

use super::rendered_page::LineSelection;
use punie_host::files::{FolderEntryKind, FolderListing, ListFolder};
use punie_host::{FileClient, WorkspacePath};
use punie_text::output::number_format;
use punie_text::output::path_text::path_text;
use punie_tool::{ResultMeta, ToolContext, ToolError, ToolReply};

/// The most entries shown.
pub(super) const MAX_FOLDER_ENTRIES: usize = 500;
/// Characters reserved for the text around the entries.
const FRAME_CHARS: usize = 500;

/// Lists the requested entries of a folder, with a hint for the next page where the caller can ask
/// for it.
pub(super) async fn show_folder_entries(
    cx: &ToolContext,
    client: &dyn FileClient,
    path: WorkspacePath,
    recursive: bool,
    asked: LineSelection,
    can_continue: bool,
) -> Result<ToolReply, ToolError> {
    let shown = path.head_text();
    let limit = usize::try_from(asked.limit)
        .unwrap_or(MAX_FOLDER_ENTRIES)
        .min(MAX_FOLDER_ENTRIES);
    let request = ListFolder {
        path,
        recursive,
        offset: asked.offset,
        limit,
    };
    let listing = client.list_folder(cx, request).await?;
    let room = asked.budget.max_chars().saturating_sub(FRAME_CHARS);
    let (text, complete) = render_folder(&shown, &listing, recursive, room, can_continue);
    let meta = ResultMeta {
        truncated: !complete,
        ..ResultMeta::default()
    };
    Ok(ToolReply::from_fitted_text(text)
        .with_budget(asked.budget)
        .with_meta(meta))
}

fn render_folder(
    shown: &str,
    listing: &FolderListing,
    recursive: bool,
    room: usize,
    can_continue: bool,
) -> (String, bool) {
    let more = if listing.cut_short { "more than " } else { "" };
    let entries = if listing.total == 1 {
        "entry"
    } else {
        "entries"
    };
    let below = if recursive {
        " below it, without .git and what ignore files name"
    } else {
        ""
    };
    let mut text = format!(
        "{shown}/ (folder, {more}{} {entries}{below})\n",
        number_format::group_digits(listing.total)
    );
    if listing.total == 0 {
        text.push_str("It is empty.\n");
        return (text, true);
    }
    let mut used = 0;
    let mut lines = 0_u64;
    for entry in &listing.entries {
        let name = path_text(Path::new(&entry.name));
        let line = match &entry.kind {
            FolderEntryKind::Folder => format!("{name}/\n"),
            FolderEntryKind::File(size) => {
                format!("{name} ({})\n", number_format::format_size(*size))
            }
            FolderEntryKind::Link(target) => format!("{name} -> {}\n", path_text(target)),
            FolderEntryKind::Special => format!("{name} (not a regular file)\n"),
            FolderEntryKind::Unknown => format!("{name} (cannot be looked at)\n"),
        };
        used += line.chars().count();
        if used > room {
            break;
        }
        text.push_str(&line);
        lines += 1;
    }
    let first = listing.first;
    let last = listing.first + lines - u64::from(lines > 0);
    let complete = lines == listing.total && !listing.cut_short;
    if lines == 0 {
        let _ = writeln!(
            text,
            "There is no entry {first}: there are {}.",
            number_format::group_digits(listing.total)
        );
    } else if !complete {
        let total = number_format::group_digits(listing.total);
        let next = match listing.total - last {
            0 if !listing.cut_short => ", to the end.".to_owned(),
            _ if can_continue => format!(". Continue with offset={}.", last + 1),
            left => format!(
                "; {} more entr{} left out. List a folder further down, or use Glob.",
                number_format::group_digits(left),
                if left == 1 { "y" } else { "ies" }
            ),
        };
        let _ = writeln!(text, "\nShowing {first}-{last} of {more}{total}{next}");
    }
    (text, complete)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punie_host::files::FolderEntry;

    #[test]
    fn what_does_not_fit_is_counted() {
        let entry = |name: &str, kind| FolderEntry {
            name: name.into(),
            kind,
        };
        let mut listing = FolderListing {
            first: 1,
            entries: vec![
                entry("a", FolderEntryKind::Folder),
                entry("b", FolderEntryKind::File(1)),
                entry("c", FolderEntryKind::Link("d".into())),
            ],
            total: 3,
            cut_short: false,
        };
        assert_eq!(
            render_folder("/w", &listing, false, 100, true),
            (
                "/w/ (folder, 3 entries)\na/\nb (1 byte)\nc -> d\n".into(),
                true
            )
        );
        let (text, complete) = render_folder("/w", &listing, false, 14, false);
        assert!(
            !complete && text.contains("Showing 1-2 of 3; 1 more entry left out"),
            "{text}"
        );
        let (text, _) = render_folder("/w", &listing, false, 14, true);
        assert!(
            text.contains("Showing 1-2 of 3. Continue with offset=3."),
            "{text}"
        );
        listing.entries.remove(0);
        listing.first = 2;
        let (text, _) = render_folder("/w", &listing, false, 100, true);
        assert!(text.contains("Showing 2-3 of 3, to the end."), "{text}");
    }
}
