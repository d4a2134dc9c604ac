//! The difference that a request made, as text: per path the lines before and after.

use std::fmt::Write as _;

use similar::TextDiff;

use super::content_store::ContentStore;
use super::manifest::ManifestLine;
use super::net_effect::sum_file_changes;
use super::path_state::read_item_content;
use super::snapshot::PathContent;
use super::undo::{UndoError, find_entry};
use super::{Trash, display_path};

/// A file above this size is only named.
const LARGEST_SHOWN: u64 = 1 << 20;
const CONTEXT_LINES: usize = 3;

/// What a path holds, for a difference.
enum Side {
    Absent,
    Text(String, u32),
    Other(String),
}

impl Trash {
    /// Shows what a request changed. `is_reversed`: what undoing it would change.
    ///
    /// # Errors
    /// [`UndoError`].
    pub fn diff_request(&self, request: &str, is_reversed: bool) -> Result<String, UndoError> {
        let _lock = self.lock()?;
        let all = self.list_entries_locked()?;
        let entry = find_entry(&all, request)?;
        let contents = ContentStore::in_folder(self.home.trash_objects_dir())
            .with_snapshots(self.home.trash_snapshot_contents_dir());
        let mut text = String::new();
        let mut add = |path: &std::path::Path, before: Side, after: Side| {
            let (old, new) = if is_reversed {
                (after, before)
            } else {
                (before, after)
            };
            describe_difference(&mut text, &display_path(path), &old, &new);
        };
        for line in entry.manifest_lines() {
            if let ManifestLine::Changed(change) = line {
                let side = |content: Option<&PathContent>| Side::from_content(content, &contents);
                add(
                    &change.path.0,
                    side(change.before.as_ref()),
                    side(change.after.as_ref()),
                );
            }
        }
        for change in sum_file_changes(entry) {
            let before = match &change.before {
                None => Side::Absent,
                Some(before) => {
                    Side::from_hash(&before.sha256, before.size, before.mode, &contents)
                }
            };
            // What a file tool left is not stored: it is shown as long as it is there.
            let after = match (&change.after, read_item_content(&change.path)) {
                (None, _) => Side::Absent,
                (Some(after), Some(PathContent::File { sha256, size, mode }))
                    if *after == sha256 =>
                {
                    Side::from_file(&change.path, size, mode)
                }
                _ => Side::Other("something that is there no more".to_owned()),
            };
            add(&change.path, before, after);
        }
        Ok(text)
    }
}

impl Side {
    fn from_content(content: Option<&PathContent>, contents: &ContentStore) -> Self {
        match content {
            None => Self::Absent,
            Some(PathContent::File { sha256, size, mode }) => {
                Self::from_hash(sha256, *size, Some(*mode), contents)
            }
            Some(PathContent::Link { target }) => {
                Self::Other(format!("a link to {}", display_path(&target.0)))
            }
            Some(PathContent::Folder { mode }) => Self::Other(format!("a folder (mode {mode:o})")),
            Some(PathContent::Uncovered { why, .. }) => {
                Self::Other(format!("something that is not covered ({})", why.text()))
            }
        }
    }

    fn from_hash(sha256: &str, size: u64, mode: Option<u32>, contents: &ContentStore) -> Self {
        let mode = mode.unwrap_or(0o644);
        if size > LARGEST_SHOWN {
            return Self::describe_binary(size, mode);
        }
        match contents.read_content(sha256) {
            Ok(bytes) => Self::from_bytes(bytes, mode),
            Err(_) => Self::Other("a file that is not kept".to_owned()),
        }
    }

    fn from_file(path: &std::path::Path, size: u64, mode: u32) -> Self {
        if size > LARGEST_SHOWN {
            return Self::describe_binary(size, mode);
        }
        std::fs::read(path).map_or(Self::Absent, |bytes| Self::from_bytes(bytes, mode))
    }

    fn from_bytes(bytes: Vec<u8>, mode: u32) -> Self {
        let size = bytes.len() as u64;
        match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => Self::Text(text, mode),
            _ => Self::describe_binary(size, mode),
        }
    }

    fn describe_binary(size: u64, mode: u32) -> Self {
        Self::Other(format!(
            "a binary or long file of {size} bytes (mode {mode:o})"
        ))
    }

    fn describe(&self) -> String {
        match self {
            Self::Absent => "nothing".to_owned(),
            Self::Text(text, mode) => format!("a file of {} bytes (mode {mode:o})", text.len()),
            Self::Other(words) => words.clone(),
        }
    }
}

fn describe_difference(to: &mut String, path: &str, before: &Side, after: &Side) {
    let (old, new) = match (before, after) {
        (Side::Text(old, old_mode), Side::Text(new, new_mode)) => {
            if old_mode != new_mode {
                let _ = writeln!(to, "{path}: mode {old_mode:o}, then {new_mode:o}");
            }
            (old.as_str(), new.as_str())
        }
        (Side::Absent, Side::Text(new, _)) => ("", new.as_str()),
        (Side::Text(old, _), Side::Absent) => (old.as_str(), ""),
        _ => {
            let _ = writeln!(
                to,
                "{path}: {}, then {}",
                before.describe(),
                after.describe()
            );
            return;
        }
    };
    let name = |side: &Side, letter: &str| match side {
        Side::Absent => "/dev/null".to_owned(),
        _ => format!("{letter}{path}"),
    };
    let diff = TextDiff::from_lines(old, new);
    let mut shown = diff.unified_diff();
    shown
        .context_radius(CONTEXT_LINES)
        .header(&name(before, "a"), &name(after, "b"));
    let _ = write!(to, "{shown}");
}
