//! Carrying out a planned patch: one file after the other, and all of it back if one fails. Not here: what is written
//! (plan), how one file is written (the client), and how it is taken back (undo).

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::plan::{Change, Deed};
use super::rewrite::Edit;
use super::undo::Done;
use crate::acp::files::{LoadedFile, MoveFile, NewContent, Precondition, RemoveFile, Splice, WriteTextFile};
use crate::acp::prepared::PreparedWrite;
use crate::acp::{RawPath, WorkspacePath};
use crate::handlers::file::FileDeps;
use crate::ids::hex;
use crate::tool::{ErrorCode, FileChange, Intent, ToolCx, ToolError, Unrecorded};

/// What became of a patch.
pub(crate) struct Committed {
    /// Each changed file with its hashes.
    pub files: Vec<FileChange>,
    /// What was done that the patch did not ask for.
    pub warnings: Vec<String>,
    /// `editor` where a connected editor wrote one of them.
    pub source: Option<String>,
}

/// Writes everything. Once the first file is written the call's cancel is not looked at any more but by what an editor
/// has still to be sent: the patch is finished, or taken back. All of it is declared before anything is done, and all new contents are on the disk before
/// the first file is replaced, so that a later life can finish what a crash cut off.
///
/// # Errors
/// Why a write failed, and that everything was taken back; or, file by file, what could not be.
pub(crate) async fn commit(
    cx: &ToolCx,
    deps: &FileDeps,
    changes: Arc<Vec<Change>>,
) -> Result<Committed, ToolError> {
    // What is taken back needs no declaration of its own: whatever a later life finds, the first one tells.
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
                let prepared = prepare(&cx, &deps, change).await;
                steps.push(prepared.map_err(|fault| unchanged(&change.path, &fault))?);
            }
            let intents: Vec<Intent> = steps.iter().flat_map(Step::intents).collect();
            cx.declare(intents).await?;
            let writing = Writing { cx: steady, declaring: cx, deps, done: Vec::new(), folders: Vec::new() };
            writing.all(&changes, steps).await
        })
    };
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|fault| ToolError::internal(format!("The writing broke off: {fault}")))?
}

/// What is ready to be done to one file.
#[derive(Default)]
struct Step {
    write: Option<Box<dyn PreparedWrite>>,
    /// The right to be run that the file had, where that changes.
    was_executable: Option<bool>,
    /// The name that it has until everything else is done, where it shall go.
    aside: Option<Aside>,
    move_to: Option<Moving>,
}

struct Aside {
    path: WorkspacePath,
    to: WorkspacePath,
    before: Option<String>,
}

struct Moving {
    from: WorkspacePath,
    to: WorkspacePath,
    /// What it holds, where that is known.
    sha256: Option<String>,
}

/// Checks a change and gives it its names; nothing is done.
async fn prepare(cx: &ToolCx, deps: &FileDeps, change: &Change) -> Result<Step, ToolError> {
    let path = &change.path;
    match &change.deed {
        Deed::Nothing(_) => Ok(Step::default()),
        Deed::Add { content, executable } => {
            let request = WriteTextFile {
                path: path.clone(),
                content: NewContent::Text(content.clone()),
                only_if: Precondition::Absent,
                create_folders: true,
                executable: *executable,
            };
            Ok(Step { write: Some(deps.client.prepare_file(cx, request).await?), ..Step::default() })
        }
        Deed::Delete => {
            let before = change.loaded.as_ref().map(LoadedFile::sha256);
            let to = aside(deps, path)?;
            Ok(Step { aside: Some(Aside { path: path.clone(), to, before }), ..Step::default() })
        }
        Deed::Update { edit, executable, move_to } => {
            let written = change.loaded.as_ref().filter(|_| !edit.splices.is_empty() || executable.is_some());
            let write = match written {
                Some(loaded) => {
                    Some(deps.client.prepare_file(cx, update(path, loaded, edit, *executable)).await?)
                }
                None => None,
            };
            let sha256 = match write.as_ref().and_then(|write| write.intent()) {
                Some(Intent::File { after, .. }) => after,
                _ => change.loaded.as_ref().map(LoadedFile::sha256),
            };
            let moving = |to: &WorkspacePath| Moving { from: path.clone(), to: to.clone(), sha256 };
            let was_executable = executable.and_then(|_| is_executable(path));
            Ok(Step { write, was_executable, aside: None, move_to: move_to.as_ref().map(moving) })
        }
    }
}

fn update(path: &WorkspacePath, loaded: &LoadedFile, edit: &Edit, executable: Option<bool>) -> WriteTextFile {
    let splices = match &edit.encoded {
        Some(encoded) => vec![Splice { range: 0..loaded.bytes.len(), with: encoded.clone() }],
        None => edit.splices.clone(),
    };
    WriteTextFile {
        path: path.clone(),
        content: NewContent::Spliced { old: Arc::clone(&loaded.bytes), splices },
        only_if: Precondition::AsLoaded(loaded.stamp),
        create_folders: false,
        executable,
    }
}

