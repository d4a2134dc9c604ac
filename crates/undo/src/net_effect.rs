//! The net effect of a request on each path, from the lines of its manifests.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::inventory::{ManifestRecord, TrashEntry};
use super::manifest::{FileBefore, ManifestLine};
use super::undo_steps::RemovedContent;
use punie_core::ids::to_hex;

/// The change that file tools made to one path: its state before and after the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NetChange {
    pub path: PathBuf,
    pub before: Option<FileBefore>,
    pub after: Option<String>,
    pub mode_changes: bool,
}

/// A path that a command removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RemovedPath {
    pub path: PathBuf,
    pub what: RemovedThing,
    /// The time, in microseconds since the machine was started.
    pub at_us: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RemovedThing {
    Kept(RemovedContent),
    /// It was to be kept, and nothing of it is; perhaps it was never removed.
    Lost,
    /// It was removed, and nothing of it is kept.
    ForGood,
}

/// The paths that commands removed.
#[derive(Debug, Default)]
pub(super) struct RemovedPaths {
    /// Paths that the request did not make itself, in order.
    pub first: Vec<RemovedPath>,
    /// Items that came to a path that was removed before, and was removed too, with its place in the trash.
    pub later: Vec<(PathBuf, PathBuf)>,
    /// Commands of which nothing is kept.
    pub untracked: Vec<String>,
    removed: HashSet<PathBuf>,
    /// The time of the removal that is being added.
    now_us: u64,
}

/// Adds up the changes by file tools, path by path.
pub(super) fn sum_file_changes(entry: &TrashEntry) -> Vec<NetChange> {
    let mut changes: Vec<NetChange> = Vec::new();
    for line in entry.tool_lines() {
        match line {
            ManifestLine::File {
                path,
                before,
                after,
                mode_changes,
            } => {
                let (before, after) = (before.clone(), after.clone());
                add_change(
                    &mut changes,
                    NetChange {
                        path: path.0.clone(),
                        before,
                        after,
                        mode_changes: *mode_changes,
                    },
                );
            }
            ManifestLine::Move { from, to, sha256 } => {
                let moved = FileBefore {
                    sha256: sha256.clone(),
                    size: 0,
                    mode: None,
                    kept: false,
                };
                let change = |path: &PathBuf, before, after| NetChange {
                    path: path.clone(),
                    before,
                    after,
                    mode_changes: false,
                };
                add_change(&mut changes, change(&from.0, Some(moved), None));
                add_change(&mut changes, change(&to.0, None, Some(sha256.clone())));
            }
            _ => {}
        }
    }
    changes
}

/// Adds a later change of a path to the earlier ones. Where the earlier one did not happen (the call was cut off, and run
/// again on something else), only the later one counts.
fn add_change(changes: &mut Vec<NetChange>, next: NetChange) {
    let Some(known) = changes.iter_mut().find(|known| known.path == next.path) else {
        return changes.push(next);
    };
    let found = next.before.as_ref().map(|before| &before.sha256);
    let was = known.before.as_ref().map(|before| &before.sha256);
    if found != known.after.as_ref() && found != was {
        known.before = next.before;
    }
    known.after = next.after;
    known.mode_changes |= next.mode_changes;
}

/// The name, beside the item that both lie in, for what is newer than something that comes back. An undo that goes on with
/// another one tells by it that the place was cleared.
pub(super) fn name_for_newer(path: &Path) -> String {
    format!(
        "newer-{}",
        to_hex(&Sha256::digest(path.as_os_str().as_encoded_bytes())[..16])
    )
}

/// Adds up what commands removed, whichever of them wrote it down. `was_begun`: an undo may have put some of it back.
pub(super) fn sum_removals<'a>(
    records: impl IntoIterator<Item = &'a ManifestRecord>,
    was_begun: bool,
) -> RemovedPaths {
    let mut dated: Vec<(u64, &Path, &ManifestLine)> = Vec::new();
    let mut folders: Vec<&Path> = Vec::new();
    for record in records {
        let Some(folder) = &record.folder else {
            continue;
        };
        folders.push(folder);
        let mut now = 0;
        for line in &record.lines {
            match line {
                ManifestLine::Now { us } => now = now.max(*us),
                line => dated.push((now, folder, line)),
            }
        }
    }
    // Within a manifest the order stays.
    dated.sort_by_key(|(at, ..)| *at);
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    let was_cleared = |path: &Path| {
        let name = name_for_newer(path);
        folders.iter().any(|folder| is_there(&folder.join(&name)))
    };
    let mut all = RemovedPaths::default();
    for (at_us, folder, line) in dated {
        all.now_us = at_us;
        match line {
            ManifestLine::Removed {
                path: path_name,
                item,
                ..
            } if is_item_name(item) => {
                let (path, at) = (&path_name.0, folder.join(item));
                if is_there(&at) {
                    all.add_removal(path, RemovedThing::Kept(RemovedContent::Item(at)), true);
                } else {
                    // What is neither kept nor put back by an undo was never removed: the shim was ended before that.
                    let is_back = was_begun && (is_there(path) || was_cleared(path));
                    all.add_removal(path, RemovedThing::Lost, is_back);
                }
            }
            ManifestLine::ForGood { path } => all.add_removal(&path.0, RemovedThing::ForGood, true),
            ManifestLine::EmptyFolder { path, mode } => {
                all.add_removal(
                    &path.0,
                    RemovedThing::Kept(RemovedContent::EmptyFolder(*mode)),
                    true,
                );
            }
            ManifestLine::Untracked { command } => all.untracked.push(command.clone()),
            _ => {}
        }
    }
    all
}

