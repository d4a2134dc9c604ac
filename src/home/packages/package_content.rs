//! The files of a package: checked paths and sizes before anything is written, and the comparison of installed files
//! with them.
#![expect(
    clippy::disallowed_methods,
    reason = "this file writes staged packages and reads installed ones"
)]

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::path::{Component, Path};

use sha2::{Digest as _, Sha256};

use crate::installed_tree::create_plain_file;
use punie_core::bounded_file::{FinalLink, open_nonblocking};
use punie_core::content_hash::hash_content;
use punie_core::durable::sync_folder;
use punie_core::ids::to_hex;

/// The most files of a package.
const MAX_FILES: usize = 200;
/// The most bytes of all files together.
const MAX_BYTES: usize = 4_000_000;
/// The most folders on the way to a file.
const MAX_DEPTH: usize = 8;
/// The longest part of a path, in bytes.
const MAX_NAME: usize = 100;
/// The most entries of an installed package that are looked at.
const MAX_ENTRIES: usize = 20_000;
/// The most changes that are named.
const MAX_CHANGES: usize = 20;

/// The hash of each file, by its path with `/`.
pub(super) type FileHashes = BTreeMap<String, String>;

/// The files of a package, by their paths with `/`.
#[derive(Debug, Default, Clone)]
pub(super) struct PackageContent {
    files: BTreeMap<String, String>,
}

impl PackageContent {
    /// Adds a file.
    ///
    /// # Errors
    /// The path is not strictly relative, there is one already, or a limit is exceeded.
    pub(super) fn add_file(&mut self, path: &str, text: String) -> Result<(), String> {
        check_relative_path(path)?;
        let lower = path.to_lowercase();
        let clash = self.files.keys().find(|known| {
            let known = known.to_lowercase();
            known == lower
                || known.starts_with(&format!("{lower}/"))
                || lower.starts_with(&format!("{known}/"))
        });
        if let Some(known) = clash {
            return Err(format!(
                "the files {known:?} and {path:?} exclude each other"
            ));
        }
        self.files.insert(path.to_owned(), text);
        if self.files.len() > MAX_FILES {
            return Err(format!("it has more than {MAX_FILES} files"));
        }
        if self.files.values().map(String::len).sum::<usize>() > MAX_BYTES {
            return Err(format!("its files have more than {MAX_BYTES} bytes"));
        }
        Ok(())
    }

    pub(super) fn file_hashes(&self) -> FileHashes {
        let hash = |text: &String| to_hex(&Sha256::digest(text));
        let files = self.files.iter();
        files
            .map(|(path, text)| (path.clone(), hash(text)))
            .collect()
    }

    /// Writes the files into a new folder, durably.
    pub(super) fn write_folder(&self, folder: &Path) -> io::Result<()> {
        create_folder(folder)?;
        for (path, text) in &self.files {
            let file = folder.join(path);
            if let Some(parent) = file.parent() {
                create_folder(parent)?;
            }
            write_file(&file, text)?;
        }
        sync_tree(folder)
    }

    /// Writes the only file of the package, durably.
    pub(super) fn write_single_file(&self, path: &Path) -> io::Result<()> {
        for text in self.files.values() {
            write_file(path, text)?;
        }
        Ok(())
    }
}

/// Checks that a path is relative, names a file below the package, and is the same on every system.
fn check_relative_path(path: &str) -> Result<(), String> {
    let is_plain = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part.len() <= MAX_NAME
            && !part.ends_with(['.', ' '])
            && !part.contains(|c: char| c.is_control() || "\\:*?\"<>|".contains(c))
    };
    let parts: Vec<&str> = path.split('/').collect();
    let components = Path::new(path).components();
    let is_relative = components
        .into_iter()
        .all(|part| matches!(part, Component::Normal(_)));
    if is_relative && parts.len() <= MAX_DEPTH && parts.iter().all(|part| is_plain(part)) {
        return Ok(());
    }
    let shown: String = path.chars().take(200).collect();
    Err(format!(
        "the file path {shown:?} is refused. Give paths below the package with `/`, such as lib/a.js, of {MAX_DEPTH} parts \
         at most"
    ))
}

fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o755);
    builder.recursive(true).create(folder)
}

