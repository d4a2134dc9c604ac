//! Commits a planned patch: one file after the other, and all of it back if one fails. Not here: the changes (plan),
//! the writing of one file (the client), and taking back (undo).

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::apply_hunks::ContentEdit;
use super::plan::{PlannedAction, PlannedChange};
use super::undo::Undo;
use crate::acp::files::{LoadedFile, MoveFile, NewContent, Precondition, RemoveFile, WriteTextFile};
use crate::acp::prepared::PreparedWrite;
use crate::acp::{RawPath, WorkspacePath};
use crate::handlers::file::FileDeps;
use crate::ids::hex;
use crate::tool::{ErrorCode, FileChange, Intent, ToolCx, ToolError, Unrecorded};

/// The outcome of a patch.
pub(crate) struct CommittedPatch {
    /// Each changed file with its hashes.
    pub files: Vec<FileChange>,
    /// Notes on what the patch did not ask for.
    pub warnings: Vec<String>,
    /// `editor` where a connected editor wrote one of them.
    pub source: Option<String>,
}

/// Writes everything, or takes it back.
///
/// Once the first file is written, only an editor that has still to be sent its part looks at the call's cancel. All of
/// it is declared before anything is done, and all new contents are on the disk before the first file is replaced, so
/// that a later process can finish what a crash cut off.
///
/// # Errors
/// Why a write failed, and that everything was taken back; or, file by file, what could not be.
pub(crate) async fn commit_patch(
    cx: &ToolCx,
    deps: &FileDeps,
    changes: Arc<Vec<PlannedChange>>,
) -> Result<CommittedPatch, ToolError> {
    // Taking back needs no declaration of its own: the first one covers whatever a later process finds.
    let steady = ToolCx { cancel: CancellationToken::new(), intents: Arc::new(Unrecorded), ..cx.clone() };
    let (cx, deps) = (cx.clone(), deps.clone());
    let runtime = tokio::runtime::Handle::current();
    // On a thread of its own, so that it goes on even when nobody waits for the call any more.
    let work = move || {
        runtime.block_on(async move {
            if cx.is_cancelled() {
                return Err(ToolError::cancelled("The call was cancelled before anything was changed."));
            }
            let mut steps = Vec::new();
            for change in changes.iter() {
                let prepared = prepare_step(&cx, &deps, change).await;
                steps.push(prepared.map_err(|fault| unchanged(&change.path, &fault))?);
            }
            let intents: Vec<Intent> = steps.iter().flat_map(CommitStep::intents).collect();
            cx.declare(intents).await?;
            let commit = Commit { cx: steady, declaring: cx, deps, undos: Vec::new(), folders: Vec::new() };
            commit.run(&changes, steps).await
        })
    };
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|fault| ToolError::internal(format!("The writing broke off: {fault}")))?
}

/// The steps for one file, ready to be taken.
#[derive(Default)]
struct CommitStep {
    write: Option<Box<dyn PreparedWrite>>,
    /// The right to be executed that the file had, where that changes.
    was_executable: Option<bool>,
    rename: Option<Rename>,
}

/// A file that gets another name: its new one, or one until everything else is done, where it shall go.
struct Rename {
    from: WorkspacePath,
    to: WorkspacePath,
    is_removal: bool,
    /// The hash of its content, where that is known.
    sha256: Option<String>,
}

/// Checks a change and gives it its names; nothing is done.
async fn prepare_step(cx: &ToolCx, deps: &FileDeps, change: &PlannedChange) -> Result<CommitStep, ToolError> {
    let path = &change.path;
    let loaded_sha256 = || change.loaded.as_ref().map(LoadedFile::sha256);
    let rename = |to: WorkspacePath, is_removal: bool, sha256: Option<String>| {
        Some(Rename { from: path.clone(), to, is_removal, sha256 })
    };
    match &change.action {
        PlannedAction::Unchanged(_) => Ok(CommitStep::default()),
        PlannedAction::Add { content, executable } => {
            let request = WriteTextFile {
                path: path.clone(),
                content: NewContent::Text(content.clone()),
                only_if: Precondition::Absent,
                create_folders: true,
                executable: *executable,
            };
            let write = Some(deps.client.prepare_file(cx, request).await?);
            Ok(CommitStep { write, ..CommitStep::default() })
        }
        PlannedAction::Delete => {
            let rename = rename(name_aside(deps, path)?, true, loaded_sha256());
            Ok(CommitStep { rename, ..CommitStep::default() })
        }
        PlannedAction::Update { edit, executable, move_to } => {
            let written = change.loaded.as_ref().filter(|_| !edit.splices.is_empty() || executable.is_some());
            let mut step = CommitStep::default();
            if let Some(loaded) = written {
                let request = update_request(path, loaded, edit, *executable);
                step.write = Some(deps.client.prepare_file(cx, request).await?);
            }
            step.was_executable = executable.and_then(|_| is_executable(path));
            if let Some(to) = move_to {
                let sha256 = match step.write.as_ref().and_then(|write| write.intent()) {
                    Some(Intent::File { after, .. }) => after,
                    _ => loaded_sha256(),
                };
                step.rename = rename(to.clone(), false, sha256);
            }
            Ok(step)
        }
    }
}

