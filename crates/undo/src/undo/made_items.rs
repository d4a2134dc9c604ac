//! Planning the undo of an undo: what that had moved to the trash, because a request had made it, comes back.

use std::io;
use std::path::PathBuf;

use super::super::path_state::{PathState, display_workspace_path};
use super::super::preview::{TreePreview, contains_all_of};
use super::super::undo_steps::UndoStep;
use super::UndoPlan;
use punie_host::WorkspacePath;

impl UndoPlan<'_> {
    /// Plans the return of all that this entry's undo had taken away.
    pub(super) fn add_made_items(&mut self) {
        for (path, item) in self.entry.removed_items() {
            let is_kept = item.symlink_metadata().is_ok();
            let Some(path) = self.find_workspace_path(path) else {
                continue;
            };
            if is_kept {
                self.add_return(path, item);
            } else if path.absolute_path().symlink_metadata().is_err() {
                let shown = display_workspace_path(&path);
                self.lost.push(format!("{shown}: nothing of it is kept"));
            }
        }
    }

    fn add_return(&mut self, path: WorkspacePath, item: PathBuf) {
        if let Err(denied) = path.check_runs_nothing() {
            return self.faults.push(denied.model_text().to_owned());
        }
        let shown = display_workspace_path(&path);
        match path.file_metadata() {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                let preview = TreePreview::new(&item, path.relative_path());
                self.lines.push(format!("{shown} comes back ({preview})"));
                self.steps.push(UndoStep::BringBack { item, to: path });
            }
            // An undo was cut off between a copy and the end of the original.
            _ if contains_all_of(path.absolute_path(), &item) => {}
            Err(cause) if cause.raw_os_error() == Some(libc::ELOOP) => {
                self.refuse_changed(&path, &PathState::from_read_error(&cause));
            }
            Err(cause) => self.faults.push(format!("{shown}: {cause}")),
            Ok(_) => self.refuse_changed(&path, &PathState::Other("is there again".to_owned())),
        }
    }
}
