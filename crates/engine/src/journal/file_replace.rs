//! Putting a newly written journal in the place of one that cannot be trusted any more, in steps between any two of
//! which the machine may lose its power.
//!
//! The new file is written under a name that means nothing, synced, and renamed to one that means "whole". Only then
//! is the old file put aside, its write-ahead log after it (which must never be found beside the new file), and the
//! new one put in its place. A start that finds a whole one goes on from there.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use punie_core::durable::{allow_missing, sync_parent_folder};

/// The number of broken files that are kept for inspection.
const KEPT: u32 = 3;

/// A file beside the journal, named after it.
pub(super) fn sibling_path(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(ending);
    path.with_file_name(name)
}

/// Returns the path for a new journal; the remains of an earlier attempt are removed.
pub(super) fn prepare_draft(path: &Path) -> io::Result<PathBuf> {
    let draft = sibling_path(path, ".draft");
    remove_database_files(&draft)?;
    Ok(draft)
}

/// Puts a closed draft in the place of the journal, whose connections are closed too. Returns the name of the old file.
pub(super) fn replace_journal(path: &Path, draft: &Path) -> io::Result<PathBuf> {
    File::open(draft)?.sync_all()?;
    std::fs::rename(draft, sibling_path(path, ".whole"))?;
    sync_parent_folder(path)?;
    punie_core::failpoint::reach("swap.whole");
    let broken = broken_path(path, last_broken_number(path) + 1);
    std::fs::rename(path, &broken)?;
    punie_core::failpoint::reach("swap.aside");
    finish_replacement(path)?;
    Ok(broken)
}

/// Ends a swap that was cut off: after the old file was put aside it goes on, before that it is forgotten.
pub(super) fn finish_replacement(path: &Path) -> io::Result<()> {
    let whole = sibling_path(path, ".whole");
    if !whole.exists() {
        return Ok(());
    }
    if path.exists() {
        return remove_database_files(&whole);
    }
    let log = sibling_path(path, "-wal");
    if log.exists() {
        std::fs::rename(
            &log,
            sibling_path(&broken_path(path, last_broken_number(path)), "-wal"),
        )?;
    }
    allow_missing(std::fs::remove_file(sibling_path(path, "-shm")))?;
    // The log's going must not be undone once the new file is there.
    sync_parent_folder(path)?;
    punie_core::failpoint::reach("swap.cleared");
    std::fs::rename(&whole, path)?;
    sync_parent_folder(path)?;
    delete_old_broken(path)
}

/// Removes a database with SQLite's files beside it.
pub(super) fn remove_database_files(path: &Path) -> io::Result<()> {
    for ending in ["-wal", "-shm", "-journal", ""] {
        allow_missing(std::fs::remove_file(sibling_path(path, ending)))?;
    }
    Ok(())
}

/// The name that the journal gets when it is put aside next.
pub(super) fn next_broken_name(path: &Path) -> String {
    let next = broken_path(path, last_broken_number(path) + 1);
    next.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn broken_path(path: &Path, number: u32) -> PathBuf {
    sibling_path(path, &format!(".broken-{number}"))
}

/// The highest number that a broken journal has.
fn last_broken_number(path: &Path) -> u32 {
    list_broken_numbers(path).into_iter().max().unwrap_or(0)
}

fn list_broken_numbers(path: &Path) -> Vec<u32> {
    let stem = sibling_path(path, ".broken-")
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let entries = path
        .parent()
        .and_then(|folder| std::fs::read_dir(folder).ok());
    let names = entries
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| entry.file_name());
    names
        .filter_map(|name| name.to_str()?.strip_prefix(&stem)?.parse().ok())
        .collect()
}

fn delete_old_broken(path: &Path) -> io::Result<()> {
    let mut numbers = list_broken_numbers(path);
    numbers.sort_unstable();
    for old in numbers.iter().rev().skip(KEPT as usize) {
        remove_database_files(&broken_path(path, *old))?;
    }
    Ok(())
}