fn update_request(
    path: &WorkspacePath,
    loaded: &LoadedFile,
    edit: &ContentEdit,
    executable: Option<bool>,
) -> WriteTextFile {
    WriteTextFile {
        path: path.clone(),
        content: NewContent::Spliced { old: Arc::clone(&loaded.bytes), splices: edit.stored.clone() },
        only_if: Precondition::AsLoaded(loaded.stamp),
        create_folders: false,
        executable,
    }
}

impl CommitStep {
    /// The declarations of its effects.
    fn intents(&self) -> Vec<Intent> {
        let mut intents: Vec<Intent> = self.write.iter().filter_map(|write| write.intent()).collect();
        intents.extend(self.rename.as_ref().map(Rename::intent));
        intents
    }
}

impl Rename {
    fn intent(&self) -> Intent {
        let (from, to) = (self.from.absolute().to_str(), self.to.absolute().to_str());
        let (from, to) = (from.map(str::to_owned), to.map(str::to_owned));
        let sha256 = self.sha256.clone();
        match (from, to) {
            (Some(path), Some(temp)) if self.is_removal => {
                Intent::File { path, before: sha256, after: None, executable: None, temp }
            }
            (Some(from), Some(to)) => Intent::Move { from, to, sha256 },
            _ if self.is_removal => Intent::Vague { what: format!("remove {}", self.from.shown()) },
            _ => Intent::Vague { what: format!("move {} to {}", self.from.shown(), self.to.shown()) },
        }
    }
}

/// A patch while it is written.
pub(super) struct Commit {
    pub(super) cx: ToolCx,
    /// The call's own context, by which it declares.
    declaring: ToolCx,
    pub(super) deps: FileDeps,
    /// The way back from each step that was taken.
    pub(super) undos: Vec<Undo>,
    /// Folders that were made for new files, inner ones first.
    pub(super) folders: Vec<WorkspacePath>,
}

impl Commit {
    async fn run(
        mut self,
        changes: &[PlannedChange],
        mut steps: Vec<CommitStep>,
    ) -> Result<CommittedPatch, ToolError> {
        let mut announced = Vec::new();
        for (change, step) in changes.iter().zip(&mut steps) {
            let Some(write) = step.write.take() else { continue };
            let folders = self.missing_folders(&change.path);
            let is_announced = matches!(write.intent(), Some(Intent::Beside { .. }));
            let staged = self.deps.client.stage_file(&self.cx, write).await;
            self.folders.splice(0..0, folders);
            match staged {
                Ok(write) => {
                    announced.extend(write.intent().filter(|_| is_announced));
                    step.write = Some(write);
                }
                Err(fault) => {
                    drop(steps);
                    return Err(self.undo(&change.path, &fault).await);
                }
            }
        }
        if !announced.is_empty()
            && let Err(fault) = self.declaring.declare(announced).await
        {
            drop(steps);
            let folders = std::mem::take(&mut self.folders);
            self.remove_folders(folders).await?;
            return Err(fault);
        }
        let mut committed = CommittedPatch { files: Vec::new(), warnings: Vec::new(), source: None };
        let mut rest = steps.into_iter();
        for change in changes {
            let step = rest.next().unwrap_or_default();
            if let Err(fault) = self.take_step(change, step, &mut committed).await {
                // What is staged and not placed goes, and then its folders can.
                drop(rest);
                return Err(self.undo(&change.path, &fault).await);
            }
        }
        for undo in &self.undos {
            if let Undo::RenameBack { from: path, to: aside, is_removal: true, .. } = undo {
                let request = RemoveFile { path: aside.clone(), only_if: Precondition::None };
                if let Err(fault) = self.deps.client.remove_file(&self.cx, request).await {
                    let (path, aside) = (path.shown(), aside.shown());
                    committed.warnings.push(format!(
                        "{path} is gone, but what it held is left as {aside}: {}",
                        fault.text()
                    ));
                }
            }
        }
        Ok(committed)
    }

