//! The changes that a call would make to files, as diffs for the person who is asked. A change that can be applied
//! exactly is shown as the whole file before and after. Otherwise the pieces that the call names are shown.

use std::io::Read as _;
use std::path::PathBuf;

use crate::protocol::Diff;
use punie_host::{RawPath, Workspace};
use punie_tool::{ProposedChange, ProposedContent, TextReplacement};

/// Larger diffs are not shown.
const MAX_DIFF_BYTES: usize = 256 << 10;

/// Builds the diffs of these changes; `None` if there are none or they are too long. Blocks, because files are read.
pub(super) fn preview_diffs(
    changes: &[ProposedChange],
    workspace: &Workspace,
) -> Option<Vec<Diff>> {
    let diffs: Vec<Diff> = changes
        .iter()
        .flat_map(|change| diff_proposed_change(workspace, change))
        .collect();
    let size = |diff: &Diff| diff.new_text.len() + diff.old_text.as_ref().map_or(0, String::len);
    (!diffs.is_empty() && diffs.iter().map(size).sum::<usize>() <= MAX_DIFF_BYTES).then_some(diffs)
}

fn resolve_to_absolute(workspace: &Workspace, path: &str) -> PathBuf {
    let found = workspace.resolve_inside(&RawPath::from(path));
    found.map_or_else(
        |_| workspace.first_root().join(path),
        |found| found.absolute_path().to_owned(),
    )
}

/// Reads a file from disk; `None` if it does not exist, is too long or is not UTF-8 text.
fn read_disk_text(workspace: &Workspace, path: &str) -> Option<String> {
    let file = workspace
        .resolve_inside(&RawPath::from(path))
        .ok()?
        .open_for_reading()
        .ok()?;
    let mut bytes = Vec::new();
    let read = file
        .take(MAX_DIFF_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .ok()?;
    if read > MAX_DIFF_BYTES {
        None
    } else {
        String::from_utf8(bytes).ok()
    }
}

fn build_diff(workspace: &Workspace, path: &str, old: Option<String>, new: &str) -> Diff {
    let diff = Diff::new(resolve_to_absolute(workspace, path), new);
    match old {
        Some(old) => diff.old_text(old),
        None => diff,
    }
}

fn diff_proposed_change(workspace: &Workspace, change: &ProposedChange) -> Vec<Diff> {
    let before = read_disk_text(workspace, &change.path);
    let shown_at = change.moved_to.as_deref().unwrap_or(&change.path);
    let replacements = match &change.content {
        ProposedContent::Whole(text) => return vec![build_diff(workspace, shown_at, before, text)],
        ProposedContent::Deleted => {
            return vec![build_diff(
                workspace,
                shown_at,
                Some(before.unwrap_or_default()),
                "",
            )];
        }
        ProposedContent::Replaced(replacements) => replacements,
    };
    if let Some(before) = &before
        && let Some(after) = replacements
            .iter()
            .try_fold(before.clone(), |text, edit| apply_replacement(&text, edit))
    {
        return vec![build_diff(
            workspace,
            shown_at,
            Some(before.clone()),
            &after,
        )];
    }
    // The tool may find the text by looser rules, so only the searched text and its replacement can be shown.
    let piece =
        |edit: &TextReplacement| build_diff(workspace, shown_at, Some(edit.old.clone()), &edit.new);
    replacements.iter().map(piece).collect()
}

/// Applies an edit to a text, if its position is unambiguous.
fn apply_replacement(text: &str, edit: &TextReplacement) -> Option<String> {
    if edit.old.is_empty() {
        return None;
    }
    let found = text.matches(&edit.old).take(2).count();
    (found == 1 || found > 1 && edit.everywhere).then(|| text.replace(&edit.old, &edit.new))
}
