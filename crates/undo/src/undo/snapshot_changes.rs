//! Planning the undo of all that a call changed in the covered folders: what it made goes to the trash, what it changed
//! or removed comes back, and what changed since is in the way.

use std::path::PathBuf;

use super::super::display_path;
use super::super::path_state::{display_workspace_path, read_path_content};
use super::super::snapshot::{PathChange, PathContent, UncoveredReason};
use super::super::undo_steps::UndoStep;
use super::snapshot_coverage::SnapshotCoverage;
use super::{PathState, UndoPlan};
use punie_host::WorkspacePath;
use punie_text::output::number_format;

/// The permission bits without which a folder's owner cannot change it.
const OWNER_BITS: u32 = 0o700;

/// The steps of one kind after another: each finds its folders as it needs them.
#[derive(Default)]
struct StepGroups {
    open_folders: Vec<UndoStep>,
    remove_made: Vec<UndoStep>,
    make_folders: Vec<UndoStep>,
    write: Vec<UndoStep>,
    set_modes: Vec<UndoStep>,
}

impl UndoPlan<'_> {
    /// Plans the undo of what the snapshots of the call show.
    pub(super) fn add_snapshot_changes(&mut self, coverage: &SnapshotCoverage) {
        let mut groups = StepGroups::default();
        let mut handled: Vec<PathBuf> = Vec::new();
        for change in coverage.changes.values() {
            let path = &change.path.0;
            if handled.iter().any(|folder| path.starts_with(folder)) {
                continue;
            }
            let Some(at) = self.find_workspace_path(path) else {
                continue;
            };
            if self.add_snapshot_change(&at, change, coverage, &mut groups) {
                handled.push(path.clone());
            }
        }
        // The innermost first.
        groups.set_modes.reverse();
        let steps = [
            groups.open_folders,
            groups.remove_made,
            groups.make_folders,
            groups.write,
            groups.set_modes,
        ];
        self.steps.extend(steps.into_iter().flatten());
    }

    /// Plans the undo of one change; returns whether that deals with all below it as well.
    fn add_snapshot_change(
        &mut self,
        path: &WorkspacePath,
        change: &PathChange,
        coverage: &SnapshotCoverage,
        groups: &mut StepGroups,
    ) -> bool {
        let shown = display_workspace_path(path);
        if self.explain_uncovered(path, change, groups) {
            return false;
        }
        let now = match read_path_content(path) {
            Ok(now) => now,
            Err(cause) => {
                self.faults.push(format!("{shown}: {cause}"));
                return false;
            }
        };
        let is_folder =
            |content: Option<&PathContent>| matches!(content, Some(PathContent::Folder { .. }));
        let [before, after] = [change.before.as_ref(), change.after.as_ref()];
        // Folders differ in more than one way from what was left there; their entries say so themselves.
        if now.as_ref() == before
            || (is_folder(before) && !is_folder(after) && is_folder(now.as_ref()))
        {
            return false;
        }
        if is_folder(before) && is_folder(after) && is_folder(now.as_ref()) {
            self.add_folder_mode(path, change, now.as_ref(), groups);
            return false;
        }
        if change.is_ignored && now.is_some() {
            let line = format!("{shown} stays: git ignores it, and it is there again");
            self.lines.push(line);
            return false;
        }
        let is_as_left = now.as_ref() == after || (is_folder(after) && is_folder(now.as_ref()));
        if !is_as_left {
            let state = match &now {
                None => PathState::Absent,
                Some(PathContent::File { sha256, mode, .. }) => PathState::File {
                    sha256: sha256.clone(),
                    mode: Some(*mode),
                },
                Some(_) => PathState::Other("is something else now".to_owned()),
            };
            self.refuse_changed(path, &state);
            return false;
        }
        if let (
            Some(PathContent::File { sha256, size, mode }),
            Some(PathContent::File { sha256: left, .. }),
        ) = (before, after)
        {
            let line = if sha256 == left {
                format!("{shown} gets back its mode ({mode:o})")
            } else {
                format!(
                    "{shown} gets back what it held ({})",
                    number_format::format_size(*size)
                )
            };
            self.add_snapshot_write(path, change, Some(left.clone()), line, groups);
            return false;
        }
        let is_handled =
            after.is_none() || self.add_removal_of_made(path, change, coverage, groups);
        if is_folder(after) && !is_handled {
            if before.is_some() {
                self.faults.push(format!(
                    "{shown} is a folder now, and holds something that the request did not leave there"
                ));
            }
            return false;
        }
        self.add_snapshot_return(path, change, groups);
        is_folder(after)
    }

    /// Says what is not covered of a change; returns whether nothing else is to be done about it.
    fn explain_uncovered(
        &mut self,
        path: &WorkspacePath,
        change: &PathChange,
        groups: &mut StepGroups,
    ) -> bool {
        let shown = display_workspace_path(path);
        let is_named = |why: UncoveredReason| {
            !matches!(why, UncoveredReason::Ignored | UncoveredReason::Repository)
        };
        match (&change.before, &change.after) {
            (Some(PathContent::Uncovered { why, .. }), _) => {
                let text = format!("{shown}: what it was before is not kept ({})", why.text());
                self.lost.extend(is_named(*why).then_some(text));
                true
            }
            (None, Some(PathContent::Uncovered { why, .. })) => {
                let text = format!(
                    "{shown}: stays, although the request made it ({})",
                    why.text()
                );
                self.lost.extend(is_named(*why).then_some(text));
                true
            }
            (Some(_), Some(PathContent::Uncovered { why, .. })) => {
                if path.absolute_path().symlink_metadata().is_ok() {
                    self.faults.push(format!(
                        "{shown}: what the request left there is not covered ({}); move it away, then undo again",
                        why.text()
                    ));
                } else {
                    self.add_snapshot_return(path, change, groups);
                }
                true
            }
            _ => false,
        }
    }

    /// Plans that what the request made goes to the trash. Returns false for a folder that holds something else as well.
    fn add_removal_of_made(
        &mut self,
        path: &WorkspacePath,
        change: &PathChange,
        coverage: &SnapshotCoverage,
        groups: &mut StepGroups,
    ) -> bool {
        let shown = display_workspace_path(path);
        let expected = coverage
            .changes
            .range(change.path.0.clone()..)
            .map(|(path, change)| (path, change.after.clone()))
            .take_while(|(path, _)| path.starts_with(&change.path.0))
            .filter_map(|(at, after)| {
                Some((at.strip_prefix(&change.path.0).ok()?.to_owned(), after?))
            })
            .collect();
        if matches!(change.after, Some(PathContent::Folder { .. }))
            && super::super::made_tree::find_other_content(path.absolute_path(), &expected)
                .is_some()
        {
            let line =
                format!("{shown} stays: it holds something that the request did not leave there");
            self.lines.push(line);
            return false;
        }
        let item = self.made_items.len().to_string();
        self.made_items.push((change.path.clone(), item.clone()));
        if change.before.is_none() {
            self.lines.push(format!(
                "{shown} goes to the trash: the request had made it"
            ));
        }
        groups.remove_made.push(UndoStep::TrashMade {
            path: path.clone(),
            item: self.made_folder.join(item),
            expected,
        });
        true
    }

    /// Plans that something comes back where there is nothing by then.
    fn add_snapshot_return(
        &mut self,
        path: &WorkspacePath,
        change: &PathChange,
        groups: &mut StepGroups,
    ) {
        let shown = display_workspace_path(path);
        match &change.before {
            Some(PathContent::File { size, .. }) => {
                let line = format!("{shown} comes back ({})", number_format::format_size(*size));
                self.add_snapshot_write(path, change, None, line, groups);
            }
            Some(PathContent::Link { target }) => {
                self.lines.push(format!(
                    "{shown} comes back (a link to {})",
                    display_path(&target.0)
                ));
                groups.write.push(UndoStep::MakeLink {
                    path: path.clone(),
                    target: target.0.clone(),
                });
            }
            Some(PathContent::Folder { mode }) => {
                groups.make_folders.push(UndoStep::MakeFolder {
                    path: path.clone(),
                    mode: mode | OWNER_BITS,
                });
                if mode & OWNER_BITS != OWNER_BITS {
                    groups.set_modes.push(UndoStep::SetMode {
                        path: path.clone(),
                        mode: *mode,
                    });
                }
                self.lines.push(format!("{shown} comes back (a folder)"));
            }
            Some(PathContent::Uncovered { .. }) | None => {}
        }
    }

    fn add_snapshot_write(
        &mut self,
        path: &WorkspacePath,
        change: &PathChange,
        expected: Option<String>,
        line: String,
        groups: &mut StepGroups,
    ) {
        let Some(PathContent::File { sha256, mode, .. }) = &change.before else {
            return;
        };
        if !self.contents.has_content(sha256) {
            let shown = display_workspace_path(path);
            self.faults
                .push(format!("{shown}: what it held before is not kept"));
            return;
        }
        self.lines.push(line);
        groups.write.push(UndoStep::Write {
            path: path.clone(),
            sha256: sha256.clone(),
            mode: Some(*mode),
            expected,
        });
    }

    /// Plans that a folder gets its mode back. While its entries change, its owner may do so.
    fn add_folder_mode(
        &mut self,
        path: &WorkspacePath,
        change: &PathChange,
        now: Option<&PathContent>,
        groups: &mut StepGroups,
    ) {
        let (Some(PathContent::Folder { mode }), Some(PathContent::Folder { mode: left })) =
            (&change.before, &change.after)
        else {
            return;
        };
        // It has another one since: that stays.
        if !matches!(now, Some(PathContent::Folder { mode: now }) if now == left) {
            return;
        }
        if left & OWNER_BITS != OWNER_BITS {
            groups.open_folders.push(UndoStep::SetMode {
                path: path.clone(),
                mode: mode | OWNER_BITS,
            });
        }
        groups.set_modes.push(UndoStep::SetMode {
            path: path.clone(),
            mode: *mode,
        });
        self.lines.push(format!(
            "{} gets back its mode ({mode:o})",
            display_workspace_path(path)
        ));
    }
}
