//! A preview of a stored item before it comes back: its size, and the files in it that programs run.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::content_store::hash_file;
use super::tree::TreeSize;
use punie_host::protected_path;
use punie_text::output::number_format;

/// So many protected names are shown.
const MAX_NAMES: usize = 5;
/// The ending of the examples that git brings, which it never runs.
const EXAMPLE: &str = "sample";

/// The size of a tree, and the protected names in it.
#[derive(Debug, Default)]
pub(super) struct TreePreview {
    size: TreeSize,
    /// The rules by which names in it are protected.
    protected: BTreeSet<&'static str>,
}

impl TreePreview {
    /// Looks through an item that gets this path in its workspace. What a manifest says of it a command may have written.
    pub fn new(item: &Path, path: &Path) -> Self {
        let mut preview = Self::default();
        let mut waiting: Vec<(PathBuf, PathBuf, bool)> =
            vec![(item.to_owned(), path.to_owned(), false)];
        while let Some((at, path, is_named)) = waiting.pop() {
            let Ok(metadata) = fs::symlink_metadata(&at) else {
                continue;
            };
            let rule = if is_named {
                None
            } else {
                protecting_rule(&path, &metadata)
            };
            preview.protected.extend(rule);
            if metadata.is_dir() {
                let below = fs::read_dir(&at).into_iter().flatten().flatten();
                let is_named = is_named || rule.is_some();
                waiting.extend(
                    below.map(|entry| (entry.path(), path.join(entry.file_name()), is_named)),
                );
            }
            preview.size.count_entry(&metadata);
        }
        preview
    }
}

/// The rule that protects a path because programs run it. Nothing runs a repository itself, or the examples of its hooks.
fn protecting_rule(path: &Path, metadata: &Metadata) -> Option<&'static str> {
    let rule = protected_path::find_protection(path)?.rule;
    let is_run = match rule {
        ".git" => false,
        ".git/hooks" => {
            !metadata.is_dir() && path.extension().is_none_or(|ending| ending != EXAMPLE)
        }
        _ => true,
    };
    is_run.then_some(rule)
}

impl fmt::Display for TreePreview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {}",
            number_format::format_count(self.size.files, "file"),
            number_format::format_size(self.size.bytes)
        )?;
        if self.protected.is_empty() {
            return Ok(());
        }
        let named: Vec<&str> = self.protected.iter().take(MAX_NAMES).copied().collect();
        let more = if self.protected.len() > MAX_NAMES {
            " and more"
        } else {
            ""
        };
        write!(
            f,
            "; programs run what is in its {}{more}",
            named.join(", ")
        )
    }
}

/// Returns whether all of an item is there already, as in a copy that was made of it: the same content under each name.
pub(super) fn contains_all_of(there: &Path, item: &Path) -> bool {
    has_same_content(there, item).unwrap_or(false)
}

fn has_same_content(there: &Path, item: &Path) -> io::Result<bool> {
    let found = fs::symlink_metadata(there)?;
    let kept = fs::symlink_metadata(item)?;
    if found.file_type() != kept.file_type() {
        return Ok(false);
    }
    if kept.is_symlink() {
        return Ok(fs::read_link(there)? == fs::read_link(item)?);
    }
    if kept.is_file() {
        return Ok(found.len() == kept.len()
            && hash_file(&mut File::open(there)?)? == hash_file(&mut File::open(item)?)?);
    }
    if !kept.is_dir() {
        return Ok(false);
    }
    for entry in fs::read_dir(item)? {
        let name = entry?.file_name();
        if !has_same_content(&there.join(&name), &item.join(&name))? {
            return Ok(false);
        }
    }
    Ok(true)
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
        let of =
            |path: &str| TreePreview::new(&dir.path().join("item"), Path::new(path)).to_string();
        assert_eq!(of("project"), "3 files, 6 bytes");
        write("item/.git/hooks/pre-push", "x");
        write("item/sub/.envrc", "x");
        write("item/.vscode/tasks.json", "{}");
        let expected = "6 files, 10 bytes; programs run what is in its .envrc, .git/hooks, .vscode";
        assert_eq!(of("project"), expected);
        assert_eq!(
            of(".idea"),
            "6 files, 10 bytes; programs run what is in its .idea"
        );
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
        let is_there = || contains_all_of(&path("there"), &path("item"));
        assert!(is_there());
        fs::write(path("there/deep/file"), "x".repeat(199_999) + "y").expect("written");
        assert!(!is_there());
        fs::remove_file(path("item/deep/file")).expect("there");
        assert!(is_there());
        fs::remove_file(path("there/link")).expect("there");
        fs::create_dir(path("there/link")).expect("made");
        assert!(!is_there());
        assert!(!contains_all_of(&path("absent"), &path("item")));
    }
}
