//! Undoing a request: every file as it was before, or nothing at all. What changed since the request is never
//! overwritten.

mod leftovers;
mod made_items;
mod made_record;
mod snapshot_changes;
mod snapshot_coverage;
mod snapshot_notes;

use std::io;
use std::path::{Path, PathBuf};

use self::snapshot_coverage::SnapshotCoverage;
use super::content_store::ContentStore;
use super::inventory::{TrashEntry, UndoLogLine};
use super::manifest::ManifestPath;
use super::net_effect::{NetChange, sum_file_changes};
use super::path_state::{PathState, display_workspace_path};
use super::undo_steps::{UndoStep, apply_steps};
use super::{Trash, display_path};
use punie_core::clock::unix_time_ms;
use punie_core::durable::append_json_lines;
use punie_core::failpoint::reach;
use punie_core::ids::RequestId;
use punie_host::{Workspace, WorkspacePath};
use punie_text::output::number_format;

/// The result of an undo, or its preview.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoReport {
    /// The request.
    pub request: RequestId,
    /// The result for each path, in words.
    pub lines: Vec<String>,
    /// Commands ran in it without a snapshot of each workspace.
    pub is_partial: bool,
}

/// The changes that an undo does not cover.
pub const UNTRACKED: &str = "Without a snapshot, what a command changes is not tracked: look with `git status` and `git diff`.";

/// The reason why a request cannot be undone. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// Nothing is kept of it.
    #[error(
        "nothing is kept of request {0}: it changed nothing that the trash covers, or its backups were deleted. \
         {untracked}",
        untracked = UNTRACKED
    )]
    Unknown(String),
    /// It was undone before.
    #[error("request {0} was undone already")]
    Already(RequestId, i64),
    /// Everything is as it was before.
    #[error("there is nothing to undo: all that request {0} was about to change is as it was before{notes}",
        notes = join_notes(.1))]
    Nothing(RequestId, Vec<String>),
    /// Something is not as the request left it, or is not kept.
    #[error("request {0} cannot be undone, and nothing was changed:\n{list}", list = .1.join("\n"))]
    Refused(RequestId, Vec<String>),
    /// A step failed, and those before it were taken back.
    #[error("request {0} was not undone: {1}")]
    Failed(RequestId, String),
    /// The trash itself.
    #[error("the trash cannot be used: {0}")]
    Trash(#[from] io::Error),
}

/// Each note on a line of its own.
fn join_notes(notes: &[String]) -> String {
    let lines = notes.iter().flat_map(|note| ["\n", note.as_str()]);
    lines.collect()
}

impl Trash {
    /// Undoes the request with this id; a dry run only says what that would do.
    ///
    /// # Errors
    /// [`UndoError`]; nothing is changed then.
    pub fn undo_request(
        &self,
        workspace: &Workspace,
        request: &str,
        is_dry_run: bool,
    ) -> Result<UndoReport, UndoError> {
        self.finish_abandoned_snapshots();
        let _lock = self.lock()?;
        let all = self.list_entries_locked()?;
        let running = self.list_running_calls();
        let is_meant = |id: &str| id.starts_with(request) || id.ends_with(request);
        if let Some(running) = running.iter().find(|call| is_meant(call.request.as_str())) {
            let text = "a command of it still runs; end it first: punie-runner stop ID";
            return Err(UndoError::Refused(
                running.request.clone(),
                vec![text.to_owned()],
            ));
        }
        let entry = match find_entry(&all, request) {
            Ok(entry) => entry,
            Err(unknown) => {
                let is_it = |undo: &UndoLogLine| !undo.begun && undo.request.as_str() == request;
                let undo = self.read_undo_log()?.into_iter().rfind(is_it);
                return Err(
                    undo.map_or(unknown, |undo| UndoError::Already(undo.request, undo.at_ms))
                );
            }
        };
        if let Some(at_ms) = entry.undone_at_ms {
            return Err(UndoError::Already(entry.request.clone(), at_ms));
        }
        let contents = ContentStore::in_folder(self.home.trash_objects_dir())
            .with_snapshots(self.home.trash_snapshot_contents_dir());
        let mut plan = UndoPlan {
            workspace,
            contents: &contents,
            all: &all,
            entry,
            steps: vec![],
            lines: vec![],
            faults: vec![],
            lost: vec![],
            notes: vec![],
            made_folder: self
                .home
                .trash_made_dir()
                .join(uuid::Uuid::new_v4().simple().to_string()),
            made_items: vec![],
        };
        let coverage = SnapshotCoverage::from_entry(entry);
        if entry.was_begun && !is_dry_run {
            leftovers::remove_leftovers(workspace, &coverage);
        }
        plan.add_made_items();
        plan.add_snapshot_changes(&coverage);
        plan.add_changes();
        plan.add_snapshot_notes(&coverage);
        plan.add_notes_on_others(&coverage, &running);
        let made = (
            plan.made_folder.clone(),
            std::mem::take(&mut plan.made_items),
        );
        let (steps, lines) = plan.check()?;
        if !is_dry_run {
            self.log_undo(entry, true)?;
            Self::record_made(entry, &made.0, made.1)?;
            apply_steps(&steps, &contents).map_err(|text| {
                made_record::discard_made_record(&made.0);
                UndoError::Failed(entry.request.clone(), text)
            })?;
            reach("undo.done");
            self.log_undo(entry, false)?;
        }
        Ok(UndoReport {
            request: entry.request.clone(),
            lines,
            is_partial: coverage.ends.iter().any(|end| end.off.is_some()),
        })
    }

