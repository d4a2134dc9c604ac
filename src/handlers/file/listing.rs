//! A folder's content as text. Not here: reading it.

use std::fmt::Write as _;

use super::rendered::plain_name;
use crate::acp::files::{EntryKind, FolderListing, ListFolder};
use crate::acp::{FileClient, WorkspacePath};
use crate::output::Budget;
use crate::output::figures;
use crate::tool::{Meta, Reply, ToolCx, ToolError};

/// So many entries are shown.
const SHOWN: usize = 500;
/// Left for what stands around the entries.
const FRAME: usize = 500;

/// Lists a folder as an answer.
pub(super) async fn folder(
    cx: &ToolCx,
    client: &dyn FileClient,
    path: WorkspacePath,
    recursive: bool,
    budget: Budget,
) -> Result<Reply, ToolError> {
    let shown = path.shown();
    let listing = client.list_folder(cx, ListFolder { path, recursive, limit: SHOWN }).await?;
    let (text, complete) = render(&shown, &listing, recursive, budget.max_chars().saturating_sub(FRAME));
    Ok(Reply::fitted(text).with_budget(budget).with_meta(Meta { truncated: !complete, ..Meta::default() }))
}

fn render(shown: &str, listing: &FolderListing, recursive: bool, room: usize) -> (String, bool) {
    let more = if listing.cut_short { "more than " } else { "" };
    let entries = if listing.total == 1 { "entry" } else { "entries" };
    let below = if recursive { " below it, without .git and what ignore files name" } else { "" };
    let mut text = format!("{shown}/ (folder, {more}{} {entries}{below})\n", figures::grouped(listing.total));
    if listing.total == 0 {
        text.push_str("It is empty.\n");
        return (text, true);
    }
    let mut used = 0;
    let mut lines = 0_u64;
    for entry in &listing.entries {
        let name = plain_name(entry.name.as_bytes());
        let line = match &entry.kind {
            EntryKind::Folder => format!("{name}/\n"),
            EntryKind::File(size) => format!("{name} ({})\n", figures::size(*size)),
            EntryKind::Link(target) => format!("{name} -> {}\n", plain_name(target.as_bytes())),
            EntryKind::Special => format!("{name} (not a regular file)\n"),
            EntryKind::Unknown => format!("{name} (cannot be looked at)\n"),
        };
        used += line.chars().count();
        if used > room {
            break;
        }
        text.push_str(&line);
        lines += 1;
    }
    let complete = lines == listing.total && !listing.cut_short;
    if !complete {
        let left = listing.total - lines;
        let _ = writeln!(
            text,
            "\nShowing the first {lines} of {more}{}; {} more entr{} left out. List a folder further down, or use Glob.",
            figures::grouped(listing.total),
            figures::grouped(left),
            if left == 1 { "y" } else { "ies" }
        );
    }
    (text, complete)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::files::FolderEntry;

    #[test]
    fn what_does_not_fit_is_counted() {
        let entry = |name: &str, kind| FolderEntry { name: name.to_owned(), kind };
        let listing = FolderListing {
            entries: vec![
                entry("a", EntryKind::Folder),
                entry("b", EntryKind::File(1)),
                entry("c", EntryKind::Link("d".into())),
            ],
            total: 3,
            cut_short: false,
        };
        assert_eq!(
            render("/w", &listing, false, 100),
            ("/w/ (folder, 3 entries)\na/\nb (1 byte)\nc -> d\n".into(), true)
        );
        let (text, complete) = render("/w", &listing, false, 14);
        assert!(!complete && text.contains("first 2 of 3; 1 more entry left out"), "{text}");
    }
}
