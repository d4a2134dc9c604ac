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
use super::{Trash, now_ms, tree};
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
            let path = entry?.path();
            let modified = fs::symlink_metadata(&path).and_then(|metadata| metadata.modified());
            let age = modified.ok().and_then(|modified| modified.elapsed().ok()).unwrap_or_default();
            // What cannot be moved stays, and keeps nothing else from going.
            if age > DEBRIS
                && let Err(cause) = self.doom(&path)
            {
                tracing::warn!(path = %path.display(), %cause, "what nobody has collected stays in the trash");
            }
        }
        Ok(())
    }

    /// Puts something where it waits to be removed for good.
    fn doom(&self, path: &Path) -> io::Result<()> {
        tree::move_from_command(
            path,
            &self.home.trash_doomed_dir().join(format!("{}", uuid::Uuid::new_v4().simple())),
        )
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
            let requests = all.len() as u64;
            self.condemn(all.into_iter().flat_map(|kept| kept.records).collect());
            self.forget_unwanted(&[])?;
            *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Some(0);
            (requests, bytes)
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
        while let Some(at) = self.next_to_go(&all, oldest, more, spared)? {
            let kept = all.remove(at);
            tracing::info!(request.id = %kept.request, "the trash lets go of what it kept of a request");
            self.condemn(kept.records);
            self.forget_unwanted(&all)?;
        }
        self.forget_unwanted(&all)?;
        let used = self.count(&all)?;
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Some(used);
        Ok(used)
    }

    /// Which request goes next, if one must: the oldest that is over its time, or for which there is no room. Where what
    /// commands removed takes more than half, theirs go first: they cannot push out what file tools changed.
    fn next_to_go(
        &self,
        all: &[Kept],
        oldest: i64,
        more: u64,
        spared: Option<&RequestId>,
    ) -> io::Result<Option<usize>> {
        let may_go = |kept: &Kept| spared != Some(&kept.request);
        if let Some(old) = all.iter().rposition(|kept| kept.at_ms < oldest && may_go(kept)) {
            return Ok(Some(old));
        }
        if self.count(all)? + more <= self.limits.max_bytes {
            return Ok(None);
        }
        let removed: u64 = all.iter().flat_map(|kept| &kept.records).map(Record::bytes).sum();
        let takes = |kept: &Kept| kept.records.iter().any(|record| record.bytes() > 0);
        let of_commands = all.iter().rposition(|kept| takes(kept) && may_go(kept));
        if let Some(at) = of_commands.filter(|_| removed > self.limits.max_bytes / 2) {
            return Ok(Some(at));
        }
        Ok(all.iter().rposition(may_go))
    }

    /// Takes records out of the inventory; what they have goes with [`Trash::burn`].
    fn condemn(&self, records: Vec<Record>) {
        for record in records {
            let gone = match &record.folder {
                Some(folder) => self.doom(folder),
                None => fs::remove_file(&record.file),
            };
            // One that stays is tried again; it must not keep every later call from being kept.
            if let Err(cause) = gone {
                tracing::warn!(path = %record.file.display(), %cause, "what the trash lets go of stays for now");
            }
        }
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
