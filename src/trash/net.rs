//! What a request did to each path in the end, from the lines of its manifests. Not here: what is there now (undo).

use std::path::{Path, PathBuf};

use super::inventory::Kept;
use super::manifest::{Before, Line};

/// One path, as it was before the request and as the request left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Net {
    pub path: PathBuf,
    pub before: Option<Before>,
    pub after: Option<String>,
    pub mode_changes: bool,
}

/// Something that a command removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gone {
    pub path: PathBuf,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// It is kept here.
    Item { at: PathBuf, files: u64, bytes: u64 },
    /// An empty folder with this mode.
    EmptyFolder(u32),
}

/// What file tools did, path by path.
pub(super) fn nets(kept: &Kept) -> Vec<Net> {
    let mut nets: Vec<Net> = Vec::new();
    // Where commands may write, nobody writes of file tools.
    let lines = kept.records.iter().filter(|record| record.folder.is_none()).flat_map(|record| &record.lines);
    for line in lines {
        match line {
            Line::File { path, before, after, mode_changes } => {
                let next = Net {
                    path: path.0.clone(),
                    before: before.clone(),
                    after: after.clone(),
                    mode_changes: *mode_changes,
                };
                fold(&mut nets, next);
            }
            Line::Move { from, to, sha256 } => {
                let moved = Before { sha256: sha256.clone(), size: 0, mode: None, kept: false };
                let source = nets.iter_mut().find(|net| net.path == from.0);
                match source {
                    Some(net) => net.after = None,
                    None => nets.push(Net {
                        path: from.0.clone(),
                        before: Some(moved),
                        after: None,
                        mode_changes: false,
                    }),
                }
                let after = Some(sha256.clone());
                fold(&mut nets, Net { path: to.0.clone(), before: None, after, mode_changes: false });
            }
            _ => {}
        }
    }
    nets
}

/// Adds a later change of a path to the earlier ones. Where the earlier one did not happen (the call was cut off, and
/// run again on something else), only the later one counts.
fn fold(nets: &mut Vec<Net>, next: Net) {
    let Some(known) = nets.iter_mut().find(|known| known.path == next.path) else { return nets.push(next) };
    let found = next.before.as_ref().map(|before| &before.sha256);
    let goes_on =
        found == known.after.as_ref() || found == known.before.as_ref().map(|before| &before.sha256);
    if !goes_on {
        known.before = next.before;
    }
    known.after = next.after;
    known.mode_changes |= next.mode_changes;
}

/// What commands removed and the request did not make itself, in order. What was announced and never came is none of it.
pub(super) fn gone(kept: &Kept) -> Vec<Gone> {
    let mut gone: Vec<Gone> = Vec::new();
    let mut went: Vec<&Path> = Vec::new();
    for record in &kept.records {
        let Some(folder) = &record.folder else { continue };
        for line in &record.lines {
            let (path, what) = match line {
                Line::Removed { path, item, files, bytes } if is_plain(item) => {
                    let at = folder.join(item);
                    (path, What::Item { at, files: *files, bytes: *bytes })
                }
                Line::EmptyFolder { path, mode } => (path, What::EmptyFolder(*mode)),
                Line::Stayed { path } => {
                    went.retain(|earlier| **earlier != path.0);
                    gone.retain(|earlier| earlier.path != path.0);
                    continue;
                }
                _ => continue,
            };
            // What lies at or below something that was gone already came there afterwards.
            if went.iter().any(|earlier| path.0.starts_with(earlier)) {
                continue;
            }
            if matches!(&what, What::Item { at, .. } if at.symlink_metadata().is_err()) {
                continue;
            }
            went.push(&path.0);
            gone.push(Gone { path: path.0.clone(), what });
        }
    }
    gone
}

/// A manifest of removed things was written where commands may write, so nothing in it is trusted to lead elsewhere.
pub(super) fn is_plain(item: &str) -> bool {
    let mut parts = Path::new(item).components();
    matches!((parts.next(), parts.next()), (Some(std::path::Component::Normal(_)), None))
}
