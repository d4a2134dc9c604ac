//! Reads text files through a connected editor, unsaved changes included. This applies to UTF-8 files that are small
//! enough for one message, and to files that do not exist yet. All others are read from disk.

use std::sync::Arc;

use super::client_request::{EditorRequestError, await_with_timeout};
use super::session::EditorSession;
use super::text_encoding::EditorTextForm;
use crate::protocol::ReadTextFileRequest;
use punie_host::FileClient;
use punie_host::WorkspacePath;
use punie_host::files::{
    FileEncoding, FileStamp, LoadedFile, ReadTextFile, TextSource, TextWindow,
};
use punie_host::local::local_files::{LocalFiles, read_window_in_memory};
use punie_text::output::number_format;
use punie_tool::{ErrorCode, ToolContext, ToolError};

/// A file larger than this on disk is not requested from an editor, because it would come as one line of JSON.
pub(super) const MAX_REQUESTED_BYTES: u64 = 4 << 20;

/// The result of looking up a file on disk and in the editor.
pub(super) enum EditorFileLookup {
    /// The file as the editor and the disk have it.
    Available(EditorFile),
    /// The file must be read from disk, for a reason that may be worth reporting.
    Local(Option<String>),
    /// The editor may have other text than the disk but did not say so, for this reason.
    Unknown(String),
}

impl EditorFileLookup {
    /// Returns the result for a file that neither the disk nor the editor has.
    fn absent() -> Self {
        Self::Available(EditorFile {
            disk: None,
            text: None,
            text_form: EditorTextForm::default(),
        })
    }
}

/// The handling of a file that is not on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingFileHandling {
    /// Ask the editor, which may have text that was never saved.
    AskEditor,
    /// Treat it as new, because an editor that is asked for a missing file shows an error.
    TreatAsNew,
}

/// One file, on disk and in the editor.
pub(super) struct EditorFile {
    /// The file on disk, if it exists.
    pub disk: Option<LoadedFile>,
    /// The editor's text, encoded as it would be on disk; `None` if the file does not exist and the editor has no text.
    pub text: Option<Arc<Vec<u8>>>,
    pub text_form: EditorTextForm,
}

impl EditorFile {
    /// Returns the bytes that a reader sees.
    pub fn current_bytes(&self) -> Option<&Arc<Vec<u8>>> {
        self.text
            .as_ref()
            .or(self.disk.as_ref().map(|disk| &disk.bytes))
    }

    /// Returns whether the editor has text that is not on disk.
    pub fn is_unsaved(&self) -> bool {
        self.text.is_some() && self.text.as_ref() != self.disk.as_ref().map(|disk| &disk.bytes)
    }

    /// Returns the disk's stamp if the disk has the same text. Unsaved text gets a stamp that no file has. So a later
    /// write must compare the bytes, because the editor and its text may be gone by then.
    fn disk_stamp(&self) -> FileStamp {
        let nothing = FileStamp {
            file: (0, 0),
            size: 0,
            modified: 0,
            changed: 0,
        };
        self.disk
            .as_ref()
            .filter(|_| !self.is_unsaved())
            .map_or(nothing, |disk| disk.stamp)
    }
}

/// Loads a file from disk and asks the editor for its text.
///
/// # Errors
/// `cancelled`.
pub(super) async fn look_up_file(
    local: &LocalFiles,
    cx: &ToolContext,
    session: &EditorSession,
    path: &WorkspacePath,
    missing: MissingFileHandling,
) -> Result<EditorFileLookup, ToolError> {
    let disk = match local.load_file(cx, path.clone(), MAX_REQUESTED_BYTES).await {
        Ok(loaded) if std::str::from_utf8(&loaded.bytes).is_ok() && loaded.encoding.is_utf8() => {
            Some(loaded)
        }
        Err(fault) if fault.stable_code() == ErrorCode::NotFound => None,
        Err(fault) if fault.stable_code() == ErrorCode::Cancelled => return Err(fault),
        Err(fault) if fault.stable_code() == ErrorCode::TooLarge => {
            let why = format!(
                "{} was not asked for its text: the file is over {}. This is the file on disk.",
                session.editor,
                number_format::format_size(MAX_REQUESTED_BYTES)
            );
            return Ok(EditorFileLookup::Local(Some(why)));
        }
        Ok(_) | Err(_) => return Ok(EditorFileLookup::Local(None)),
    };
    if disk.is_none() && missing == MissingFileHandling::TreatAsNew {
        return Ok(EditorFileLookup::absent());
    }
    request_editor_text(cx, session, path, disk).await
}

