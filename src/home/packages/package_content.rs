//! The files of a package: checked paths and sizes before anything is written, and the comparison of installed files
//! with them.

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
    let mut found = FoundFiles {
        expected,
        hashes: FileHashes::new(),
        left: MAX_ENTRIES,
    };
    if fs::symlink_metadata(installed)?.is_dir() {
        found.add_folder(installed, "")?;
    } else {
        // A staged or removed file may have another name; the package has only one.
        let own = installed.file_name().unwrap_or_default().to_string_lossy();
        let name = expected.keys().next().map_or(&*own, String::as_str);
        found.add_file(installed, name.to_owned())?;
    }
    let hashes = found.hashes;
    let present = hashes
        .iter()
        .filter_map(|(path, hash)| match expected.get(path) {
            None => Some(format!("added {path}")),
            Some(known) => (known != hash).then(|| format!("changed {path}")),
        });
    let missing = expected.keys().filter(|path| !hashes.contains_key(*path));
    let missing = missing.map(|path| format!("removed {path}"));
    Ok(present.chain(missing).take(MAX_CHANGES).collect())
}

/// The files of an installed package. The hash is empty where it cannot be an expected one.
struct FoundFiles<'a> {
    expected: &'a FileHashes,
    hashes: FileHashes,
    left: usize,
}

impl FoundFiles<'_> {
    fn add_folder(&mut self, folder: &Path, within: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            let entry = entry?;
            let within = format!("{within}{}", entry.file_name().to_string_lossy());
            let below = format!("{within}/");
            if !entry.file_type()?.is_dir() {
                self.add_file(&entry.path(), within)?;
            } else if self.expected.keys().any(|path| path.starts_with(&below)) {
                self.add_folder(&entry.path(), &below)?;
            } else {
                self.hashes.insert(below, String::new());
            }
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path, within: String) -> io::Result<()> {
        let is_plain = fs::symlink_metadata(path)?.is_file();
        let hash = if is_plain && self.expected.contains_key(&within) {
            to_hex(&hash_content(open_nonblocking(path, FinalLink::Refuse)?)?)
        } else {
            String::new()
        };
        self.hashes.insert(within, hash);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_could_leave_the_package_is_refused() {
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