    async fn take_step(
        &mut self,
        change: &PlannedChange,
        step: CommitStep,
        committed: &mut CommittedPatch,
    ) -> Result<(), ToolError> {
        let path = &change.path;
        let loaded = change.loaded.as_ref().map(LoadedFile::sha256);
        let (mut before, mut after) = (loaded.clone(), loaded);
        if let Some(write) = step.write {
            let written = self.deps.client.place_file(&self.cx, write).await?;
            committed.source = committed.source.take().or(written.by.fact());
            committed.warnings.extend(written.warnings);
            (before, after) = (written.before, Some(written.after.clone()));
            self.undos.push(match &change.loaded {
                Some(before) => Undo::WriteBack {
                    path: path.clone(),
                    before: before.clone(),
                    executable: step.was_executable,
                    after: written.after,
                },
                None => Undo::Remove { path: path.clone(), after: written.after },
            });
        }
        let mut file_change = |path: &WorkspacePath, before, after| {
            committed.files.push(FileChange { path: path.shown(), before, after });
        };
        match step.rename {
            Some(Rename { from, to, is_removal, sha256 }) => {
                // Of a file that an editor has unsaved text of, the text on the disk was not looked at.
                let on_disk = change.loaded.as_ref().filter(|loaded| !loaded.source.is_unsaved());
                let only_if = match (is_removal, on_disk, &after) {
                    (true, Some(loaded), _) => Precondition::AsLoaded(loaded.stamp),
                    (false, _, Some(after)) => Precondition::Content(after.clone()),
                    _ => Precondition::None,
                };
                let folders = self.missing_folders(&to);
                let request = MoveFile { from: from.clone(), to: to.clone(), only_if };
                self.deps.client.move_file(&self.cx, request).await?;
                if is_removal {
                    file_change(&from, sha256, None);
                } else {
                    file_change(&from, before, None);
                    file_change(&to, None, after);
                }
                self.undos.push(Undo::RenameBack { from, to, folders, is_removal });
            }
            None if !matches!(change.action, PlannedAction::Unchanged(_)) => {
                file_change(path, before, after);
            }
            None => {}
        }
        Ok(())
    }

    /// The folders that will be made for a file, inner ones first.
    fn missing_folders(&self, path: &WorkspacePath) -> Vec<WorkspacePath> {
        path.absolute()
            .ancestors()
            .skip(1)
            .take_while(|folder| folder.starts_with(path.root()))
            .map_while(|folder| self.deps.workspace.resolve(&RawPath::from(folder.to_str()?)).ok())
            .take_while(|folder| !folder.existed())
            .collect()
    }
}

/// The first fault of a patch, before which nothing was done.
pub(super) fn unchanged(path: &WorkspacePath, fault: &ToolError) -> ToolError {
    let text = format!("{}\nNo file was changed before it.", failure(path, fault));
    ToolError::new(fault.code(), text).with_meta(fault.meta().clone())
}

/// Describes the fault of a file. Of one that may have been changed its own words say how it stands.
pub(super) fn failure(path: &WorkspacePath, fault: &ToolError) -> String {
    if fault.meta().may_have_run {
        return fault.text().to_owned();
    }
    format!("{} could not be changed: {}", path.shown(), fault.text())
}

/// Makes a name beside a file that nobody can foresee.
fn name_aside(deps: &FileDeps, path: &WorkspacePath) -> Result<WorkspacePath, ToolError> {
    let mut random = [0_u8; 8];
    getrandom::fill(&mut random).map_err(|cause| ToolError::internal(format!("No random bytes: {cause}")))?;
    let name = path.absolute().file_name().unwrap_or_default().to_string_lossy();
    let stem: String = name.chars().take(40).collect();
    let aside = path.absolute().with_file_name(format!(".{stem}.{}.tmp", hex(&random)));
    let aside = aside.to_str().ok_or_else(|| {
        ToolError::new(
            ErrorCode::Io,
            format!("{}: a folder's name is not UTF-8. Remove it with Bash.", path.shown()),
        )
    })?;
    deps.workspace.resolve(&RawPath::from(aside))
}

#[cfg(unix)]
fn is_executable(path: &WorkspacePath) -> Option<bool> {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().ok().map(|metadata| metadata.permissions().mode() & 0o100 != 0)
}

#[cfg(not(unix))]
fn is_executable(_path: &WorkspacePath) -> Option<bool> {
    None
}
