//! The changes that a call would make to files, as differences for the person who is asked about it. Where a change can
//! be made exactly as it is written, the whole file is shown before and after; else the pieces that the call names. Not
//! here: the changes that were made (followed, sending).

use std::io::Read as _;
use std::path::PathBuf;

use serde_json::Value;

use super::patch_text::{FileChange, PatchText};
use crate::acp::protocol::Diff;
use crate::acp::{RawPath, Workspace};

/// Longer differences are not shown.
const LARGEST: usize = 256 << 10;

/// A piece of text and what takes its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replacement {
    pub old: String,
    pub new: String,
    pub everywhere: bool,
}

/// The differences that a call of this tool asks for; none where it is no edit, is too long, or is not understood.
/// Blocks: files are read.
pub(super) fn differences(tool: &str, args: &Value, workspace: &Workspace) -> Option<Vec<Diff>> {
    let text = |name: &str| args.get(name).and_then(Value::as_str);
    let path = text("file_path").or_else(|| text("path"));
    let diffs = match tool {
        "Write" | "write_file" => vec![whole(workspace, path?, text("content")?)],
        "Edit" => replaced(workspace, path?, &[replacement(args)?]),
        "MultiEdit" => {
            let edits = args.get("edits")?.as_array()?.iter().map(replacement);
            replaced(workspace, path?, &edits.collect::<Option<Vec<_>>>()?)
        }
        "ApplyPatch" => {
            let changes = PatchText::parse(text("patch")?)?.files;
            changes.iter().flat_map(|change| patched(workspace, change)).collect()
        }
        _ => return None,
    };
    let size = |diff: &Diff| diff.new_text.len() + diff.old_text.as_ref().map_or(0, String::len);
    (!diffs.is_empty() && diffs.iter().map(size).sum::<usize>() <= LARGEST).then_some(diffs)
}

fn replacement(edit: &Value) -> Option<Replacement> {
    Some(Replacement {
        old: edit.get("old_string")?.as_str()?.to_owned(),
        new: edit.get("new_string")?.as_str()?.to_owned(),
        everywhere: edit.get("replace_all").and_then(Value::as_bool).unwrap_or(false),
    })
}

/// Where a path leads, as an absolute one.
fn absolute(workspace: &Workspace, path: &str) -> PathBuf {
    let found = workspace.resolve(&RawPath::from(path));
    found.map_or_else(|_| workspace.first().join(path), |found| found.absolute().to_owned())
}

/// The text of a file as it is on disk; none where there is none, it is long, or no text.
fn on_disk(workspace: &Workspace, path: &str) -> Option<String> {
    let file = workspace.resolve(&RawPath::from(path)).ok()?.open_read().ok()?;
    let mut bytes = Vec::new();
    let read = file.take(LARGEST as u64 + 1).read_to_end(&mut bytes).ok()?;
    if read > LARGEST { None } else { String::from_utf8(bytes).ok() }
}

fn difference(workspace: &Workspace, path: &str, old: Option<String>, new: &str) -> Diff {
    let diff = Diff::new(absolute(workspace, path), new);
    match old {
        Some(old) => diff.old_text(old),
        None => diff,
    }
}

fn whole(workspace: &Workspace, path: &str, new: &str) -> Diff {
    difference(workspace, path, on_disk(workspace, path), new)
}

fn replaced(workspace: &Workspace, path: &str, edits: &[Replacement]) -> Vec<Diff> {
    let before = on_disk(workspace, path);
    if let Some(before) = &before
        && let Some(after) = edits.iter().try_fold(before.clone(), |text, edit| apply(&text, edit))
    {
        return vec![difference(workspace, path, Some(before.clone()), &after)];
    }
    // The tool may find the text by looser rules; what it looks for, and what it puts there, is what can be shown.
    let piece = |edit: &Replacement| difference(workspace, path, Some(edit.old.clone()), &edit.new);
    edits.iter().map(piece).collect()
}

/// The text after an edit, where that is beyond doubt.
fn apply(text: &str, edit: &Replacement) -> Option<String> {
    if edit.old.is_empty() {
        return None;
    }
    let found = text.matches(&edit.old).take(2).count();
    (found == 1 || found > 1 && edit.everywhere).then(|| text.replace(&edit.old, &edit.new))
}

fn patched(workspace: &Workspace, change: &FileChange) -> Vec<Diff> {
    let old = on_disk(workspace, &change.path);
    let shown_at = change.moved_to.as_deref().unwrap_or(&change.path);
    if change.deletes {
        return vec![difference(workspace, shown_at, Some(old.unwrap_or_default()), "")];
    }
    if change.adds {
        let new: String = change.hunks.iter().map(|hunk| hunk.new.as_str()).collect();
        return vec![difference(workspace, shown_at, old, &new)];
    }
    if let Some(before) = &old
        && let Some(after) = change.hunks.iter().try_fold(before.clone(), |text, hunk| apply(&text, hunk))
    {
        return vec![difference(workspace, shown_at, Some(before.clone()), &after)];
    }
    let piece = |hunk: &Replacement| difference(workspace, shown_at, Some(hunk.old.clone()), &hunk.new);
    change.hunks.iter().map(piece).collect()
}
