//! What of a request's removals comes back, and where to: out of the trash, or first into something else there that comes
//! back around it. Not here: what file tools changed (undo).

use std::io;
use std::path::{Path, PathBuf};

use super::super::named;
use super::super::net::{AllGone, Gone, What, gone, newer_name};
use super::super::steps::Step;
use super::super::survey::{self, Survey};
use super::{Now, Plan, shown};
use crate::acp::WorkspacePath;
use crate::output::figures;

/// So much is shown of a command of which nothing is kept: a command may have written the line itself.
const MAX_COMMAND_CHARS: usize = 200;

impl Plan<'_> {
    /// What commands removed, the last first: so what a folder held that went after it finds its folder again.
    pub(super) fn removals(&mut self) {
        let records = self.kept.records.iter().filter(|record| !record.is_undone);
        let AllGone { gone, later, untracked, .. } = gone(records, self.kept.was_begun);
        if let Some((path, _)) = later.first() {
            let many = figures::counted(later.len() as u64, "thing");
            self.later = Some(format!(
                "left in the trash: {many} that the request had put where it had removed something before (at {}), and \
                 removed too; `punie-runner trash restore {} --to DIR` makes copies",
                named(path),
                self.kept.request
            ));
        }
        for command in untracked {
            let command = named(Path::new(&command.chars().take(MAX_COMMAND_CHARS).collect::<String>()));
            self.lost
                .push(format!("{command}: the system's own program did this; what it removed is not kept"));
        }
        for Gone { path, what } in gone.into_iter().rev() {
            let is_folder = || path.symlink_metadata().is_ok_and(|found| found.is_dir());
            if matches!(what, What::EmptyFolder(_)) && is_folder() {
                continue;
            }
            let Some(path) = self.path(&path) else { continue };
            match self.around(path.absolute()) {
                Some((item, place)) => self.removal_within(&path, &place, &item, what),
                None => self.removal(&path, what),
            }
        }
    }

    /// What comes back to where it was.
    fn removal(&mut self, path: &WorkspacePath, what: What) {
        // What is in a folder that comes back is what it had.
        let is_within = path.absolute().ancestors().skip(1).any(|above| self.anew.contains_key(above));
        if let Some(protection) = path.protection().filter(|_| !is_within) {
            return self.faults.push(protection.denied(&shown(path)).text().to_owned());
        }
        match (path.metadata(), what) {
            (Err(cause), What::Lost) if cause.kind() == io::ErrorKind::NotFound => self.is_lost(path),
            (_, What::Lost) => {}
            (_, What::ForGood) => self.is_lost(path),
            (Err(cause), what) if cause.kind() == io::ErrorKind::NotFound => {
                let step = self.bring(path, what, path.clone(), None);
                self.steps.extend(step);
            }
            // As an undo or a removal left it that was cut off between a copy and the end of the original.
            (_, What::Item(at)) if survey::has_all_of(path.absolute(), &at) => {}
            (Ok(_), _) => self.changed_since(path, &Now::Strange("is there again".to_owned())),
            (Err(cause), _) if cause.raw_os_error() == Some(libc::ELOOP) => {
                self.changed_since(path, &Now::Strange("is a link now, or lies behind one".to_owned()));
            }
            (Err(cause), _) => self.faults.push(format!("{}: {cause}", shown(path))),
        }
    }

    /// What comes back within something that is in the trash itself: it is put together there, so that what is whole
    /// comes back in one step, wherever this is cut off. What is there is newer: the request had made it after it had
    /// removed this, and then removed what is around it. Nobody looks for that, but as long as the request is kept it is,
    /// too; where it went says that room was made, also to an undo that goes on with this one.
    fn removal_within(&mut self, path: &WorkspacePath, place: &WorkspacePath, item: &Path, what: What) {
        let newer = item.with_file_name(newer_name(path.absolute()));
        let has_room = newer.symlink_metadata().is_ok();
        match (place.metadata(), what) {
            (Err(cause), What::Lost) if cause.kind() == io::ErrorKind::NotFound => self.is_lost(path),
            (_, What::Lost) => {}
            (_, What::ForGood) => self.is_lost(path),
            (Ok(_), What::EmptyFolder(_)) if has_room => {}
            (_, what) => {
                let newer = Some(newer).filter(|_| !has_room);
                let Some(step) = self.bring(path, what, place.clone(), newer) else { return };
                // Before that which it is put into goes.
                let around = |step: &Step| matches!(step, Step::Bring { item: other, .. } if other == item);
                let at = self.steps.iter().rposition(around).unwrap_or(self.steps.len());
                self.steps.insert(at, step);
            }
        }
    }

    /// The item around a path that comes back in one, and where the path is in that.
    fn around(&self, path: &Path) -> Option<(PathBuf, WorkspacePath)> {
        let mut outer = path.ancestors().skip(1);
        let (above, item) = outer.find_map(|above| Some((above, self.anew.get(above)?.as_ref()?)))?;
        let (trash, top) = self.trash;
        let place = item.join(path.strip_prefix(above).ok()?);
        let found = trash.found(&trash.first().join(place.strip_prefix(top).ok()?))?;
        Some((item.clone(), found))
    }

    fn bring(
        &mut self,
        path: &WorkspacePath,
        what: What,
        to: WorkspacePath,
        newer: Option<PathBuf>,
    ) -> Option<Step> {
        let name = path.absolute().to_owned();
        match what {
            What::Item(at) => {
                let found = Survey::of(&at, path.relative());
                self.lines.push(format!("{} comes back ({found})", shown(path)));
                self.anew.insert(name, Some(at.clone()));
                Some(Step::Bring { item: at, to, newer })
            }
            What::EmptyFolder(mode) => {
                self.lines.push(format!("{} comes back (an empty folder)", shown(path)));
                self.anew.insert(name, None);
                Some(Step::Folder { path: to, mode, newer })
            }
            What::Lost | What::ForGood => None,
        }
    }

    /// Nothing of it is kept, unless it was removed once more, and then is.
    fn is_lost(&mut self, path: &WorkspacePath) {
        if !self.anew.contains_key(path.absolute()) {
            self.lost.push(format!("{}: nothing of it is kept", shown(path)));
        }
    }
}