/// Asks the editor for its text of a file, and puts it beside the file on disk.
async fn request_editor_text(
    cx: &ToolContext,
    session: &EditorSession,
    path: &WorkspacePath,
    disk: Option<LoadedFile>,
) -> Result<EditorFileLookup, ToolError> {
    let request = ReadTextFileRequest::new(session.id.clone(), path.absolute_path());
    let asked = tokio::select! {
        biased;
        () = cx.wait_for_cancel() => {
            let text = format!("{} was being asked for {}. Nothing was changed.", session.editor, path.display_text());
            return Err(ToolError::call_cancelled(text));
        }
        answered = await_with_timeout(session, session.client.read_text_file(request)) => answered,
    };
    let error = match asked {
        Ok(answer) => {
            let bytes: &[u8] = disk.as_ref().map_or(b"", |disk| &disk.bytes);
            let text_form = EditorTextForm::detect(bytes, &answer.content);
            let text = Some(Arc::new(text_form.to_disk_bytes(bytes, &answer.content)));
            return Ok(EditorFileLookup::Available(EditorFile {
                disk,
                text,
                text_form,
            }));
        }
        Err(error) => error,
    };
    let cause = error.describe_cause(session);
    Ok(match (error, disk) {
        (EditorRequestError::Disconnected(_), _) => {
            EditorFileLookup::Local(Some(format!("{cause}; this is the file on disk.")))
        }
        // Editors report a file that they do not have by different errors.
        (
            EditorRequestError::NotFound
            | EditorRequestError::Rejected(_)
            | EditorRequestError::Failed(_),
            None,
        ) => EditorFileLookup::absent(),
        (EditorRequestError::NotFound, Some(_)) => EditorFileLookup::Local(None),
        _ => EditorFileLookup::Unknown(cause),
    })
}

/// Reads a window of the editor's text, or of the file on disk.
pub(super) async fn read_editor_window(
    local: &LocalFiles,
    cx: &ToolContext,
    session: &EditorSession,
    request: ReadTextFile,
) -> Result<TextWindow, ToolError> {
    if request.encoding.is_some_and(|asked| !asked.is_utf8()) {
        return local.read_text_file(cx, request).await;
    }
    let found = look_up_file(
        local,
        cx,
        session,
        &request.path,
        MissingFileHandling::AskEditor,
    )
    .await?;
    let source = match found {
        EditorFileLookup::Available(file) if file.is_unsaved() => {
            let text = file.current_bytes().cloned().unwrap_or_default();
            let window = read_window_in_memory(cx, request, text).await?;
            return Ok(TextWindow {
                source: editor_source(session, true),
                ..window
            });
        }
        EditorFileLookup::Available(_) => editor_source(session, false),
        EditorFileLookup::Local(why) => disk_source(why),
        EditorFileLookup::Unknown(why) => disk_source(Some(disk_fallback_note(&why))),
    };
    let window = local.read_text_file(cx, request).await?;
    Ok(TextWindow { source, ..window })
}

/// Loads the editor's whole text, or the file on disk. `max_bytes` does not apply to the editor's text, whose own bound
/// is small.
pub(super) async fn load_editor_file(
    local: &LocalFiles,
    cx: &ToolContext,
    session: &EditorSession,
    path: WorkspacePath,
    max_bytes: u64,
) -> Result<LoadedFile, ToolError> {
    let why = match look_up_file(local, cx, session, &path, MissingFileHandling::AskEditor).await? {
        EditorFileLookup::Available(file) if file.text.is_some() => {
            let unsaved = file.is_unsaved();
            let stamp = file.disk_stamp();
            let bytes = file.current_bytes().cloned().unwrap_or_default();
            let encoding = FileEncoding::Utf8.with_bom_of(&bytes);
            return Ok(LoadedFile {
                bytes,
                encoding,
                stamp,
                source: editor_source(session, unsaved),
            });
        }
        EditorFileLookup::Available(_) => None,
        EditorFileLookup::Local(why) => why,
        EditorFileLookup::Unknown(why) => Some(disk_fallback_note(&why)),
    };
    let loaded = local.load_file(cx, path, max_bytes).await?;
    Ok(LoadedFile {
        source: disk_source(why),
        ..loaded
    })
}

fn editor_source(session: &EditorSession, unsaved: bool) -> TextSource {
    TextSource::Editor {
        name: session.editor.clone(),
        unsaved,
    }
}

fn disk_source(why: Option<String>) -> TextSource {
    why.map_or(TextSource::Disk, TextSource::DiskInstead)
}

fn disk_fallback_note(why: &str) -> String {
    format!("{why}; this is the file on disk, and what is not saved is not in it.")
}
