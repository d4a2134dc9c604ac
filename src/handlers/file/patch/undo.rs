//! Taking back what a patch has changed, the last first, where one of its files cannot be changed. Not here: changing
//! them (commit).

use super::commit::{Commit, failure, unchanged};
use crate::acp::WorkspacePath;
use crate::acp::files::{LoadedFile, MoveFile, NewContent, Precondition, RemoveFile, WriteTextFile};
use crate::tool::{ErrorCode, FileChange, Meta, ToolError};

/// The way back from one step.
pub(super) enum Undo {
    /// The file's content was replaced; it had these bytes and this right to be executed.
    WriteBack { path: WorkspacePath, before: LoadedFile, executable: Option<bool>, after: String },
    /// It was made.
    Remove { path: WorkspacePath, after: String },
    /// It got another path, and these folders were made for that; or another name until it is removed.
    RenameBack { from: WorkspacePath, to: WorkspacePath, folders: Vec<WorkspacePath>, is_removal: bool },
}

impl Commit {
    /// Takes everything back, the last first, and says how that went.
    pub(super) async fn undo(mut self, path: &WorkspacePath, fault: &ToolError) -> ToolError {
        let count = self.undos.len();
        let (mut left, mut files) = (Vec::new(), Vec::new());
        let mut meta = fault.meta().clone();
        while let Some(undo) = self.undos.pop() {
            let (shown, what, change) = undo.describe_step();
            if let Err(fault) = self.undo_step(undo).await {
                left.push(format!("{shown} {what} and stays so: {}", fault.text()));
                files.push(change);
                meta.may_have_run |= fault.meta().may_have_run;
            }
        }
        let folders = std::mem::take(&mut self.folders);
        if let Err(fault) = self.remove_folders(folders).await {
            tracing::debug!(%fault, "a folder that was made for a patch stays");
        }
        if left.is_empty() && count == 0 {
            return unchanged(path, fault);
        }
        let head = failure(path, fault);
        if left.is_empty() {
            let back = if meta.may_have_run {
                "Every file that was changed before it was put back; of it itself this is not known."
            } else {
                "What was changed before it was put back: no file is changed."
            };
            return ToolError::new(fault.code(), format!("{head}\n{back}")).with_meta(meta);
        }
        let text = format!(
            "{head}\nThe patch is applied in part, because not everything could be put back:\n{}\nAll else was put \
             back. Read these files, then decide.",
            left.join("\n")
        );
        ToolError::new(ErrorCode::Io, text).with_meta(Meta { files, ..meta })
    }

    async fn undo_step(&self, undo: Undo) -> Result<(), ToolError> {
        let client = &self.deps.client;
        match undo {
            Undo::WriteBack { path, before, executable, after } => {
                let request = WriteTextFile {
                    path,
                    content: NewContent::Spliced { old: before.bytes, splices: Vec::new() },
                    // What somebody else wrote since is not ours to replace.
                    only_if: Precondition::Content(after),
                    create_folders: false,
                    executable,
                };
                client.write_text_file(&self.cx, request).await.map(|_| ())
            }
            Undo::Remove { path, after } => {
                let request = RemoveFile { path, only_if: Precondition::Content(after) };
                client.remove_file(&self.cx, request).await
            }
            Undo::RenameBack { from, to, folders, .. } => {
                let request = MoveFile { from: to, to: from, only_if: Precondition::None };
                client.move_file(&self.cx, request).await?;
                self.remove_folders(folders).await
            }
        }
    }

    pub(super) async fn remove_folders(&self, folders: Vec<WorkspacePath>) -> Result<(), ToolError> {
        for folder in folders {
            // One that somebody else has put something into stays, and so do those around it.
            match self.deps.client.remove_empty_folder(&self.cx, folder).await {
                Err(fault) if fault.code() != ErrorCode::NotFound => return Err(fault),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Undo {
    /// Describes the step: the file, its change in words, and its state now.
    fn describe_step(&self) -> (String, String, FileChange) {
        let change = |path: &WorkspacePath, before, after| FileChange { path: path.shown(), before, after };
        match self {
            Self::WriteBack { path, before, after, .. } => {
                let change = change(path, Some(before.sha256()), Some(after.clone()));
                (path.shown(), "was changed".to_owned(), change)
            }
            Self::Remove { path, after } => {
                (path.shown(), "was made".to_owned(), change(path, None, Some(after.clone())))
            }
            Self::RenameBack { from, to, is_removal: true, .. } => {
                (from.shown(), format!("was renamed to {}", to.shown()), change(from, None, None))
            }
            Self::RenameBack { from, to, .. } => {
                (from.shown(), format!("was moved to {}", to.shown()), change(to, None, None))
            }
        }
    }
}
