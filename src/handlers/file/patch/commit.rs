//! Commits a planned patch: writes one file after the other, and undoes all of them if one fails.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::commit_state::{PatchCommit, PatchUndo, unchanged_fault};
use super::commit_step::{CommitStep, FileRename, prepare_commit_step};
use super::plan::{PlannedAction, PlannedChange};
use crate::file::FileDeps;
use punie_host::files::{LoadedFile, MoveFile, RemoveFile, STAGED_WARNING, WritePrecondition};
use punie_host::local::local_files::{place_staged_write, stage_prepared_write};
use punie_host::{RawPath, WorkspacePath};
use punie_tool::{CallIntent, FileChange, ToolContext, ToolError, UnrecordedIntents};

/// The outcome of a patch.
pub(crate) struct CommittedPatch {
    /// Each changed file with its hashes.
    pub files: Vec<FileChange>,
    /// Notes on effects that the patch did not ask for.
    pub warnings: Vec<String>,
    /// `editor` if a connected editor wrote one of the files.
    pub source: Option<String>,
}

impl CommittedPatch {
    /// Adds a warning that is not there yet.
    fn add_warning(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

/// Writes everything, or undoes it.
///
/// Once the first file is written, only writes still to be sent to an editor react to the call's
/// cancellation. All effects are declared before the first one, and all new contents are on disk
/// before the first file is replaced. So a later process can finish a commit that a crash
/// interrupted.
///
/// # Errors
/// The failed write, with the note that everything was undone, or with each file that was not.
pub(crate) async fn commit_patch(
    cx: &ToolContext,
    deps: &FileDeps,
    changes: Arc<Vec<PlannedChange>>,
) -> Result<CommittedPatch, ToolError> {
    // Undoing needs no declaration of its own: the first one covers any state a later process
    // finds.
    let steady = ToolContext {
        cancel: CancellationToken::new(),
        intents: Arc::new(UnrecordedIntents),
        ..cx.clone()
    };
    let (cx, deps) = (cx.clone(), deps.clone());
    let runtime = tokio::runtime::Handle::current();
    // Runs on its own thread, so that it continues even after the call is dropped.
    let work = move || {
        runtime.block_on(async move {
            if cx.is_cancelled() {
                return Err(ToolError::call_cancelled(
                    "The call was cancelled before anything was changed.",
                ));
            }
            let mut steps = Vec::new();
            for change in changes.iter() {
                let prepared = prepare_commit_step(&cx, &deps, change).await;
                steps.push(prepared.map_err(|fault| unchanged_fault(&change.path, &fault))?);
            }
            let intents: Vec<CallIntent> = steps.iter().flat_map(CommitStep::intents).collect();
            cx.declare_intents(intents).await?;
            let commit = PatchCommit {
                cx: steady,
                declaring_cx: cx,
                deps,
                undos: Vec::new(),
                folders: Vec::new(),
            };
            commit.commit_steps(&changes, steps).await
        })
    };
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|fault| ToolError::internal(format!("The writing broke off: {fault}")))?
}

impl PatchCommit {
    async fn commit_steps(
        mut self,
        changes: &[PlannedChange],
        mut steps: Vec<CommitStep>,
    ) -> Result<CommittedPatch, ToolError> {
        let mut announced = Vec::new();
        for (change, step) in changes.iter().zip(&mut steps) {
            let Some(write) = step.write.take() else {
                continue;
            };
            let folders = self.missing_folders(&change.path);
            let is_announced = matches!(write.next_intent(), Some(CallIntent::Beside { .. }));
            let staged = stage_prepared_write(&self.cx, write).await;
            self.folders.splice(0..0, folders);
            match staged {
                Ok(write) => {
                    announced.extend(write.next_intent().filter(|_| is_announced));
                    step.write = Some(write);
                }
                Err(fault) => {
                    drop(steps);
                    return Err(self.undo_all(&change.path, &fault).await);
                }
            }
        }
        if !announced.is_empty()
            && let Err(fault) = self.declaring_cx.declare_intents(announced).await
        {
            drop(steps);
            let folders = std::mem::take(&mut self.folders);
            self.remove_folders(folders).await?;
            return Err(fault);
        }
        let mut committed = CommittedPatch {
            files: Vec::new(),
            warnings: Vec::new(),
            source: None,
        };
        let mut rest = steps.into_iter();
        for change in changes {
            let step = rest.next().unwrap_or_default();
            if let Err(fault) = self.carry_out_step(change, step, &mut committed).await {
                // Dropping removes the remaining staged files, so that their folders can be
                // removed.
                drop(rest);
                return Err(self.undo_all(&change.path, &fault).await);
            }
        }
        for undo in &self.undos {
            if let PatchUndo::RenameBack {
                from: path,
                to: aside,
                is_removal: true,
                ..
            } = undo
            {
                let request = RemoveFile {
                    path: aside.clone(),
                    only_if: WritePrecondition::None,
                };
                if let Err(fault) = self.deps.client.remove_file(&self.cx, request).await {
                    let (path, aside) = (path.display_text(), aside.display_text());
                    committed.warnings.push(format!(
                        "{path} is gone, but what it held is left as {aside}: {}",
                        fault.model_text()
                    ));
                }
            }
        }
        Ok(committed)
    }

