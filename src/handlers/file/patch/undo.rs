//! Undoes the changes of a patch, the last first, if one of its files cannot be changed.

use super::commit_state::{PatchCommit, PatchUndo, describe_file_fault, unchanged_fault};
use punie_host::WorkspacePath;
use punie_host::files::{MoveFile, NewContent, RemoveFile, WritePrecondition, WriteTextFile};
use punie_tool::{ErrorCode, FileChange, ResultMeta, ToolError};

impl PatchCommit {
    /// Undoes every step, the last first, and reports the outcome.
    pub(super) async fn undo_all(mut self, path: &WorkspacePath, fault: &ToolError) -> ToolError {
        let count = self.undos.len();
        let mut left = Vec::new();
        let mut files = Vec::new();
        let mut meta = fault.error_meta().clone();
        while let Some(undo) = self.undos.pop() {
            let (shown, what, change) = undo.describe_step();
            if let Err(fault) = self.undo_step(undo).await {
                left.push(format!(
                    "{shown} {what} and stays so: {}",
                    fault.model_text()
                ));
                files.push(change);
                meta.may_have_run |= fault.error_meta().may_have_run;
            }
        }
        let folders = std::mem::take(&mut self.folders);
        if let Err(fault) = self.remove_folders(folders).await {
            tracing::debug!(%fault, "a folder that was made for a patch stays");
        }
        if left.is_empty() && count == 0 {
            return unchanged_fault(path, fault);
        }
        let head = describe_file_fault(path, fault);
        if left.is_empty() {
            let back = if meta.may_have_run {
                "Every file that was changed before it was put back; of it itself this is not known."
            } else {
                "What was changed before it was put back: no file is changed."
            };
            return ToolError::new(fault.stable_code(), format!("{head}\n{back}")).with_meta(meta);
        }
        let text = format!(
            "{head}\nThe patch is applied in part, because not everything could be put back:\n{}\nAll else was put \
             back. Read these files, then decide.",
            left.join("\n")
        );
        ToolError::new(ErrorCode::Io, text).with_meta(ResultMeta { files, ..meta })
    }

    async fn undo_step(&self, undo: PatchUndo) -> Result<(), ToolError> {
        let client = &self.deps.client;
        match undo {
            PatchUndo::WriteBack {
                path,
                before,
                executable,
                after,
            } => {
                let request = WriteTextFile {
                    path,
                    content: NewContent::Spliced {
                        old: before.bytes,
                        splices: Vec::new(),
                    },
                    // A later change by another writer must not be replaced.
                    only_if: WritePrecondition::Content(after),
                    create_folders: false,
                    executable,
                };
                client.write_text_file(&self.cx, request).await.map(|_| ())
            }
            PatchUndo::Remove { path, after } => {
                let request = RemoveFile {
                    path,
                    only_if: WritePrecondition::Content(after),
                };
                client.remove_file(&self.cx, request).await
            }
            PatchUndo::RenameBack {
                from, to, folders, ..
            } => {
                let request = MoveFile {
                    from: to,
                    to: from,
                    only_if: WritePrecondition::None,
                };
                client.move_file(&self.cx, request).await?;
                self.remove_folders(folders).await
            }
        }
    }

    pub(super) async fn remove_folders(
        &self,
        folders: Vec<WorkspacePath>,
    ) -> Result<(), ToolError> {
        for folder in folders {
            // A folder that another writer has put a file into remains, and so do its parents.
            match self.deps.client.remove_empty_folder(&self.cx, folder).await {
                Err(fault) if fault.stable_code() != ErrorCode::NotFound => return Err(fault),
                _ => {}
            }
        }
        Ok(())
    }
}

impl PatchUndo {
    /// Describes the step: the file, its change in words, and its state now.
    fn describe_step(&self) -> (String, String, FileChange) {
        let change = |path: &WorkspacePath, before, after| FileChange {
            path: path.display_text(),
            before,
            after,
        };
        match self {
            Self::WriteBack {
                path,
                before,
                after,
                ..
            } => {
                let change = change(path, Some(before.bytes_sha256()), Some(after.clone()));
                (path.display_text(), "was changed".to_owned(), change)
            }
            Self::Remove { path, after } => (
                path.display_text(),
                "was made".to_owned(),
                change(path, None, Some(after.clone())),
            ),
            Self::RenameBack {
                from,
                to,
                is_removal: true,
                ..
            } => (
                from.display_text(),
                format!("was renamed to {}", to.display_text()),
                change(from, None, None),
            ),
            Self::RenameBack { from, to, .. } => (
                from.display_text(),
                format!("was moved to {}", to.display_text()),
                change(to, None, None),
            ),
        }
    }
}
