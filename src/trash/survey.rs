//! What is in something that is kept, before it comes back: how much, and what of it programs run. Not here: bringing it
//! (steps).
#![expect(clippy::disallowed_methods, reason = "this file looks through what the trash keeps")]

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::tree::TreeSize;
use crate::acp::protected;
use crate::output::figures;

/// How many protected names are named.
const MOST_NAMED: usize = 5;
/// The examples that git brings, which it never runs.
const EXAMPLE: &str = "sample";

/// How much of two files is compared at once, in bytes.
const CHUNK: usize = 64 << 10;

/// What there is of something.
#[derive(Debug, Default)]
pub(super) struct Survey {
    size: TreeSize,
    /// The rules of what is protected in it.
    protected: BTreeSet<&'static str>,
}

impl Survey {
    /// Of something that gets this path in its workspace, as it is on the disk: what a manifest says of it a command
    /// may have written.
    pub fn of(item: &Path, path: &Path) -> Self {
        let mut survey = Self::default();
        let mut waiting: Vec<(PathBuf, PathBuf, bool)> = vec![(item.to_owned(), path.to_owned(), false)];
        while let Some((at, path, is_named)) = waiting.pop() {
            let Ok(metadata) = fs::symlink_metadata(&at) else { continue };
            let rule = if is_named { None } else { survey.protection(&path, &metadata) };
            if metadata.is_dir() {
                let below = fs::read_dir(&at).into_iter().flatten().flatten();
                let is_named = is_named || rule.is_some();
                waiting.extend(below.map(|entry| (entry.path(), path.join(entry.file_name()), is_named)));
            }
            survey.size.count(&metadata);
        }
        survey
    }

    /// Notes the rule that protects a path, if one does. Of a repository itself nothing is run, and of its hooks no
    /// example.
    fn protection(&mut self, path: &Path, metadata: &Metadata) -> Option<&'static str> {
        let rule = protected::rule_for(path)?.rule;
        let is_run = match rule {
            ".git" => false,
            ".git/hooks" => !metadata.is_dir() && path.extension().is_none_or(|ending| ending != EXAMPLE),
            _ => true,
        };
        is_run.then(|| {
            self.protected.insert(rule);
            rule
        })
    }
}

impl fmt::Display for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", figures::counted(self.size.files, "file"), figures::size(self.size.bytes))?;
        if self.protected.is_empty() {
            return Ok(());
        }
        let named: Vec<&str> = self.protected.iter().take(MOST_NAMED).copied().collect();
        let more = if self.protected.len() > MOST_NAMED { " and more" } else { "" };
        write!(f, "; programs run what is in its {}{more}", named.join(", "))
    }
}

/// Whether all of something is there already, as in a copy that was made of it: the same content under each name.
pub(super) fn has_all_of(there: &Path, item: &Path) -> bool {
    same(there, item).unwrap_or(false)
}

fn same(there: &Path, item: &Path) -> io::Result<bool> {
    let (found, kept) = (fs::symlink_metadata(there)?, fs::symlink_metadata(item)?);
    if found.file_type() != kept.file_type() {
        return Ok(false);
    }
    if kept.is_symlink() {
        return Ok(fs::read_link(there)? == fs::read_link(item)?);
    }
    if kept.is_file() {
        return Ok(found.len() == kept.len() && is_alike(File::open(there)?, File::open(item)?)?);
    }
    if !kept.is_dir() {
        return Ok(false);
    }
    for entry in fs::read_dir(item)? {
        let name = entry?.file_name();
        if !same(&there.join(&name), &item.join(&name))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_alike(mut one: File, mut other: File) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        let count = one.read(&mut left)?;
        if count == 0 {
            return Ok(other.read(&mut right)? == 0);
        }
        if other.read_exact(&mut right[..count]).is_err() || left[..count] != right[..count] {
            return Ok(false);
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_programs_run_is_named_and_counts_are_of_the_disk() {
        let dir = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("below")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("item/a", "12345");
        write("item/.git/hooks/pre-push.sample", "");
        write("item/.git/HEAD", "x");
        let of = |path: &str| Survey::of(&dir.path().join("item"), Path::new(path)).to_string();
        assert_eq!(of("project"), "3 files, 6 bytes");
        write("item/.git/hooks/pre-push", "x");
        write("item/sub/.envrc", "x");
        write("item/.vscode/tasks.json", "{}");
        let expected = "6 files, 10 bytes; programs run what is in its .envrc, .git/hooks, .vscode";
        assert_eq!(of("project"), expected);
        assert_eq!(of(".idea"), "6 files, 10 bytes; programs run what is in its .idea");
    }

    #[test]
    fn all_of_it_is_there_when_each_thing_is_as_it_was() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = |name: &str| dir.path().join(name);
        for top in ["item", "there"] {
            fs::create_dir_all(path(top).join("deep")).expect("made");
            fs::write(path(top).join("deep/file"), "x".repeat(200_000)).expect("written");
            symlink("deep", path(top).join("link")).expect("linked");
        }
        fs::write(path("there/more"), "more").expect("written");
        let is_there = || has_all_of(&path("there"), &path("item"));
        assert!(is_there());
        fs::write(path("there/deep/file"), "x".repeat(199_999) + "y").expect("written");
        assert!(!is_there());
        fs::remove_file(path("item/deep/file")).expect("there");
        assert!(is_there());
        fs::remove_file(path("there/link")).expect("there");
        fs::create_dir(path("there/link")).expect("made");
        assert!(!is_there());
        assert!(!has_all_of(&path("absent"), &path("item")));
    }
}
