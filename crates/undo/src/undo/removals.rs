//! Planning what comes back of what commands removed, and where to: out of the trash, or first into something else
//! there that comes back around it.

use std::io;
use std::path::{Path, PathBuf};

use super::super::display_path;
use super::super::net_effect::{
    RemovedPath, RemovedPaths, RemovedThing, name_for_newer, sum_removals,
};
use super::super::path_state::{PathState, display_workspace_path};
use super::super::preview::{TreePreview, contains_all_of};
use super::super::undo_steps::{RemovedContent, UndoStep};
use super::UndoPlan;
use super::snapshot_coverage::{ReturnBy, SnapshotCoverage};
use punie_home::command_to_type;
use punie_host::WorkspacePath;
use punie_text::output::number_format;

/// So much is shown of a command of which nothing is kept: a command may have written the line itself.
const MAX_COMMAND_CHARS: usize = 200;

impl UndoPlan<'_> {
    /// Plans what commands removed, the last first: what a folder held that was removed after it finds its folder again.
    pub(super) fn add_removals(&mut self, coverage: &SnapshotCoverage) {
        let records = self.entry.records.iter().filter(|record| !record.is_undone);
        let RemovedPaths {
            first,
            later,
            untracked,
            ..
        } = sum_removals(records, self.entry.was_begun);
        if let Some((path, _)) = later.first() {
            self.left_in_trash = Some(format!(
                "left in the trash: {} that the request had put where it had removed something before (at {}), and \
                 removed too; `{}` makes copies",
                number_format::format_count(later.len() as u64, "thing"),
                display_path(path),
                command_to_type(&format!("trash restore {} --to DIR", self.entry.request))
            ));
        }
        let untracked = untracked.into_iter().filter(|_| !coverage.is_whole());
        for command in untracked {
            let command: String = command.chars().take(MAX_COMMAND_CHARS).collect();
            let command = display_path(Path::new(&command));
            self.lost.push(format!(
                "{command}: the system's own program did this; what it removed is not kept"
            ));
        }
        for removed in first.into_iter().rev() {
            if coverage.choose_return(&removed) == ReturnBy::Snapshot {
                self.add_uncovered_parts(&removed, coverage);
                continue;
            }
            let RemovedPath { path, what, .. } = removed;
            let is_folder = || path.symlink_metadata().is_ok_and(|found| found.is_dir());
            if matches!(what, RemovedThing::Kept(RemovedContent::EmptyFolder(_))) && is_folder() {
                continue;
            }
            let Some(path) = self.find_workspace_path(&path) else {
                continue;
            };
            // A snapshot cannot be forged, so that it may bring back what programs run.
            if coverage.has_before(path.absolute_path())
                && self.find_returning_around(path.absolute_path()).is_none()
                && path.check_runs_nothing().is_err()
            {
                continue;
            }
            match (what, self.find_returning_around(path.absolute_path())) {
                (RemovedThing::Kept(removed), Some((item, place))) => {
                    self.add_within(&path, place, &item, removed);
                }
                (RemovedThing::Kept(removed), None) => self.add_return(&path, removed),
                (RemovedThing::Lost, around) => {
                    let place = around.map_or_else(|| path.clone(), |(_, place)| place);
                    if place
                        .file_metadata()
                        .is_err_and(|cause| cause.kind() == io::ErrorKind::NotFound)
                    {
                        self.record_lost_path(&path);
                    }
                }
                (RemovedThing::ForGood, _) => self.record_lost_path(&path),
            }
        }
    }

    /// Plans the return of what git ignores in a folder that a snapshot brings back.
    fn add_uncovered_parts(&mut self, removed: &RemovedPath, coverage: &SnapshotCoverage) {
        for (path, item) in coverage.list_uncovered_parts(removed) {
            let Some(path) = self.find_workspace_path(&path) else {
                continue;
            };
            if path.absolute_path().symlink_metadata().is_err() {
                let preview = TreePreview::new(&item, path.relative_path());
                self.lines.push(format!(
                    "{} comes back ({preview})",
                    display_workspace_path(&path)
                ));
                self.steps.push(UndoStep::BringBack {
                    removed: RemovedContent::Item(item),
                    to: path,
                    newer: None,
                });
            }
        }
    }

    /// Plans the return of an item to its path.
    fn add_return(&mut self, path: &WorkspacePath, removed: RemovedContent) {
        // What is in a folder that comes back is what it had.
        let is_within = path
            .absolute_path()
            .ancestors()
            .skip(1)
            .any(|above| self.returning.contains_key(above));
        if !is_within && let Err(denied) = path.check_runs_nothing() {
            return self.faults.push(denied.model_text().to_owned());
        }
        match (path.file_metadata(), &removed) {
            (Err(cause), _) if cause.kind() == io::ErrorKind::NotFound => {
                let step = self.add_bring_back(path, removed, path.clone(), None);
                self.steps.push(step);
            }
            // An undo or a removal was cut off between a copy and the end of the original.
            (_, RemovedContent::Item(at)) if contains_all_of(path.absolute_path(), at) => {}
            (Err(cause), _) if cause.raw_os_error() == Some(libc::ELOOP) => {
                self.refuse_changed(path, &PathState::from_read_error(&cause));
            }
            (Err(cause), _) => self
                .faults
                .push(format!("{}: {cause}", display_workspace_path(path))),
            (Ok(_), _) => self.refuse_changed(path, &PathState::Other("is there again".to_owned())),
        }
    }

    /// Plans what comes back within something that is in the trash itself: it is put together there, so that what is whole
    /// comes back in one step, wherever this is cut off. What lies there is newer: the request had made it after it had
    /// removed this, and then removed what is around it. It is kept as long as the request is; its place says that this
    /// one's place was cleared, also to an undo that goes on with this one.
    fn add_within(
        &mut self,
        path: &WorkspacePath,
        place: WorkspacePath,
        item: &Path,
        removed: RemovedContent,
    ) {
        let newer = item.with_file_name(name_for_newer(path.absolute_path()));
        let was_cleared = newer.symlink_metadata().is_ok();
        if was_cleared
            && matches!(removed, RemovedContent::EmptyFolder(_))
            && place.file_metadata().is_ok()
        {
            return;
        }
        let step = self.add_bring_back(path, removed, place, Some(newer).filter(|_| !was_cleared));
        // Before the item that it is put into comes back.
        let is_around = |step: &UndoStep| matches!(step, UndoStep::BringBack { removed: RemovedContent::Item(other), .. } if other == item);
        let at = self
            .steps
            .iter()
            .rposition(is_around)
            .unwrap_or(self.steps.len());
        self.steps.insert(at, step);
    }

    /// Finds the item around a path that comes back in one, and the place of the path in it.
    fn find_returning_around(&self, path: &Path) -> Option<(PathBuf, WorkspacePath)> {
        let mut outer = path.ancestors().skip(1);
        let (above, item) =
            outer.find_map(|above| Some((above, self.returning.get(above)?.as_ref()?)))?;
        let (trash, top) = self.trash;
        let place = item.join(path.strip_prefix(above).ok()?);
        let found =
            trash.path_if_inside(&trash.first_root().join(place.strip_prefix(top).ok()?))?;
        Some((item.clone(), found))
    }

    fn add_bring_back(
        &mut self,
        path: &WorkspacePath,
        removed: RemovedContent,
        to: WorkspacePath,
        newer: Option<PathBuf>,
    ) -> UndoStep {
        let (what, item) = match &removed {
            RemovedContent::Item(at) => (
                TreePreview::new(at, path.relative_path()).to_string(),
                Some(at.clone()),
            ),
            RemovedContent::EmptyFolder(_) => ("an empty folder".to_owned(), None),
            RemovedContent::Link(_) => ("a link".to_owned(), None),
        };
        self.lines.push(format!(
            "{} comes back ({what})",
            display_workspace_path(path)
        ));
        self.returning.insert(path.absolute_path().to_owned(), item);
        UndoStep::BringBack { removed, to, newer }
    }

    /// Notes that nothing of it is kept, unless it was removed once more, and then is.
    fn record_lost_path(&mut self, path: &WorkspacePath) {
        if !self.returning.contains_key(path.absolute_path()) {
            self.lost.push(format!(
                "{}: nothing of it is kept",
                display_workspace_path(path)
            ));
        }
    }
}
