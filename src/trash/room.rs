//! How much is kept: what is over its time or over the quota goes, the oldest requests first. Not here: what there is
//! (inventory).
#![expect(clippy::disallowed_methods, reason = "this file empties the trash")]

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

use super::contents::Contents;
use super::inventory::{Kept, Record, entries};
use super::manifest::Line;
use super::{Trash, now_ms};
use crate::ids::RequestId;

/// What no command has collected by then is nobody's.
const DEBRIS: Duration = Duration::from_hours(24);

impl Trash {
    /// Lets go of what is over its time and over the quota. For the start of a runner, and now and then.
    ///
    /// # Errors
    /// The system's.
    pub fn tidy(&self) -> io::Result<()> {
        {
            let _held = self.hold()?;
            self.collect()?;
            self.condemn_debris()?;
            self.let_go(0, None)?;
        }
        self.burn();
        Ok(())
    }

    /// What lies about where commands may write, and nobody has touched for a day.
    fn condemn_debris(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.home.trash_incoming_dir())? {
            let entry = entry?;
            let age = entry.metadata()?.modified()?.elapsed().unwrap_or_default();
            if age > DEBRIS {
                let name = format!("{}", uuid::Uuid::new_v4().simple());
                fs::rename(entry.path(), self.home.trash_doomed_dir().join(name))?;
            }
        }
        Ok(())
    }

    /// Takes up what commands have removed since, and keeps to the quota.
    ///
    /// # Errors
    /// The system's.
    pub fn take_up(&self) -> io::Result<()> {
        if entries(&self.home.trash_incoming_dir())?.is_empty() {
            return Ok(());
        }
        {
            let _held = self.hold()?;
            let more = self.collect()?;
            self.has_grown(more);
            if more == 0 || self.used()? <= self.limits.max_bytes {
                return Ok(());
            }
            self.let_go(0, None)?;
        }
        self.burn();
        Ok(())
    }

    /// Empties the trash; gives how many requests and bytes that were.
    ///
    /// # Errors
    /// The system's.
    pub fn empty(&self) -> io::Result<(u64, u64)> {
        let emptied = {
            let _held = self.hold()?;
            self.collect()?;
            let all = self.inventory()?;
            let bytes = self.count(&all)?;
            for kept in &all {
                self.condemn(kept)?;
            }
            self.forget_unwanted(&[])?;
            *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Some(0);
            (all.len() as u64, bytes)
        };
        self.burn();
        Ok(emptied)
    }

    /// Makes room for so many bytes, at the cost of other requests than this one; false where there cannot be room.
    /// For whoever holds the trash.
    pub(super) fn make_room(&self, bytes: u64, request: &RequestId) -> io::Result<bool> {
        if bytes > self.limits.max_bytes {
            return Ok(false);
        }
        if self.used()? + bytes <= self.limits.max_bytes {
            return Ok(true);
        }
        let used = self.let_go(bytes, Some(request))?;
        Ok(used + bytes <= self.limits.max_bytes)
    }

    pub(super) fn has_grown(&self, bytes: u64) {
        if let Some(used) = self.used.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            *used += bytes;
        }
    }

    fn used(&self) -> io::Result<u64> {
        if let Some(used) = *self.used.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(used);
        }
        let used = self.count(&self.inventory()?)?;
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Some(used);
        Ok(used)
    }

    /// What these and the kept contents take.
    fn count(&self, all: &[Kept]) -> io::Result<u64> {
        let removed: u64 = all.iter().flat_map(|kept| &kept.records).map(Record::bytes).sum();
        let contents = Contents::in_folder(self.home.trash_objects_dir());
        Ok(removed + contents.all()?.iter().map(|(_, size)| size).sum::<u64>())
    }

    /// Lets go of what is over its time, then of the oldest until so many bytes more fit; gives what is used then.
    fn let_go(&self, more: u64, spared: Option<&RequestId>) -> io::Result<u64> {
        let mut all = self.inventory()?;
        let oldest = now_ms().saturating_sub(i64::try_from(self.limits.keep.as_millis()).unwrap_or(i64::MAX));
        while let Some(last) = all.last() {
            let spared = spared == Some(&last.request);
            if spared || (last.at_ms >= oldest && self.count(&all)? + more <= self.limits.max_bytes) {
                break;
            }
            tracing::info!(request.id = %last.request, "the trash lets go of what it kept of a request");
            self.condemn(last)?;
            all.pop();
            self.forget_unwanted(&all)?;
        }
        self.forget_unwanted(&all)?;
        let used = self.count(&all)?;
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Some(used);
        Ok(used)
    }

    /// Takes a request out of the inventory; what it has goes with [`Trash::burn`].
    fn condemn(&self, kept: &Kept) -> io::Result<()> {
        for record in &kept.records {
            match &record.folder {
                Some(folder) => {
                    let name = format!("{}", uuid::Uuid::new_v4().simple());
                    fs::rename(folder, self.home.trash_doomed_dir().join(name))?;
                }
                None => fs::remove_file(&record.file)?,
            }
        }
        Ok(())
    }

    /// Lets go of contents that no request names.
    fn forget_unwanted(&self, all: &[Kept]) -> io::Result<()> {
        let wanted: HashSet<&str> = all
            .iter()
            .flat_map(Kept::lines)
            .filter_map(|line| match line {
                Line::File { before: Some(before), .. } => Some(before.sha256.as_str()),
                _ => None,
            })
            .collect();
        let contents = Contents::in_folder(self.home.trash_objects_dir());
        for (name, _) in contents.all()? {
            if !wanted.contains(name.as_str()) {
                contents.forget(&name)?;
            }
        }
        Ok(())
    }

    /// Removes for good what is on its way out. Nobody waits for it with the trash in hand.
    pub(super) fn burn(&self) {
        for doomed in entries(&self.home.trash_doomed_dir()).unwrap_or_default() {
            if let Err(cause) = burn(&doomed) {
                tracing::warn!(path = %doomed.display(), %cause, "something stays in the trash");
            }
        }
    }
}

/// Removes a tree, folders that their owner may not write included.
fn burn(tree: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(tree)?.is_dir() {
        return fs::remove_file(tree);
    }
    match fs::remove_dir_all(tree) {
        Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
            open_up(tree);
            fs::remove_dir_all(tree)
        }
        removed => removed,
    }
}

#[cfg(unix)]
fn open_up(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

#[cfg(not(unix))]
fn open_up(_folder: &Path) {}