impl RemovedPaths {
    /// Adds a removal. What lies at or below a path that was removed already came there afterwards.
    fn add_removal(&mut self, path: &Path, what: RemovedThing, was_removed: bool) {
        let is_later = path.ancestors().any(|above| self.removed.contains(above));
        match what {
            RemovedThing::Kept(RemovedContent::Item(at)) if is_later => {
                self.later.push((path.to_owned(), at));
            }
            _ if is_later => {}
            what => {
                if was_removed {
                    self.removed.insert(path.to_owned());
                }
                self.first.push(RemovedPath {
                    path: path.to_owned(),
                    what,
                    at_us: self.now_us,
                });
            }
        }
    }
}

/// Returns whether a shim gives such a name to an item. The manifest was written where commands may write, so nothing
/// in it is trusted to lead elsewhere: a slash at the end of a name would lead through a link.
fn is_item_name(item: &str) -> bool {
    !item.is_empty() && item.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::super::manifest::ManifestPath;
    use super::*;

    #[test]
    fn only_a_number_is_the_name_of_an_item() {
        assert!(is_item_name("1") && is_item_name("4711"));
        for name in [
            "", "1/", "1/.", "./1", "..", ".", "1/..", "/1", "1\0", "a", "-1", "1 ",
        ] {
            assert!(!is_item_name(name), "{name:?}");
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test lays out what is kept")]
    #[expect(clippy::too_many_lines, reason = "a list of cases")]
    fn only_the_removal_that_failed_did_not_happen() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("1"), "kept").expect("written");
        let name = |path: &str| ManifestPath(path.into());
        let removed = |path: &str, item: &str| ManifestLine::Removed {
            path: name(path),
            item: item.to_owned(),
            files: 1,
            bytes: 4,
        };
        let emptied = |path: &str| ManifestLine::EmptyFolder {
            path: name(path),
            mode: 0o755,
        };
        let stayed = |path: &str| ManifestLine::Stayed { path: name(path) };
        let now = |us| ManifestLine::Now { us };
        let item = || RemovedThing::Kept(RemovedContent::Item(folder.path().join("1")));
        let empty = || RemovedThing::Kept(RemovedContent::EmptyFolder(0o755));
        let all = |records: &[&[ManifestLine]]| {
            let record = |lines: &&[ManifestLine]| {
                ManifestRecord::new(
                    Some(folder.path().to_owned()),
                    lines.to_vec(),
                    PathBuf::new(),
                )
            };
            let records: Vec<ManifestRecord> = records.iter().map(record).collect();
            let RemovedPaths { first, later, .. } = sum_removals(&records, false);
            let first: Vec<_> = first
                .into_iter()
                .map(|one| (one.path.display().to_string(), one.what))
                .collect();
            (first, later.len())
        };
        let of = |path: &str, what| (path.to_owned(), what);
        // Removed, made again, and then not removed.
        let again = [
            now(1),
            removed("/d", "1"),
            now(2),
            emptied("/d"),
            now(3),
            stayed("/d"),
        ];
        assert_eq!(all(&[&again]), (vec![of("/d", item())], 0));
        let again = [emptied("/d"), emptied("/d"), stayed("/d")];
        assert_eq!(all(&[&again]), (vec![of("/d", empty())], 0));
        assert_eq!(all(&[&[emptied("/d"), stayed("/d")]]), (vec![], 0));
        assert_eq!(
            all(&[&[removed("/d", "2"), stayed("/d")]]),
            (vec![], 0),
            "it is there"
        );
        assert_eq!(
            all(&[&[removed("/d", "2")]]),
            (vec![of("/d", RemovedThing::Lost)], 0)
        );
        // Then one by one.
        let one_by_one = [
            removed("/d", "2"),
            stayed("/d"),
            removed("/d/f", "1"),
            emptied("/d"),
        ];
        let expected = vec![of("/d/f", item()), of("/d", empty())];
        assert_eq!(all(&[&one_by_one]), (expected.clone(), 0));
        // By two, beside each other: the first to begin was the last to end.
        let first = [now(10), emptied("/d/a"), now(30), emptied("/d")];
        let second = [now(20), removed("/d/f", "1")];
        let [a, d] = ["/d/a", "/d"].map(|path| of(path, empty()));
        assert_eq!(
            all(&[&first, &second]),
            (vec![a, expected[0].clone(), d], 0)
        );
        // What went for good, and what the request itself put there and removed as well.
        let for_good = ManifestLine::ForGood { path: name("/d") };
        let made_anew = [for_good.clone(), removed("/d", "1"), emptied("/d/e")];
        assert_eq!(
            all(&[&made_anew]),
            (vec![of("/d", RemovedThing::ForGood)], 1)
        );
        assert_eq!(
            all(&[&[removed("/d", "1"), for_good]]),
            (vec![of("/d", item())], 0)
        );
        // Something else that came there.
        assert_eq!(
            all(&[&[removed("/f", "1"), removed("/f", "1")]]),
            (vec![of("/f", item())], 1)
        );
    }
}