    /// Finds the newest request that is not undone and has something to undo.
    ///
    /// # Errors
    /// [`UndoError::Trash`].
    pub fn find_newest_undoable(
        &self,
        workspace: &Workspace,
    ) -> Result<Option<RequestId>, UndoError> {
        for entry in self.list_entries()? {
            if entry.undone_at_ms.is_some() {
                continue;
            }
            match self.undo_request(workspace, entry.request.as_str(), true) {
                Err(UndoError::Nothing(..) | UndoError::Already(..) | UndoError::Unknown(_)) => {}
                Err(error @ UndoError::Trash(_)) => return Err(error),
                _ => return Ok(Some(entry.request)),
            }
        }
        Ok(None)
    }

    fn log_undo(&self, entry: &TrashEntry, begun: bool) -> io::Result<()> {
        let line = UndoLogLine {
            request: entry.request.clone(),
            at_ms: unix_time_ms(),
            begun,
        };
        append_json_lines(&self.home.trash_log_file(), &[line]).map(drop)
    }
}

/// Finds the entry of the request with this id.
pub(super) fn find_entry<'a>(
    all: &'a [TrashEntry],
    request: &str,
) -> Result<&'a TrashEntry, UndoError> {
    all.iter()
        .find(|entry| entry.request.as_str() == request)
        .ok_or_else(|| UndoError::Unknown(request.to_owned()))
}

/// An undo that is being planned.
struct UndoPlan<'a> {
    workspace: &'a Workspace,
    contents: &'a ContentStore,
    all: &'a [TrashEntry],
    entry: &'a TrashEntry,
    steps: Vec<UndoStep>,
    lines: Vec<String>,
    faults: Vec<String>,
    /// Lost paths of which nothing is stored: no reason to leave the rest.
    lost: Vec<String>,
    /// What else is to be said.
    notes: Vec<String>,
    /// The folder in the trash for what the request had made, and what goes there.
    made_folder: PathBuf,
    made_items: Vec<(ManifestPath, String)>,
}

