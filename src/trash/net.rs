//! What a request did to each path in the end, from the lines of its manifests. Not here: what is there now (undo).

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::inventory::{Kept, Record};
use super::manifest::{Before, Line};
use crate::ids::hex;

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
    Item(PathBuf),
    /// An empty folder with this mode.
    EmptyFolder(u32),
    /// It was to be kept, and nothing of it is; perhaps it never went.
    Lost,
    /// It went, and nothing of it is kept.
    ForGood,
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

/// What commands removed.
#[derive(Debug, Default)]
pub(super) struct AllGone {
    /// What the request did not make itself, in order.
    pub gone: Vec<Gone>,
    /// What came to a path that was cleared before, and was removed too: made by the request, or moved there.
    pub later: Vec<(PathBuf, PathBuf)>,
    /// Commands of which nothing is kept.
    pub untracked: Vec<String>,
    /// The paths that were cleared.
    went: HashSet<PathBuf>,
}

/// Where what is newer than something goes, beside the item that both lie in: an undo that goes on with another one tells by
/// it that room was made.
pub(super) fn newer_name(path: &Path) -> String {
    format!("newer-{}", hex(&Sha256::digest(path.as_os_str().as_encoded_bytes())[..16]))
}

fn has_room(folders: &[&Path], path: &Path) -> bool {
    let name = newer_name(path);
    folders.iter().any(|folder| folder.join(&name).symlink_metadata().is_ok())
}

/// What commands removed, whichever of them wrote it down. `was_begun` where an undo may have put some of it back.
pub(super) fn gone<'a>(records: impl IntoIterator<Item = &'a Record>, was_begun: bool) -> AllGone {
    let mut dated: Vec<(u64, &Path, &Line)> = Vec::new();
    let mut folders: Vec<&Path> = Vec::new();
    for record in records {
        let Some(folder) = &record.folder else { continue };
        folders.push(folder);
        let mut now = 0;
        for line in &record.lines {
            match line {
                Line::Now { us } => now = now.max(*us),
                line => dated.push((now, folder, line)),
            }
        }
    }
    // Within a manifest the order stays.
    dated.sort_by_key(|(at, ..)| *at);
    let mut all = AllGone::default();
    for (_, folder, line) in dated {
        match line {
            Line::Removed { path, item, .. } if is_plain(item) => {
                let at = folder.join(item);
                let is_there = at.symlink_metadata().is_ok();
                let what = What::Item(at);
                let is_back =
                    || was_begun && (path.0.symlink_metadata().is_ok() || has_room(&folders, &path.0));
                all.add(&path.0, if is_there { what } else { What::Lost }, is_there || is_back());
            }
            Line::ForGood { path } => all.add(&path.0, What::ForGood, true),
            Line::EmptyFolder { path, mode } => all.add(&path.0, What::EmptyFolder(*mode), true),
            Line::Untracked { command } => all.untracked.push(command.clone()),
            _ => {}
        }
    }
    all
}

impl AllGone {
    /// What lies at or below something that was gone already came there afterwards. What is neither kept nor put back by an
    /// undo never went: who removes it was ended before that.
    fn add(&mut self, path: &Path, what: What, went: bool) {
        let is_later = path.ancestors().any(|above| self.went.contains(above));
        match what {
            What::Item(at) if is_later => self.later.push((path.to_owned(), at)),
            _ if is_later => {}
            what => {
                if went {
                    self.went.insert(path.to_owned());
                }
                self.gone.push(Gone { path: path.to_owned(), what });
            }
        }
    }
}

/// Whether an item has a name as a shim gives it. A manifest of removed things was written where commands may write, so
/// nothing in it is trusted to lead elsewhere: a slash at its end would lead through a link.
pub(super) fn is_plain(item: &str) -> bool {
    !item.is_empty() && item.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::super::manifest::Name;
    use super::*;

    #[test]
    fn only_a_number_is_the_name_of_an_item() {
        assert!(is_plain("1") && is_plain("4711"));
        for name in ["", "1/", "1/.", "./1", "..", ".", "1/..", "/1", "1\0", "a", "-1", "1 "] {
            assert!(!is_plain(name), "{name:?}");
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test lays out what is kept")]
    fn only_the_removal_that_failed_did_not_happen() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("1"), "kept").expect("written");
        let name = |path: &str| Name(path.into());
        let removed = |path: &str, item: &str| Line::Removed {
            path: name(path),
            item: item.to_owned(),
            files: 1,
            bytes: 4,
        };
        let emptied = |path: &str| Line::EmptyFolder { path: name(path), mode: 0o755 };
        let stayed = |path: &str| Line::Stayed { path: name(path) };
        let now = |us| Line::Now { us };
        let item = || What::Item(folder.path().join("1"));
        let all = |records: &[&[Line]]| {
            let record =
                |lines: &&[Line]| Record::new(Some(folder.path().to_owned()), PathBuf::new(), lines.to_vec());
            let records: Vec<Record> = records.iter().map(record).collect();
            let AllGone { gone, later, .. } = gone(&records, false);
            let gone: Vec<_> =
                gone.into_iter().map(|gone| (gone.path.display().to_string(), gone.what)).collect();
            (gone, later.len())
        };
        let of = |path: &str, what| (path.to_owned(), what);
        // Removed, made again, and then not removed.
        let again = [now(1), removed("/d", "1"), now(2), emptied("/d"), now(3), stayed("/d")];
        assert_eq!(all(&[&again]), (vec![of("/d", item())], 0));
        let again = [emptied("/d"), emptied("/d"), stayed("/d")];
        assert_eq!(all(&[&again]), (vec![of("/d", What::EmptyFolder(0o755))], 0));
        assert_eq!(all(&[&[emptied("/d"), stayed("/d")]]), (vec![], 0));
        assert_eq!(all(&[&[removed("/d", "2"), stayed("/d")]]), (vec![], 0), "it is there");
        assert_eq!(all(&[&[removed("/d", "2")]]), (vec![of("/d", What::Lost)], 0));
        // Then one by one.
        let one_by_one = [removed("/d", "2"), stayed("/d"), removed("/d/f", "1"), emptied("/d")];
        let expected = vec![of("/d/f", item()), of("/d", What::EmptyFolder(0o755))];
        assert_eq!(all(&[&one_by_one]), (expected.clone(), 0));
        // By two, beside each other: the first to begin was the last to end.
        let first = [now(10), emptied("/d/a"), now(30), emptied("/d")];
        let second = [now(20), removed("/d/f", "1")];
        let [a, d] = ["/d/a", "/d"].map(|path| of(path, What::EmptyFolder(0o755)));
        assert_eq!(all(&[&first, &second]), (vec![a, expected[0].clone(), d], 0));
        // What went for good, and what the request itself put there and removed as well.
        let for_good = Line::ForGood { path: name("/d") };
        let made_anew = [for_good.clone(), removed("/d", "1"), emptied("/d/e")];
        assert_eq!(all(&[&made_anew]), (vec![of("/d", What::ForGood)], 1));
        assert_eq!(all(&[&[removed("/d", "1"), for_good]]), (vec![of("/d", item())], 0));
        // Something else that came there.
        assert_eq!(all(&[&[removed("/f", "1"), removed("/f", "1")]]), (vec![of("/f", item())], 1));
    }
}
