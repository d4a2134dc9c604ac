//! Taking back what a patch has changed, the last first, where one of its files cannot be changed. Not here: changing
//! them (commit).

use super::commit::{Writing, failure, unchanged};
use crate::acp::WorkspacePath;
use crate::acp::files::{LoadedFile, MoveFile, NewContent, Precondition, RemoveFile, WriteTextFile};
use crate::tool::{ErrorCode, FileChange, Meta, ToolError};

/// What was done, so that it can be undone.
pub(super) enum Done {
    /// The file's content was replaced; it had these bytes and this right to be run.
    Written { path: WorkspacePath, before: LoadedFile, executable: Option<bool>, after: String },
    /// It was made.
    Made { path: WorkspacePath, after: String },
    /// It got another path, and these folders were made for that.
    Moved { from: WorkspacePath, to: WorkspacePath, folders: Vec<WorkspacePath> },
    /// It shall go, and has another name until everything else is done.
    Aside { path: WorkspacePath, aside: WorkspacePath },
}

impl Writing {
    /// Takes everything back, the last first, and says how that went.
    pub(super) async fn undo(mut self, path: &WorkspacePath, fault: &ToolError) -> ToolError {
        let count = self.done.len();
        let (mut left, mut files) = (Vec::new(), Vec::new());
        let mut meta = fault.meta().clone();
        while let Some(done) = self.done.pop() {
            let (shown, what, change) = done.told();
            if let Err(fault) = self.undo_one(done).await {
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
            Done::Made { path, after } => {
                let request = RemoveFile { path, only_if: Precondition::Content(after) };
                self.deps.client.remove_file(&self.cx, request).await
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
