//! Carrying out a planned patch: one file after the other, and all of it back if one fails. Not here: what is written
//! (plan), and how one file is written (the client).

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::plan::{Change, Deed};
use super::rewrite::Edit;
use crate::acp::files::{LoadedFile, MoveFile, NewContent, Precondition, RemoveFile, Splice, WriteTextFile};
use crate::acp::{RawPath, WorkspacePath};
use crate::handlers::file::FileDeps;
use crate::ids::hex;
use crate::tool::{ErrorCode, FileChange, Meta, ToolCx, ToolError};

/// What was done, so that it can be undone.
enum Done {
    /// The file's content was replaced; it had these bytes and this right to be run.
    Written { path: WorkspacePath, before: LoadedFile, executable: Option<bool>, after: String },
    /// It was made, and these folders for it, inner ones first.
    Made { path: WorkspacePath, after: String, folders: Vec<WorkspacePath> },
    /// It got another path, and these folders were made for that.
    Moved { from: WorkspacePath, to: WorkspacePath, folders: Vec<WorkspacePath> },
    /// It shall go, and has another name until everything else is done.
    Aside { path: WorkspacePath, aside: WorkspacePath },
}

/// What became of a patch.
pub(crate) struct Committed {
    /// Each changed file with its hashes.
    pub files: Vec<FileChange>,
    /// What was done that the patch did not ask for.
    pub warnings: Vec<String>,
}

/// Writes everything. Once the first file is written the call's cancel is not looked at any more: the patch is
/// finished, or taken back.
///
/// # Errors
/// Why a write failed, and that everything was taken back; or, file by file, what could not be.
pub(crate) async fn commit(
    cx: &ToolCx,
    deps: &FileDeps,
    changes: Arc<Vec<Change>>,
) -> Result<Committed, ToolError> {
    let steady = ToolCx { cancel: CancellationToken::new(), ..cx.clone() };
    let (deps, cancel) = (deps.clone(), cx.cancel.clone());
    let runtime = tokio::runtime::Handle::current();
    // On a thread of its own, so that it goes on even when nobody waits for the call any more.
    let work = move || {
        if cancel.is_cancelled() {
            return Err(ToolError::cancelled("The call was cancelled before anything was changed."));
        }
        runtime.block_on(Writing { cx: steady, deps, done: Vec::new() }.all(&changes))
    };
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|fault| ToolError::internal(format!("The writing broke off: {fault}")))?
}

struct Writing {
    cx: ToolCx,
    deps: FileDeps,
    done: Vec<Done>,
}

