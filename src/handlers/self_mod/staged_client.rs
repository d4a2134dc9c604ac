//! The file client of agents that modify the program they belong to: below the root they see staged files, and their
//! writes are staged. All other calls and paths go to the client below.

use std::sync::Arc;

use super::current_file::{FilePlace, open_current_file, removed_error, store_current_file};
use super::self_mod_area::{SelfModArea, StagingSession, run_blocking};
use super::staged_listing::list_viewed_folder;
use super::staged_write::{ScratchFile, StagedWrite, stage_states};
use punie_host::files::{
    FolderListing, ListFolder, LoadedFile, MoveFile, OpenedFile, ReadTextFile, RemoveFile,
    TextWindow, WritePrecondition, WriteReport, WriteTextFile,
};
use punie_host::local::local_files::LocalFiles;
use punie_host::prepared_write::PreparedWrite;
use punie_host::{FileClient, ToolFuture, WorkspacePath};
use punie_tool::{ErrorCode, ToolContext, ToolError};

/// Staged files before the files of another client.
pub struct StagedFileClient {
    inner: Arc<dyn FileClient>,
    local: LocalFiles,
    area: Arc<SelfModArea>,
}

/// A path below the root, in a call whose changes are staged.
struct StagedPlace {
    session: StagingSession,
    rel: String,
}

impl StagedFileClient {
    /// Puts the staged files before this client.
    pub fn new(inner: Arc<dyn FileClient>, area: Arc<SelfModArea>) -> Self {
        Self {
            inner,
            local: LocalFiles::new(),
            area,
        }
    }

    /// Returns the staging of a path; `None` if the call works on the real file.
    async fn find_staging(
        &self,
        cx: &ToolContext,
        path: &WorkspacePath,
    ) -> Result<Option<StagedPlace>, ToolError> {
        if !path.absolute_path().starts_with(&self.area.root) {
            return Ok(None);
        }
        let Some(session) = self.area.find_session(cx).await? else {
            return Ok(None);
        };
        match self.area.relative_path(path) {
            Some(rel) => Ok(Some(StagedPlace { session, rel })),
            None if path.absolute_path() == self.area.root => Ok(None),
            None => Err(ToolError::invalid_args(format!(
                "{} is no UTF-8 text; files of such names cannot be staged.",
                path.display_text()
            ))),
        }
    }

    /// Returns the staging of a path that a call changes.
    async fn find_staging_to_change(
        &self,
        cx: &ToolContext,
        path: &WorkspacePath,
    ) -> Result<Option<StagedPlace>, ToolError> {
        if path.leads_out_of(&self.area.root) && self.area.find_session(cx).await?.is_some() {
            let text = format!(
                "A symlink below {} leads to {}. Changes are staged below that folder only, and not written through a \
                 link. Name the file itself.",
                self.area.root.display(),
                path.display_text()
            );
            return Err(ToolError::new(ErrorCode::PolicyDenied, text));
        }
        let staging = self.find_staging(cx, path).await?;
        if staging.is_some() {
            path.check_writable()?;
        }
        Ok(staging)
    }

    /// Returns the path to read for this call: the real one, or that of a stored content.
    async fn path_to_read(
        &self,
        cx: &ToolContext,
        path: &WorkspacePath,
    ) -> Result<Option<WorkspacePath>, ToolError> {
        let Some(staging) = self.find_staging(cx, path).await? else {
            return Ok(None);
        };
        match staging.session.place_of(&staging.rel) {
            FilePlace::Real => {
                let view = staging.session.to_view(&self.area);
                if !path.existed_when_resolved() && view.has_files_below(path.absolute_path()) {
                    let text = format!("{} is a folder, not a file.", path.display_text());
                    return Err(ToolError::new(ErrorCode::IsDirectory, text));
                }
                // Not the text that an editor has not saved yet: changes are staged from the disk.
                Ok(Some(path.clone()))
            }
            FilePlace::Staged(state) => self.area.content_path(&state, path).map(Some),
            FilePlace::Removed => Err(removed_error(path)),
        }
    }