impl Step {
    /// What is declared of it.
    fn intents(&self) -> Vec<Intent> {
        let text = |path: &WorkspacePath| path.absolute().to_str().map(str::to_owned);
        let mut intents: Vec<Intent> = self.write.iter().filter_map(|write| write.intent()).collect();
        if let Some(Aside { path, to, before }) = &self.aside {
            intents.push(match (text(path), text(to)) {
                (Some(path), Some(temp)) => {
                    Intent::File { path, before: before.clone(), after: None, executable: None, temp }
                }
                _ => Intent::Vague { what: format!("remove {}", path.shown()) },
            });
        }
        if let Some(Moving { from, to, sha256 }) = &self.move_to {
            intents.push(match (text(from), text(to)) {
                (Some(from), Some(to)) => Intent::Move { from, to, sha256: sha256.clone() },
                _ => Intent::Vague { what: format!("move {} to {}", from.shown(), to.shown()) },
            });
        }
        intents
    }
}

pub(super) struct Writing {
    pub(super) cx: ToolCx,
    /// The call's own, by which it declares.
    declaring: ToolCx,
    pub(super) deps: FileDeps,
    pub(super) done: Vec<Done>,
    /// Folders that were made for new files, inner ones first.
    pub(super) folders: Vec<WorkspacePath>,
}

impl Writing {
    async fn all(mut self, changes: &[Change], mut steps: Vec<Step>) -> Result<Committed, ToolError> {
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
        let mut committed = Committed { files: Vec::new(), warnings: Vec::new(), source: None };
        let mut rest = steps.into_iter();
        for change in changes {
            let step = rest.next().unwrap_or_default();
            if let Err(fault) = self.one(change, step, &mut committed).await {
                // What is staged and not placed goes, and then its folders can.
                drop(rest);
                return Err(self.undo(&change.path, &fault).await);
            }
        }
        for done in &self.done {
            if let Done::Aside { path, aside } = done {
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

    async fn one(&mut self, change: &Change, step: Step, committed: &mut Committed) -> Result<(), ToolError> {
        let path = &change.path;
        let told = change.loaded.as_ref().map(LoadedFile::sha256);
        let mut hashes = (told.clone(), told);
        if let Some(write) = step.write {
            let written = self.deps.client.place_file(&self.cx, write).await?;
            committed.source = committed.source.take().or(written.by.fact());
            committed.warnings.extend(written.warnings);
            let after = written.after;
            hashes = (written.before, Some(after.clone()));
            self.done.push(match &change.loaded {
                Some(before) => Done::Written {
                    path: path.clone(),
                    before: before.clone(),
                    executable: step.was_executable,
                    after,
                },
                None => Done::Made { path: path.clone(), after },
            });
        }
        if let Some(Aside { path, to: aside, before }) = step.aside {
            // Of a file that an editor has unsaved text of, what is on the disk was not looked at.
            let on_disk = change.loaded.as_ref().filter(|loaded| !loaded.source.is_unsaved());
            let only_if = on_disk.map_or(Precondition::None, |loaded| Precondition::AsLoaded(loaded.stamp));
            let request = MoveFile { from: path.clone(), to: aside.clone(), only_if };
            self.deps.client.move_file(&self.cx, request).await?;
            hashes = (before, None);
            self.done.push(Done::Aside { path, aside });
        }
        if let Some(Moving { from, to, .. }) = step.move_to {
            let folders = self.missing_folders(&to);
            let only_if = hashes.1.clone().map_or(Precondition::None, Precondition::Content);
            let request = MoveFile { from: from.clone(), to: to.clone(), only_if };
            self.deps.client.move_file(&self.cx, request).await?;
            committed.files.push(FileChange { path: from.shown(), before: hashes.0, after: None });
            committed.files.push(FileChange { path: to.shown(), before: None, after: hashes.1 });
            self.done.push(Done::Moved { from, to, folders });
        } else if !matches!(change.deed, Deed::Nothing(_)) {
            committed.files.push(FileChange { path: path.shown(), before: hashes.0, after: hashes.1 });
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

/// What went wrong with a file. Of one that may have been changed its own words say how it stands.
pub(super) fn failure(path: &WorkspacePath, fault: &ToolError) -> String {
    if fault.meta().may_have_run {
        return fault.text().to_owned();
    }
    format!("{} could not be changed: {}", path.shown(), fault.text())
}

/// A name beside a file that nobody can foresee.
fn aside(deps: &FileDeps, path: &WorkspacePath) -> Result<WorkspacePath, ToolError> {
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