/// Writes a new file. A script with an interpreter line can be run.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let mut file = create_plain_file(path, text.starts_with("#!"))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn sync_tree(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        }
    }
    sync_folder(folder)
}

/// Returns what differs between an installed package and its files, such as `changed SKILL.md`; empty if nothing does.
pub(super) fn find_changes(installed: &Path, expected: &FileHashes) -> io::Result<Vec<String>> {
    let mut search = ChangeSearch {
        expected,
        missing: expected.clone(),
        changes: Vec::new(),
        left: MAX_ENTRIES,
    };
    let meta = fs::symlink_metadata(installed)?;
    if meta.is_dir() {
        search.compare_folder(installed, "")?;
    } else {
        let name = installed.file_name().unwrap_or_default().to_string_lossy();
        // A staged or removed file may have another name; the package has only one.
        let name = expected
            .keys()
            .next()
            .cloned()
            .unwrap_or_else(|| name.into_owned());
        search.compare_entry(installed, &name, &meta)?;
    }
    let missing = search.missing.keys().map(|path| format!("removed {path}"));
    search.changes.extend(missing.take(MAX_CHANGES));
    search.changes.truncate(MAX_CHANGES);
    Ok(search.changes)
}

struct ChangeSearch<'a> {
    expected: &'a FileHashes,
    missing: FileHashes,
    changes: Vec<String>,
    left: usize,
}

impl ChangeSearch<'_> {
    fn compare_folder(&mut self, folder: &Path, within: &str) -> io::Result<()> {
        let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<io::Result<_>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let within = if within.is_empty() {
                name.into_owned()
            } else {
                format!("{within}/{name}")
            };
            let meta = entry.path().symlink_metadata()?;
            let prefix = format!("{within}/");
            if !meta.is_dir() {
                self.compare_entry(&entry.path(), &within, &meta)?;
            } else if self.expected.keys().any(|path| path.starts_with(&prefix)) {
                self.compare_folder(&entry.path(), &within)?;
            } else {
                self.changes.push(format!("added {prefix}"));
            }
        }
        Ok(())
    }

    fn compare_entry(&mut self, path: &Path, within: &str, meta: &fs::Metadata) -> io::Result<()> {
        let expected = self.missing.remove(within);
        let is_same = match &expected {
            Some(hash) if meta.is_file() => *hash == hash_file(path)?,
            _ => false,
        };
        match expected {
            None => self.changes.push(format!("added {within}")),
            Some(_) if !is_same => self.changes.push(format!("changed {within}")),
            Some(_) => {}
        }
        Ok(())
    }
}

fn hash_file(path: &Path) -> io::Result<String> {
    let file = open_nonblocking(path, FinalLink::Refuse)?;
    Ok(to_hex(&hash_content(file)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w54_a_path_that_could_leave_the_package_is_refused() {
        for path in ["a", "a/b.js", ".github/x", "é.txt", "a b"] {
            assert_eq!(check_relative_path(path), Ok(()), "{path}");
        }
        let deep = "a/".repeat(8) + "b";
        for path in [
            "", "..", ".", "../a", "a/../b", "/a", "a/", "a//b", "./a", "a\\b", "C:a", "a\0",
            "a\n", "a.", &deep,
        ] {
            check_relative_path(path).expect_err(path);
        }
        let mut content = PackageContent::default();
        content
            .add_file("a/b", String::new())
            .expect("a first file");
        for path in ["a", "A/B", "a/b/c"] {
            content.add_file(path, String::new()).expect_err(path);
        }
    }

    #[test]
    fn changes_of_an_installed_package_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().join("p");
        let mut content = PackageContent::default();
        for path in ["one", "two", "sub/three"] {
            content.add_file(path, path.to_owned()).expect("a path");
        }
        content.write_folder(&at).expect("written");
        let hashes = content.file_hashes();
        assert_eq!(find_changes(&at, &hashes).expect("read"), [""; 0]);
        fs::write(at.join("one"), "other").expect("written");
        fs::write(at.join("sub/four"), "").expect("written");
        fs::create_dir(at.join("more")).expect("made");
        fs::remove_file(at.join("two")).expect("removed");
        let found = find_changes(&at, &hashes).expect("read");
        let all = [
            "added more/",
            "changed one",
            "added sub/four",
            "removed two",
        ];
        assert_eq!(found, all);
    }
}