    /// Prepares a write on a copy of the file that the call sees.
    async fn prepare_write(
        &self,
        cx: &ToolContext,
        request: WriteTextFile,
        staging: StagedPlace,
    ) -> Result<Box<dyn PreparedWrite>, ToolError> {
        let StagedPlace { session, rel } = staging;
        let path = request.path.clone();
        session.check_place_for_file(&self.area, &path, &rel)?;
        let place = session.place_of(&rel);
        let current = open_current_file(&self.area, &self.local, cx, &path, &place).await?;
        if path.names_folder() || current.is_none() && self.lacks_folder(&session, &request) {
            // The real folders decide; this client has the text of the refusal.
            drop(self.inner.prepare_file(cx, request.clone()).await?);
        }
        let is_as_loaded = matches!((&request.only_if, &current),
            (WritePrecondition::AsLoaded(stamp), Some(file)) if file.opened.stamp == *stamp);
        let is_staged = !matches!(place, FilePlace::Real);
        let area = Arc::clone(&self.area);
        let shown = path.clone();
        let (scratch, base) = run_blocking(move || {
            let scratch = ScratchFile::create(&area, &shown)?;
            let Some(mut file) = current else {
                return Ok((scratch, None));
            };
            let state = scratch
                .fill_copy(&mut file.opened.bytes, file.mode)
                .map_err(|cause| ToolError::from_io(shown.display_text(), &cause))?;
            Ok((scratch, (!file.is_staged).then_some(state)))
        })
        .await?;
        let mut on_copy = WriteTextFile {
            path: scratch.path.clone(),
            create_folders: false,
            ..request
        };
        if is_as_loaded {
            let copy = self.local.open_file(cx, scratch.path.clone()).await?;
            on_copy.only_if = WritePrecondition::AsLoaded(copy.stamp);
        }
        let write = self.local.prepare_file(cx, on_copy).await?;
        Ok(Box::new(StagedWrite {
            write,
            scratch,
            feature: session.feature,
            request: cx.request.as_str().to_owned(),
            rel,
            base,
            is_staged,
        }))
    }

    /// Returns whether a new file would need a folder that neither the disk nor the staged files have.
    fn lacks_folder(&self, session: &StagingSession, request: &WriteTextFile) -> bool {
        let parent = request.path.absolute_path().parent();
        let is_staged =
            parent.is_some_and(|parent| session.to_view(&self.area).has_files_below(parent));
        !request.create_folders && !is_staged && request.path.open_parent_folder(false).is_err()
    }

    async fn remove(
        &self,
        cx: &ToolContext,
        request: RemoveFile,
        staging: StagedPlace,
    ) -> Result<(), ToolError> {
        let StagedPlace { session, rel } = staging;
        let place = session.place_of(&rel);
        let current = open_current_file(&self.area, &self.local, cx, &request.path, &place).await?;
        let state =
            store_current_file(&self.area, current, &request.path, &request.only_if).await?;
        let area = Arc::clone(&self.area);
        let id = cx.request.clone();
        run_blocking(move || {
            let states = vec![(rel, Some(state), None)];
            stage_states(&area, &session.feature, id.as_str(), states)
        })
        .await
    }

    async fn move_staged(
        &self,
        cx: &ToolContext,
        request: MoveFile,
        staging: StagedPlace,
        to: String,
    ) -> Result<(), ToolError> {
        let StagedPlace { session, rel } = staging;
        session.check_place_for_file(&self.area, &request.to, &to)?;
        let to_place = session.place_of(&to);
        let open = |path, place| open_current_file(&self.area, &self.local, cx, path, place);
        if open(&request.to, &to_place).await?.is_some() {
            let text = format!("{} exists already.", request.to.display_text());
            return Err(ToolError::new(ErrorCode::Stale, text));
        }
        let current = open(&request.from, &session.place_of(&rel)).await?;
        let state =
            store_current_file(&self.area, current, &request.from, &request.only_if).await?;
        let area = Arc::clone(&self.area);
        let id = cx.request.clone();
        run_blocking(move || {
            let states = vec![(rel, Some(state.clone()), None), (to, None, Some(state))];
            stage_states(&area, &session.feature, id.as_str(), states)
        })
        .await
    }
}