impl UndoPlan<'_> {
    /// Returns the steps and their descriptions, if nothing is in the way.
    fn check(mut self) -> Result<(Vec<UndoStep>, Vec<String>), UndoError> {
        let request = self.entry.request.clone();
        if self.steps.is_empty() {
            self.faults.append(&mut self.lost);
        }
        if !self.faults.is_empty() {
            return Err(UndoError::Refused(request, self.faults));
        }
        if self.steps.is_empty() {
            return Err(UndoError::Nothing(request, self.notes));
        }
        self.lines.extend(self.lost.into_iter().chain(self.notes));
        Ok((self.steps, self.lines))
    }

    /// Plans the undo of changes by file tools.
    fn add_changes(&mut self) {
        let changes = sum_file_changes(self.entry);
        // Where the content is not kept, another path of the request may have it.
        let source_of = |change: &NetChange| {
            let before = change.before.as_ref().filter(|before| !before.kept)?;
            changes.iter().find(|other| {
                other.before.is_none() && other.after.as_ref() == Some(&before.sha256)
            })
        };
        let mut moved: Vec<&Path> = Vec::new();
        for change in &changes {
            if let Some(source) = source_of(change)
                && self.add_move_back(change, source)
            {
                moved.push(&source.path);
            }
        }
        for change in &changes {
            if source_of(change).is_none() && !moved.contains(&change.path.as_path()) {
                self.add_change(change);
            }
        }
    }

    /// Plans that a file goes back where it was; whether the path that it went to is dealt with thereby.
    fn add_move_back(&mut self, change: &NetChange, source: &NetChange) -> bool {
        let (Some(to), Some(at)) = (
            self.find_workspace_path(&change.path),
            self.find_workspace_path(&source.path),
        ) else {
            return false;
        };
        let is_moved = |state: &PathState| matches!(state, PathState::File { sha256, .. } if Some(sha256) == source.after.as_ref());
        match (PathState::read(&to), PathState::read(&at)) {
            (found, PathState::Absent) if is_moved(&found) => {}
            (PathState::Absent, found) if is_moved(&found) => {
                self.lines.push(format!(
                    "{} goes back to {}",
                    display_workspace_path(&at),
                    display_workspace_path(&to)
                ));
                self.steps.push(UndoStep::MoveBack { at, to });
            }
            (PathState::Absent, found) => self.refuse_changed(&at, &found),
            (found, _) => self.refuse_changed(&to, &found),
        }
        true
    }

    fn add_change(&mut self, change: &NetChange) {
        let Some(path) = self.find_workspace_path(&change.path) else {
            return;
        };
        let state = PathState::read(&path);
        let (sha256, mode) = match &state {
            PathState::Absent => (None, None),
            PathState::File { sha256, mode } => (Some(sha256), *mode),
            PathState::Other(_) => return self.refuse_changed(&path, &state),
        };
        let was = change.before.as_ref();
        let mode_is_back =
            !change.mode_changes || was.is_none_or(|was| was.mode.is_none() || was.mode == mode);
        if sha256 == was.map(|was| &was.sha256) && mode_is_back {
            return;
        }
        if sha256 != change.after.as_ref() {
            return self.refuse_changed(&path, &state);
        }
        let Some(was) = was else {
            self.lines.push(format!(
                "{} goes: the request had made it",
                display_workspace_path(&path)
            ));
            // Without an after there is no file now, and nothing to remove.
            let expected = change.after.clone().unwrap_or_default();
            return self.steps.push(UndoStep::Remove { path, expected });
        };
        if !was.kept || !self.contents.has_content_of_size(&was.sha256, was.size) {
            return self.faults.push(format!(
                "{}: what it held before is not kept",
                display_workspace_path(&path)
            ));
        }
        let expected = sha256.cloned();
        let verb = if expected.is_some() {
            "gets back what it held"
        } else {
            "comes back"
        };
        self.lines.push(format!(
            "{} {verb} ({})",
            display_workspace_path(&path),
            number_format::format_size(was.size)
        ));
        self.steps.push(UndoStep::Write {
            path,
            sha256: was.sha256.clone(),
            mode: was.mode,
            expected,
        });
    }

    /// Finds a path in a workspace; one that lies in none is a fault.
    fn find_workspace_path(&mut self, path: &Path) -> Option<WorkspacePath> {
        let found = self.workspace.path_if_inside(path);
        if found.is_none() {
            let shown = display_path(path);
            self.faults.push(format!(
                "{shown} lies in no workspace here; name its folder with --workspace"
            ));
        }
        found
    }

    /// Refuses to undo, and names the later request that changed the path, if one did.
    fn refuse_changed(&mut self, path: &WorkspacePath, state: &PathState) {
        let what = match state {
            PathState::Absent => "is not there any more",
            PathState::File { .. } => "was changed since",
            PathState::Other(words) => words,
        };
        let later = self.all.iter().find(|other| {
            (other.at_ms, &other.request) > (self.entry.at_ms, &self.entry.request)
                && other.undone_at_ms.is_none()
                && other.overlaps_path(path.absolute_path())
        });
        let hint = later.map_or_else(String::new, |later| {
            format!(
                ", by request {} ({}): undo that one first",
                later.request, later.tool
            )
        });
        self.faults
            .push(format!("{} {what}{hint}", display_workspace_path(path)));
    }
}
