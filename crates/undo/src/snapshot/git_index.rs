//! The paths in a git index: what is tracked is covered, whatever a `.gitignore` says. And the refs of a repository. No
//! git is run, so that nothing in a repository's configuration has a say.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::call_record::RepositoryRefs;
use punie_core::bounded_file::{FinalLink, open_nonblocking, read_bounded};

/// An index above this size is not read.
const LARGEST_INDEX: u64 = 128 << 20;
/// The same of a file of refs.
const LARGEST_REFS: u64 = 16 << 20;
/// The most branches that are compared.
const MAX_REFS: usize = 5_000;
const HEADER: usize = 12;
/// The bytes of an entry before its hash.
const STAT_BYTES: usize = 40;

/// The paths that a repository tracks, in the order of their bytes.
#[derive(Debug, Default)]
pub(super) struct TrackedPaths {
    paths: Vec<Vec<u8>>,
    /// From the top of the repository to the top of the snapshot, if that is deeper.
    to_top: PathBuf,
    /// From the top of the snapshot to that of the repository, if that is deeper.
    folder: PathBuf,
}

impl TrackedPaths {
    /// Reads the index of the repository with this `.git`.
    pub fn read_of(dot_git: &Path, to_top: &Path, folder: &Path) -> Self {
        let paths = find_git_folder(dot_git).map(|git_folder| read_tracked_paths(&git_folder));
        Self {
            paths: paths.unwrap_or_default(),
            to_top: to_top.to_owned(),
            folder: folder.to_owned(),
        }
    }

    /// Returns whether the repository tracks this file, or something in this folder.
    pub fn contains(&self, path: &Path, is_folder: bool) -> bool {
        let Ok(below) = path.strip_prefix(&self.folder) else {
            return false;
        };
        let mut name = self.to_top.join(below).into_os_string();
        if !is_folder {
            let name = name.as_bytes();
            let found = self
                .paths
                .binary_search_by(|path| path.as_slice().cmp(name));
            return found.is_ok();
        }
        name.push("/");
        let name = name.as_bytes();
        let first = self.paths.partition_point(|path| path.as_slice() < name);
        let first = self.paths.get(first);
        first.is_some_and(|path| path.starts_with(name))
    }
}

/// The folder of the repository whose working tree has this `.git`, which may be a file that names it.
pub(super) fn find_git_folder(dot_git: &Path) -> Option<PathBuf> {
    if fs::symlink_metadata(dot_git).ok()?.is_dir() {
        return Some(dot_git.to_owned());
    }
    let text = read_some(dot_git, 4_096).ok()?;
    let named = text.strip_prefix(b"gitdir:")?.trim_ascii();
    Some(
        dot_git
            .parent()?
            .join(Path::new(std::ffi::OsStr::from_bytes(named))),
    )
}

fn read_some(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_bounded(open_nonblocking(path, FinalLink::Follow)?, most)
}

/// Reads the tracked paths, in the order of their bytes. Empty where there is no index, or one in a form that this does
/// not know.
fn read_tracked_paths(git_folder: &Path) -> Vec<Vec<u8>> {
    let Ok(index) = read_some(&git_folder.join("index"), LARGEST_INDEX) else {
        return Vec::new();
    };
    // SHA-1, or SHA-256. With the wrong length, the parts of the file do not fit.
    let parsed = parse_index(&index, 20).or_else(|| parse_index(&index, 32));
    parsed.unwrap_or_default()
}

fn parse_index(index: &[u8], hash_bytes: usize) -> Option<Vec<Vec<u8>>> {
    let number = |at: usize| {
        let bytes = index.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_be_bytes(bytes))
    };
    let version = number(4)?;
    let count = number(8)? as usize;
    if !index.starts_with(b"DIRC") || !(2..=4).contains(&version) || count > index.len() {
        return None;
    }
    let mut paths: Vec<Vec<u8>> = Vec::with_capacity(count);
    let mut at = HEADER;
    let mut last = Vec::new();
    for _ in 0..count {
        let flags_at = at + STAT_BYTES + hash_bytes;
        let flags = index.get(flags_at..flags_at + 2)?;
        let is_extended = version > 2 && flags[0] & 0x40 != 0;
        let mut name_at = flags_at + if is_extended { 4 } else { 2 };
        let mut name = Vec::new();
        if version == 4 {
            let strip = read_offset(index, &mut name_at)?;
            name.extend_from_slice(last.get(..usize::checked_sub(last.len(), strip)?)?);
        }
        let end = index.get(name_at..)?.iter().position(|byte| *byte == 0)?;
        name.extend_from_slice(&index[name_at..name_at + end]);
        let is_in_order = last < name || (last == name && !name.is_empty());
        if !is_in_order || name.starts_with(b"/") {
            return None;
        }
        at = if version == 4 {
            name_at + end + 1
        } else {
            // One to eight zeros.
            at + (name_at - at + end + 8) / 8 * 8
        };
        last.clone_from(&name);
        paths.push(name);
    }
    // Extensions, each with its length, and the hash of all.
    let end = index.len().checked_sub(hash_bytes)?;
    while at < end {
        at += 8 + number(at + 4)? as usize;
    }
    (at == end).then_some(paths)
}

/// Reads a number in the form of git's pack offsets.
fn read_offset(index: &[u8], at: &mut usize) -> Option<usize> {
    let mut value = 0_usize;
    loop {
        let byte = *index.get(*at)?;
        *at += 1;
        value = value
            .checked_shl(7)?
            .checked_add(usize::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        value = value.checked_add(1)?;
    }
}

/// Reads the refs of a repository; none of one that keeps them in another form.
pub(super) fn read_refs(git_folder: &Path) -> RepositoryRefs {
    let text = |path: &Path| {
        let bytes = read_some(path, LARGEST_REFS).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    // A linked working tree shares the branches.
    let common = text(&git_folder.join("commondir"))
        .map_or_else(|| git_folder.to_owned(), |named| git_folder.join(named));
    let mut refs = RepositoryRefs::new();
    for line in text(&common.join("packed-refs"))
        .unwrap_or_default()
        .lines()
    {
        if let Some((target, name)) = line.split_once(' ')
            && is_compared(name)
            && refs.len() < MAX_REFS
        {
            refs.insert(name.to_owned(), target.to_owned());
        }
    }
    let mut waiting = vec!["refs/heads".to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(common.join(&folder))
            .into_iter()
            .flatten()
            .flatten()
        {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let name = format!("{folder}/{name}");
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(name);
            } else if refs.len() < MAX_REFS
                && let Some(target) = text(&entry.path())
            {
                refs.insert(name, target);
            }
        }
    }
    let own = [
        ("HEAD", git_folder.join("HEAD")),
        ("refs/stash", common.join("refs/stash")),
    ];
    refs.extend(
        own.into_iter()
            .filter_map(|(name, path)| Some((name.to_owned(), text(&path)?))),
    );
    refs
}

fn is_compared(name: &str) -> bool {
    name.starts_with("refs/heads/") || name == "refs/stash"
}