    async fn carry_out_step(
        &mut self,
        change: &PlannedChange,
        step: CommitStep,
        committed: &mut CommittedPatch,
    ) -> Result<(), ToolError> {
        let path = &change.path;
        if path.is_staged() {
            committed.add_warning(STAGED_WARNING.to_owned());
        }
        let loaded = change.loaded.as_ref().map(LoadedFile::bytes_sha256);
        let (mut before, mut after) = (loaded.clone(), loaded);
        if let Some(write) = step.write {
            let written = place_staged_write(&self.cx, write).await?;
            committed.source = committed.source.take().or(written.by.label());
            for warning in written.warnings {
                committed.add_warning(warning);
            }
            (before, after) = (written.before, Some(written.after.clone()));
            self.undos.push(match &change.loaded {
                Some(before) => PatchUndo::WriteBack {
                    path: path.clone(),
                    before: before.clone(),
                    executable: step.was_executable,
                    after: written.after,
                },
                None => PatchUndo::Remove {
                    path: path.clone(),
                    after: written.after,
                },
            });
        }
        let mut file_change = |path: &WorkspacePath, before, after| {
            if path.is_staged() {
                return;
            }
            committed.files.push(FileChange {
                path: path.display_text(),
                before,
                after,
            });
        };
        match step.rename {
            Some(FileRename {
                from,
                to,
                is_removal,
                sha256,
            }) => {
                // If an editor has unsaved text of a file, the text on disk was not read.
                let on_disk = change
                    .loaded
                    .as_ref()
                    .filter(|loaded| !loaded.source.is_unsaved());
                let only_if = match (is_removal, on_disk, &after) {
                    (true, Some(loaded), _) => WritePrecondition::AsLoaded(loaded.stamp),
                    (false, _, Some(after)) => WritePrecondition::Content(after.clone()),
                    _ => WritePrecondition::None,
                };
                let folders = self.missing_folders(&to);
                let request = MoveFile {
                    from: from.clone(),
                    to: to.clone(),
                    only_if,
                };
                self.deps.client.move_file(&self.cx, request).await?;
                if is_removal {
                    file_change(&from, sha256, None);
                } else {
                    file_change(&from, before, None);
                    file_change(&to, None, after);
                }
                self.undos.push(PatchUndo::RenameBack {
                    from,
                    to,
                    folders,
                    is_removal,
                });
            }
            None if !matches!(change.action, PlannedAction::Unchanged(_)) => {
                file_change(path, before, after);
            }
            None => {}
        }
        Ok(())
    }

    /// The folders to create for a file, inner ones first.
    fn missing_folders(&self, path: &WorkspacePath) -> Vec<WorkspacePath> {
        path.absolute_path()
            .ancestors()
            .skip(1)
            .take_while(|folder| folder.starts_with(path.root_path()))
            .map_while(|folder| {
                self.deps
                    .workspace
                    .resolve_inside(&RawPath::from(folder.to_str()?))
                    .ok()
            })
            .take_while(|folder| !folder.existed_when_resolved())
            .collect()
    }
}
