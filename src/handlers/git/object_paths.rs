//! Checks that a repository's objects and state lie in the workspace, because git would otherwise show content from
//! elsewhere. Objects borrowed through alternates count too.
#![expect(
    clippy::disallowed_methods,
    reason = "what git would follow is looked at as git would find it"
)]

use std::collections::HashSet;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use punie_host::Workspace;
use punie_host::local::is_absent;

/// git's own limit for nested alternates.
const MAX_ALTERNATES_DEPTH: usize = 5;
/// The largest number of object stores to check.
const MAX_OBJECT_STORES: usize = 1_000;
/// The largest alternates file to read, in bytes.
const MAX_ALTERNATES_BYTES: u64 = 64 << 10;
/// The largest number of folder entries to check.
const MAX_FOLDER_ENTRIES: usize = 4_096;
/// The folders of an object store whose entries git opens by name, each with the number of entries to check.
const OBJECT_FOLDERS: &[(&str, usize)] = &[
    ("", MAX_FOLDER_ENTRIES),
    ("pack", 65_536),
    ("info", MAX_FOLDER_ENTRIES),
    ("info/commit-graphs", MAX_FOLDER_ENTRIES),
];
/// Entries that no tool here reads, so their links may lead anywhere.
const UNREAD_ENTRIES: &[&str] = &["hooks", "lfs", "annex", "modules"];

/// Returns a description of the first path outside the workspace, or `None`. Blocks.
pub(super) fn find_outside_path(
    git_dir: &Path,
    common: &Path,
    workspace: &Workspace,
) -> Option<String> {
    let own = (git_dir != common).then_some(git_dir);
    let mut places = own.into_iter().chain([common]);
    places
        .find_map(|place| find_outside_link(place, MAX_FOLDER_ENTRIES, workspace))
        .or_else(|| check_object_stores(common, workspace))
}

fn check_object_stores(common: &Path, workspace: &Workspace) -> Option<String> {
    let mut waiting = vec![(common.join("objects"), 0)];
    let mut seen = HashSet::new();
    while let Some((objects, depth)) = waiting.pop() {
        // A missing store has no objects.
        let Ok(real) = objects.canonicalize() else {
            continue;
        };
        if !workspace.contains_real_path(&real) {
            return Some(format!("it takes objects from {}", objects.display()));
        }
        // Alternates may name a store repeatedly, and each other.
        if !seen.insert(real.clone()) {
            continue;
        }
        let folder = |name: &str| {
            if name.is_empty() {
                real.clone()
            } else {
                real.join(name)
            }
        };
        let linked = OBJECT_FOLDERS
            .iter()
            .find_map(|(name, most)| find_outside_link(&folder(name), *most, workspace));
        if linked.is_some() {
            return linked;
        }
        let list = real.join("info/alternates");
        let text = match read_alternates(workspace, &list) {
            Ok(text) => text,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            Err(cause) => return Some(format!("{} cannot be looked at: {cause}", list.display())),
        };
        for line in text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty() && line[0] != b'#')
        {
            let Some(path) = parse_alternate(line) else {
                return Some(format!("{} has a line that is not plain", list.display()));
            };
            if depth == MAX_ALTERNATES_DEPTH || seen.len() > MAX_OBJECT_STORES {
                return Some(format!("{} goes on for too long", list.display()));
            }
            waiting.push((real.join(path), depth + 1));
        }
    }
    None
}

/// Describes a link in a folder that leads outside the workspace, or the reason why the folder cannot be read.
fn find_outside_link(folder: &Path, most: usize, workspace: &Workspace) -> Option<String> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(cause) if is_absent(&cause) => return None,
        Err(cause) => return Some(format!("{} cannot be looked at: {cause}", folder.display())),
    };
    for (number, entry) in entries.enumerate() {
        let Ok(entry) = entry else {
            return Some(format!("{} cannot be looked at", folder.display()));
        };
        if number == most {
            return Some(format!(
                "{} holds more than {most} entries, any of which may lead there",
                folder.display()
            ));
        }
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let is_apart = UNREAD_ENTRIES.iter().any(|name| entry.file_name() == *name);
        if is_link
            && !is_apart
            && let Some(why) = describe_outside_link(&entry.path(), workspace)
        {
            return Some(why);
        }
    }
    None
}

/// Describes a link that leads outside the workspace. A dangling link is harmless.
fn describe_outside_link(link: &Path, workspace: &Workspace) -> Option<String> {
    match link.canonicalize() {
        Ok(real) if workspace.contains_real_path(&real) => None,
        Ok(_) => Some(format!("{} is a link that leads there", link.display())),
        Err(cause) if is_absent(&cause) => None,
        Err(cause) => Some(format!("{} cannot be looked at: {cause}", link.display())),
    }
}

/// Reads an alternates file. Rejects pipes and devices, and does not follow a symbolic link.
fn read_alternates(workspace: &Workspace, list: &Path) -> io::Result<Vec<u8>> {
    let file = workspace.open_found_file(list)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    let mut text = Vec::new();
    file.take(MAX_ALTERNATES_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_ALTERNATES_BYTES {
        Err(io::Error::other("it is too long"))
    } else {
        Ok(text)
    }
}

/// Parses a line as a path. Returns `None` for a line that git would unquote, or that is not UTF-8.
fn parse_alternate(line: &[u8]) -> Option<PathBuf> {
    let text = std::str::from_utf8(line).ok()?;
    (!text.starts_with('"')).then(|| PathBuf::from(text))
}
