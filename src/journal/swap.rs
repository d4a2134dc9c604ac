//! Putting a newly written journal in the place of one that cannot be trusted any more, in steps between any two of
//! which the machine may lose its power. Not here: the content of the new one (recover).
//!
//! The new file is written under a name that means nothing, synced, and renamed to one that means "whole". Only then
//! is the old file put aside, its write-ahead log after it (which must never be found beside the new file), and the
//! new one put in its place. A start that finds a whole one goes on from there.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::durable::sync_parent_folder;

/// The number of broken files that are kept for inspection.
const KEPT: u32 = 3;

/// A file beside the journal, named after it.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(ending);
    path.with_file_name(name)
}

/// Returns the path for a new journal; the remains of an earlier attempt are removed.
pub(super) fn draft(path: &Path) -> io::Result<PathBuf> {
    let draft = beside(path, ".draft");
    remove_database(&draft)?;
    Ok(draft)
}

/// Puts a closed draft in the place of the journal, whose connections are closed too. Returns the name of the old file.
pub(super) fn swap(path: &Path, draft: &Path) -> io::Result<PathBuf> {
    File::open(draft)?.sync_all()?;
    std::fs::rename(draft, beside(path, ".whole"))?;
    sync_parent_folder(path)?;
    crate::failpoint::reach("swap.whole");
    let broken = broken(path, last_broken(path) + 1);
    std::fs::rename(path, &broken)?;
    crate::failpoint::reach("swap.aside");
    finish(path)?;
    Ok(broken)
}

/// Ends a swap that was cut off: after the old file was put aside it goes on, before that it is forgotten.
pub(super) fn finish(path: &Path) -> io::Result<()> {
    let whole = beside(path, ".whole");
    if !whole.exists() {
        return Ok(());
    }
    if path.exists() {
        return remove_database(&whole);
    }
    let log = beside(path, "-wal");
    if log.exists() {
        std::fs::rename(&log, beside(&broken(path, last_broken(path)), "-wal"))?;
    }
    remove(&beside(path, "-shm"))?;
    // The log's going must not be undone once the new file is there.
    sync_parent_folder(path)?;
    crate::failpoint::reach("swap.cleared");
    std::fs::rename(&whole, path)?;
    sync_parent_folder(path)?;
    forget_old(path)
}

/// Removes a database with SQLite's files beside it.
pub(super) fn remove_database(path: &Path) -> io::Result<()> {
    for ending in ["-wal", "-shm", "-journal", ""] {
        remove(&beside(path, ending))?;
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The name that the journal gets when it is put aside next.
pub(super) fn next_aside(path: &Path) -> String {
    let next = broken(path, last_broken(path) + 1);
    next.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn broken(path: &Path, number: u32) -> PathBuf {
    beside(path, &format!(".broken-{number}"))
}

/// The highest number that a broken journal has.
fn last_broken(path: &Path) -> u32 {
    numbers(path).into_iter().max().unwrap_or(0)
}

fn numbers(path: &Path) -> Vec<u32> {
    let stem = beside(path, ".broken-").file_name().unwrap_or_default().to_string_lossy().into_owned();
    let entries = path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let names = entries.into_iter().flatten().filter_map(Result::ok).map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.strip_prefix(&stem)?.parse().ok()).collect()
}

fn forget_old(path: &Path) -> io::Result<()> {
    let mut numbers = numbers(path);
    numbers.sort_unstable();
    for old in numbers.iter().rev().skip(KEPT as usize) {
        remove_database(&broken(path, *old))?;
    }
    Ok(())
}