impl Writing {
    async fn all(mut self, changes: &[Change]) -> Result<Committed, ToolError> {
        let mut committed = Committed { files: Vec::new(), warnings: Vec::new() };
        for change in changes {
            if let Err(fault) = self.one(change, &mut committed).await {
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

    async fn one(&mut self, change: &Change, committed: &mut Committed) -> Result<(), ToolError> {
        let path = &change.path;
        match &change.deed {
            Deed::Nothing(_) => Ok(()),
            Deed::Add { content, executable } => {
                let folders = self.missing_folders(path);
                let request = WriteTextFile {
                    path: path.clone(),
                    content: NewContent::Text(content.clone()),
                    only_if: Precondition::Absent,
                    create_folders: true,
                    executable: *executable,
                };
                let written = self.deps.client.write_text_file(&self.cx, request).await?;
                committed.warnings.extend(written.warnings);
                let after = written.after;
                self.done.push(Done::Made { path: path.clone(), after: after.clone(), folders });
                committed.files.push(FileChange { path: path.shown(), before: None, after: Some(after) });
                Ok(())
            }
            Deed::Delete => {
                let aside = self.aside(path)?;
                let only_if = change
                    .loaded
                    .as_ref()
                    .map_or(Precondition::None, |loaded| Precondition::AsLoaded(loaded.stamp));
                let request = MoveFile { from: path.clone(), to: aside.clone(), only_if };
                self.deps.client.move_file(&self.cx, request).await?;
                self.done.push(Done::Aside { path: path.clone(), aside });
                let before = change.loaded.as_ref().map(LoadedFile::sha256);
                committed.files.push(FileChange { path: path.shown(), before, after: None });
                Ok(())
            }
            Deed::Update { edit, executable, move_to } => {
                let mut hashes = (None, None);
                if let Some(loaded) =
                    change.loaded.as_ref().filter(|_| !edit.splices.is_empty() || executable.is_some())
                {
                    hashes = self.write(path, loaded, edit, *executable, committed).await?;
                } else if let Some(loaded) = &change.loaded {
                    hashes = (Some(loaded.sha256()), Some(loaded.sha256()));
                }
                let Some(to) = move_to else {
                    committed.files.push(FileChange {
                        path: path.shown(),
                        before: hashes.0,
                        after: hashes.1,
                    });
                    return Ok(());
                };
                let folders = self.missing_folders(to);
                let only_if = hashes.1.clone().map_or(Precondition::None, Precondition::Content);
                let request = MoveFile { from: path.clone(), to: to.clone(), only_if };
                self.deps.client.move_file(&self.cx, request).await?;
                self.done.push(Done::Moved { from: path.clone(), to: to.clone(), folders });
                committed.files.push(FileChange { path: path.shown(), before: hashes.0, after: None });
                committed.files.push(FileChange { path: to.shown(), before: None, after: hashes.1 });
                Ok(())
            }
        }
    }

    /// A file's new content; its hashes before and after.
    async fn write(
        &mut self,
        path: &WorkspacePath,
        loaded: &LoadedFile,
        edit: &Edit,
        executable: Option<bool>,
        committed: &mut Committed,
    ) -> Result<(Option<String>, Option<String>), ToolError> {
        let splices = match &edit.encoded {
            Some(encoded) => vec![Splice { range: 0..loaded.bytes.len(), with: encoded.clone() }],
            None => edit.splices.clone(),
        };
        let was_executable = executable.and_then(|_| is_executable(path));
        let request = WriteTextFile {
            path: path.clone(),
            content: NewContent::Spliced { old: Arc::clone(&loaded.bytes), splices },
            only_if: Precondition::AsLoaded(loaded.stamp),
            create_folders: false,
            executable,
        };
        let written = self.deps.client.write_text_file(&self.cx, request).await?;
        committed.warnings.extend(written.warnings);
        self.done.push(Done::Written {
            path: path.clone(),
            before: loaded.clone(),
            executable: was_executable,
            after: written.after.clone(),
        });
        Ok((written.before, Some(written.after)))
    }

    /// Takes everything back, the last first, and says how that went.
    async fn undo(mut self, path: &WorkspacePath, fault: &ToolError) -> ToolError {
        let count = self.done.len();
        let mut left = Vec::new();
        let mut files = Vec::new();
        while let Some(done) = self.done.pop() {
            let (shown, what, change) = done.told();
            if let Err(fault) = self.undo_one(done).await {
                left.push(format!("{shown} {what} and stays so: {}", fault.text()));
                files.push(change);
            }
        }
        let head = format!("{} could not be changed: {}", path.shown(), fault.text());
        if left.is_empty() {
            let back = if count == 0 {
                "No file was changed before it."
            } else {
                "What was changed before it was put back: no file is changed."
            };
            return ToolError::new(fault.code(), format!("{head}\n{back}"));
        }
        let text = format!(
            "{head}\nThe patch is applied in part, because not everything could be put back:\n{}\nAll else was put \
             back. Read these files, then decide.",
            left.join("\n")
        );
        ToolError::new(ErrorCode::Io, text).with_meta(Meta { files, ..Meta::default() })
    }

    async fn undo_one(&self, done: Done) -> Result<(), ToolError> {
        match done {
            Done::Written { path, before, executable, after } => {
                let request = WriteTextFile {
                    path,
                    content: NewContent::Spliced { old: before.bytes, splices: Vec::new() },
                    // What somebody else wrote since is not ours to replace.
                    only_if: Precondition::Content(after),
                    create_folders: false,
                    executable,
                };
                self.deps.client.write_text_file(&self.cx, request).await.map(|_| ())
            }
            Done::Made { path, after, folders } => {
                let request = RemoveFile { path, only_if: Precondition::Content(after) };
                self.deps.client.remove_file(&self.cx, request).await?;
                self.remove_folders(folders).await
            }
            Done::Moved { from, to, folders } => {
                let request = MoveFile { from: to, to: from, only_if: Precondition::None };
                self.deps.client.move_file(&self.cx, request).await?;
                self.remove_folders(folders).await
            }
            Done::Aside { path, aside } => {
                let request = MoveFile { from: aside, to: path, only_if: Precondition::None };
                self.deps.client.move_file(&self.cx, request).await
            }
        }
    }

    async fn remove_folders(&self, folders: Vec<WorkspacePath>) -> Result<(), ToolError> {
        for folder in folders {
            // One that somebody else has put something into stays.
            if !self.deps.client.remove_empty_folder(&self.cx, folder).await? {
                break;
            }
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

    /// A name beside a file that nobody can foresee.
    fn aside(&self, path: &WorkspacePath) -> Result<WorkspacePath, ToolError> {
        let mut random = [0_u8; 8];
        getrandom::fill(&mut random)
            .map_err(|cause| ToolError::internal(format!("No random bytes: {cause}")))?;
        let name = path.absolute().file_name().unwrap_or_default().to_string_lossy();
        let stem: String = name.chars().take(40).collect();
        let aside = path.absolute().with_file_name(format!(".{stem}.{}.tmp", hex(&random)));
        let aside = aside.to_str().ok_or_else(|| {
            ToolError::new(
                ErrorCode::Io,
                format!("{}: a folder's name is not UTF-8. Remove it with Bash.", path.shown()),
            )
        })?;
        self.deps.workspace.resolve(&RawPath::from(aside))
    }
}

impl Done {
    /// The file, what was done to it, and its state now.
    fn told(&self) -> (String, String, FileChange) {
        match self {
            Self::Written { path, before, after, .. } => {
                let change = FileChange {
                    path: path.shown(),
                    before: Some(before.sha256()),
                    after: Some(after.clone()),
                };
                (path.shown(), "was changed".to_owned(), change)
            }
            Self::Made { path, after, .. } => {
                let change = FileChange { path: path.shown(), before: None, after: Some(after.clone()) };
                (path.shown(), "was made".to_owned(), change)
            }
            Self::Moved { from, to, .. } => {
                let change = FileChange { path: to.shown(), before: None, after: None };
                (from.shown(), format!("was moved to {}", to.shown()), change)
            }
            Self::Aside { path, aside } => {
                let change = FileChange { path: path.shown(), before: None, after: None };
                (path.shown(), format!("was renamed to {}", aside.shown()), change)
            }
        }
    }
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