impl FileClient for StagedFileClient {
    fn find_for_call<'a>(
        &'a self,
        cx: &'a ToolContext,
        path: WorkspacePath,
    ) -> ToolFuture<'a, WorkspacePath> {
        Box::pin(async move {
            let Some(staging) = self.find_staging(cx, &path).await? else {
                return self.inner.find_for_call(cx, path).await;
            };
            let exists = match staging.session.place_of(&staging.rel) {
                FilePlace::Real => path.existed_when_resolved(),
                FilePlace::Staged(_) => true,
                FilePlace::Removed => false,
            };
            Ok(path.as_staged(exists))
        })
    }

    fn read_text_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        mut request: ReadTextFile,
    ) -> ToolFuture<'a, TextWindow> {
        Box::pin(async move {
            match self.path_to_read(cx, &request.path).await? {
                None => self.inner.read_text_file(cx, request).await,
                Some(content) => {
                    request.path = content;
                    self.local.read_text_file(cx, request).await
                }
            }
        })
    }

    fn write_text_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: WriteTextFile,
    ) -> ToolFuture<'a, WriteReport> {
        Box::pin(async move {
            let Some(staging) = self.find_staging_to_change(cx, &request.path).await? else {
                return self.inner.write_text_file(cx, request).await;
            };
            let mut write = self.prepare_write(cx, request, staging).await?;
            run_blocking(move || {
                write.stage_content()?;
                write.place_content()
            })
            .await
        })
    }

    fn prepare_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: WriteTextFile,
    ) -> ToolFuture<'a, Box<dyn PreparedWrite>> {
        Box::pin(async move {
            match self.find_staging_to_change(cx, &request.path).await? {
                None => self.inner.prepare_file(cx, request).await,
                Some(staging) => self.prepare_write(cx, request, staging).await,
            }
        })
    }

    fn load_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        path: WorkspacePath,
        max_bytes: u64,
    ) -> ToolFuture<'a, LoadedFile> {
        Box::pin(async move {
            match self.path_to_read(cx, &path).await? {
                None => self.inner.load_file(cx, path, max_bytes).await,
                Some(content) => self.local.load_file(cx, content, max_bytes).await,
            }
        })
    }

    fn open_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        path: WorkspacePath,
    ) -> ToolFuture<'a, OpenedFile> {
        Box::pin(async move {
            match self.path_to_read(cx, &path).await? {
                None => self.inner.open_file(cx, path).await,
                Some(content) => self.local.open_file(cx, content).await,
            }
        })
    }

    fn remove_file<'a>(&'a self, cx: &'a ToolContext, request: RemoveFile) -> ToolFuture<'a, ()> {
        Box::pin(async move {
            match self.find_staging_to_change(cx, &request.path).await? {
                None => self.inner.remove_file(cx, request).await,
                Some(staging) => self.remove(cx, request, staging).await,
            }
        })
    }

    fn move_file<'a>(&'a self, cx: &'a ToolContext, request: MoveFile) -> ToolFuture<'a, ()> {
        Box::pin(async move {
            let from = self.find_staging_to_change(cx, &request.from).await?;
            let to = self.find_staging_to_change(cx, &request.to).await?;
            match (from, to) {
                (None, None) => self.inner.move_file(cx, request).await,
                (Some(from), Some(to)) => self.move_staged(cx, request, from, to.rel).await,
                _ => Err(ToolError::invalid_args(format!(
                    "Only one of {} and {} lies below {}, whose changes are staged. A move across it is not possible: \
                     write one file and remove the other.",
                    request.from.display_text(),
                    request.to.display_text(),
                    self.area.root.display()
                ))),
            }
        })
    }

    fn remove_empty_folder<'a>(
        &'a self,
        cx: &'a ToolContext,
        path: WorkspacePath,
    ) -> ToolFuture<'a, bool> {
        Box::pin(async move {
            match self.find_staging_to_change(cx, &path).await? {
                None => self.inner.remove_empty_folder(cx, path).await,
                // Staging creates no folders.
                Some(_) => Ok(path.file_metadata().is_err()),
            }
        })
    }

    fn list_folder<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: ListFolder,
    ) -> ToolFuture<'a, FolderListing> {
        Box::pin(async move {
            let folder = request.path.absolute_path();
            let root = &self.area.root;
            if !folder.starts_with(root) && !root.starts_with(folder) {
                return self.inner.list_folder(cx, request).await;
            }
            let view = match self.area.find_session(cx).await? {
                Some(session) => session.to_view(&self.area),
                None => return self.inner.list_folder(cx, request).await,
            };
            list_viewed_folder(&*self.inner, cx, request, &view).await
        })
    }
}
