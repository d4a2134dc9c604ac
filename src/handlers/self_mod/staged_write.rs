//! A write to a staged file: made on a copy by this machine's own file client, then stored by its hash.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::current_file::set_permission_bits;
use super::pending_changes::finish_pending;
use super::self_mod_area::{SelfModArea, content_error, state_error};
use punie_core::content_hash::copy_hashed;
use punie_core::failpoint::reach_of;
use punie_core::file_metadata::permission_bits;
use punie_home::FileState;
use punie_host::WorkspacePath;
use punie_host::files::{STAGED_WARNING, WriteReport};
use punie_host::prepared_write::PreparedWrite;
use punie_tool::{CallIntent, ToolError};

/// The copy on which a write is made. Its folder goes when it is dropped.
#[derive(Debug)]
pub(super) struct ScratchFile {
    area: Arc<SelfModArea>,
    folder: PathBuf,
    /// The path of the copy, which texts show as the real path.
    pub(super) path: WorkspacePath,
}

impl ScratchFile {
    /// Makes a folder for the copy of this file.
    pub(super) fn create(
        area: &Arc<SelfModArea>,
        shown: &WorkspacePath,
    ) -> Result<Self, ToolError> {
        let name = shown.absolute_path().file_name().unwrap_or_default();
        let folder = area
            .store
            .create_scratch_folder()
            .map_err(|cause| ToolError::from_io(shown.display_text(), &cause))?;
        let inside = area.scratch.first_root().join(
            folder
                .strip_prefix(area.store.scratch_dir())
                .unwrap_or(Path::new("")),
        );
        let path = area
            .scratch
            .path_if_inside(&inside.join(name))
            .ok_or_else(|| ToolError::internal("A scratch file has no path."))?;
        Ok(Self {
            area: Arc::clone(area),
            folder,
            path: path.shown_as(shown),
        })
    }

    /// Writes the copy, and returns the state of the copied file.
    pub(super) fn fill_copy(
        &self,
        from: &mut dyn Read,
        mode: Option<u32>,
    ) -> io::Result<FileState> {
        let (folder, name) = self.path.open_parent_folder(false)?;
        let mut file = folder.create_new_file(&name, 0o600)?;
        let (sha256, size) = copy_hashed(from, &mut file)?;
        set_permission_bits(&file, mode)?;
        Ok(FileState { sha256, size, mode })
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        self.area.store.remove_scratch_folder(&self.folder);
    }
}

/// A write on a copy that becomes the staged file.
pub(super) struct StagedWrite {
    /// The write on the copy.
    pub(super) write: Box<dyn PreparedWrite>,
    pub(super) scratch: ScratchFile,
    pub(super) feature: String,
    pub(super) request: String,
    /// The path below the root.
    pub(super) rel: String,
    /// The real file, if the path was not staged before.
    pub(super) base: Option<FileState>,
    /// True if the path was staged before.
    pub(super) is_staged: bool,
}

impl PreparedWrite for StagedWrite {
    /// Declares nothing: no file of a workspace changes, and an attempt that a crash cuts off is taken back.
    fn next_intent(&self) -> Option<CallIntent> {
        None
    }

    fn stage_content(&mut self) -> Result<(), ToolError> {
        self.write.stage_content()
    }

    fn place_content(self: Box<Self>) -> Result<WriteReport, ToolError> {
        let Self {
            write,
            scratch,
            feature,
            request,
            rel,
            base,
            is_staged,
        } = *self;
        let mut report = write.place_content()?;
        if report.unchanged && !is_staged {
            return Ok(report);
        }
        let area = &scratch.area;
        let file = scratch
            .path
            .open_for_reading()
            .map_err(content_error(&rel))?;
        let metadata = file.metadata().map_err(content_error(&rel))?;
        let (sha256, size) = area
            .store
            .store_content(file)
            .map_err(content_error(&rel))?;
        let content = FileState {
            sha256,
            size,
            mode: permission_bits(&metadata),
        };
        stage_states(area, &feature, &request, vec![(rel, base, Some(content))])?;
        report.warnings.push(STAGED_WARNING.to_owned());
        Ok(report)
    }
}

/// Stages files, each with its real state for the case that it was not staged before. `None` is a removed file. Blocks.
pub(super) fn stage_states(
    area: &SelfModArea,
    feature: &str,
    request: &str,
    states: Vec<(String, Option<FileState>, Option<FileState>)>,
) -> Result<(), ToolError> {
    let lock = area.lock_state()?;
    // A change whose record is not written yet would clear these files too.
    finish_pending(area, &lock)?;
    let mut staged = area.store.read_staged(feature).map_err(state_error)?;
    staged.drop_unchanged(request);
    for (rel, base, content) in states {
        staged.stage_file(&rel, base, content, request);
    }
    area.store
        .write_staged(&lock, feature, &staged)
        .map_err(state_error)?;
    reach_of("selfmod.written", request);
    Ok(())
}
