//! A file as a call of self-modification sees it now: staged, removed or real.

use std::io::Read as _;
use std::sync::Arc;

use super::self_mod_area::{SelfModArea, StagingSession, content_error, run_blocking};
use punie_core::file_metadata::permission_bits;
use punie_home::FileState;
use punie_host::files::{OpenedFile, WritePrecondition};
use punie_host::local::local_files::LocalFiles;
use punie_host::{FileClient as _, WorkspacePath};
use punie_tool::{ErrorCode, ToolContext, ToolError};

/// The place of a file's content.
#[derive(Debug)]
pub(super) enum FilePlace {
    /// The real file, if there is one.
    Real,
    /// A stored content.
    Staged(FileState),
    Removed,
}

/// A file that a call may change.
#[derive(Debug)]
pub(super) struct CurrentFile {
    /// The open content.
    pub(super) opened: OpenedFile,
    /// The permission bits, where the system has them.
    pub(super) mode: Option<u32>,
    /// True if the content is staged.
    pub(super) is_staged: bool,
}

impl StagingSession {
    pub(super) fn place_of(&self, rel: &str) -> FilePlace {
        match self.staged.files.get(rel) {
            None => FilePlace::Real,
            Some(staged) => match &staged.content {
                Some(state) => FilePlace::Staged(state.clone()),
                None => FilePlace::Removed,
            },
        }
    }

    /// Refuses a path through a staged file, or at a folder with staged files.
    pub(super) fn check_place_for_file(
        &self,
        area: &SelfModArea,
        path: &WorkspacePath,
        rel: &str,
    ) -> Result<(), ToolError> {
        let shown = path.display_text();
        if self.to_view(area).has_files_below(path.absolute_path()) {
            let text = format!("{shown} is a folder with staged files. Give the path of a file.");
            return Err(ToolError::new(ErrorCode::IsDirectory, text));
        }
        let is_file =
            |(at, _): (usize, &str)| !matches!(self.place_of(&rel[..at]), FilePlace::Real);
        if rel.match_indices('/').any(is_file) {
            return Err(ToolError::invalid_args(format!(
                "{shown}: a folder on the way is a file that is staged or removed here. Apply that change first."
            )));
        }
        Ok(())
    }
}

/// Opens a file as the call sees it; `None` if there is none.
pub(super) async fn open_current_file(
    area: &SelfModArea,
    local: &LocalFiles,
    cx: &ToolContext,
    path: &WorkspacePath,
    place: &FilePlace,
) -> Result<Option<CurrentFile>, ToolError> {
    match place {
        FilePlace::Removed => Ok(None),
        FilePlace::Staged(state) => {
            let opened = local.open_file(cx, area.content_path(state, path)?).await?;
            Ok(Some(CurrentFile {
                opened,
                mode: state.mode,
                is_staged: true,
            }))
        }
        FilePlace::Real => match local.open_file(cx, path.clone()).await {
            Err(error) if error.stable_code() == ErrorCode::NotFound => Ok(None),
            opened => Ok(Some(CurrentFile {
                opened: opened?,
                mode: path.file_metadata().ok().as_ref().and_then(permission_bits),
                is_staged: false,
            })),
        },
    }
}

/// Stores the content of a file that the call sees, if the condition holds.
pub(super) async fn store_current_file(
    area: &Arc<SelfModArea>,
    current: Option<CurrentFile>,
    path: &WorkspacePath,
    only_if: &WritePrecondition,
) -> Result<FileState, ToolError> {
    let shown = path.display_text();
    let Some(current) = current else {
        return Err(removed_error(path));
    };
    let stamp = current.opened.stamp;
    let area = Arc::clone(area);
    let name = shown.clone();
    let state = run_blocking(move || {
        let mut bytes = current.opened.bytes;
        let stored = area.store.store_content(bytes.by_ref());
        let (sha256, size) = stored.map_err(content_error(&name))?;
        Ok(FileState {
            sha256,
            size,
            mode: current.mode,
        })
    })
    .await?;
    let holds = match only_if {
        WritePrecondition::None => true,
        WritePrecondition::Absent => false,
        WritePrecondition::AsLoaded(loaded) => *loaded == stamp,
        WritePrecondition::Content(sha256) => state.sha256.eq_ignore_ascii_case(sha256),
    };
    if holds {
        return Ok(state);
    }
    let text = format!("{shown} was changed meanwhile. Nothing was staged.");
    Err(ToolError::new(ErrorCode::Stale, text))
}

/// Builds the error for a file that is not there for this call.
pub(super) fn removed_error(path: &WorkspacePath) -> ToolError {
    ToolError::not_found(format!(
        "{} does not exist: it is removed among the staged files (SelfModStatus lists them).",
        path.display_text()
    ))
}

/// Gives an open file these permission bits, on systems that have them.
#[cfg(unix)]
pub(super) fn set_permission_bits(file: &std::fs::File, mode: Option<u32>) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    mode.map_or(Ok(()), |mode| {
        file.set_permissions(std::fs::Permissions::from_mode(mode))
    })
}

#[cfg(not(unix))]
pub(super) fn set_permission_bits(
    _file: &std::fs::File,
    _mode: Option<u32>,
) -> std::io::Result<()> {
    Ok(())
}
