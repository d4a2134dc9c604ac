//! Reads text files through a connected editor, unsaved changes included. This applies to UTF-8 files that are small
//! enough for one message, and to files that do not exist yet. All others are read from disk. Not here: writing
//! (writes).

use std::sync::Arc;

use super::asking::{Trouble, within};
use super::session::EditorSession;
use super::spelling::Spelling;
use crate::acp::files::{Encoding, FileClient, LoadedFile, ReadTextFile, Source, Stamp, TextWindow};
use crate::acp::local::files::window_of;
use crate::acp::protocol::ReadTextFileRequest;
use crate::acp::{LocalClient, WorkspacePath};
use crate::output::figures;
use crate::tool::{ErrorCode, ToolCx, ToolError};

/// A file larger than this on disk is not requested from an editor, because it would come as one line of JSON.
pub(super) const MOST: u64 = 4 << 20;

/// The result of looking up a file on disk and in the editor.
pub(super) enum Found {
    /// The file as the editor and the disk have it.
    Held(Held),
    /// The file must be read from disk, for a reason that may be worth reporting.
    Local(Option<String>),
    /// The editor may have other text than the disk but did not say so, for this reason.
    Unknown(String),
}

/// The handling of a file that is not on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfMissing {
    /// Ask the editor, which may have text that was never saved.
    Ask,
    /// Treat it as new, because an editor that is asked for a missing file shows an error.
    New,
}

/// One file, on disk and in the editor.
pub(super) struct Held {
    /// The file on disk, if it exists.
    pub disk: Option<LoadedFile>,
    /// The editor's text, encoded as it would be on disk; `None` if the file does not exist and the editor has no text.
    pub text: Option<Arc<Vec<u8>>>,
    pub spelling: Spelling,
}

impl Held {
    /// Returns the bytes that a reader sees.
    pub fn now(&self) -> Option<&Arc<Vec<u8>>> {
        self.text.as_ref().or(self.disk.as_ref().map(|disk| &disk.bytes))
    }

    /// Returns whether the editor has text that is not on disk.
    pub fn is_unsaved(&self) -> bool {
        self.text.is_some() && self.text.as_ref() != self.disk.as_ref().map(|disk| &disk.bytes)
    }

    /// Returns the disk's stamp if the disk has the same text. Unsaved text gets a stamp that no file has. So a later
    /// write must compare the bytes, because the editor and its text may be gone by then.
    fn stamp(&self) -> Stamp {
        let nothing = Stamp { file: (0, 0), size: 0, modified: 0, changed: 0 };
        self.disk.as_ref().filter(|_| !self.is_unsaved()).map_or(nothing, |disk| disk.stamp)
    }
}

/// Loads a file from disk and asks the editor for its text.
///
/// # Errors
/// `cancelled`.
pub(super) async fn look(
    local: &LocalClient,
    cx: &ToolCx,
    session: &EditorSession,
    path: &WorkspacePath,
    missing: IfMissing,
) -> Result<Found, ToolError> {
    let disk = match local.load_file(cx, path.clone(), MOST).await {
        Ok(loaded) if std::str::from_utf8(&loaded.bytes).is_ok() && loaded.encoding.is_utf8() => Some(loaded),
        Err(fault) if fault.code() == ErrorCode::NotFound => None,
        Err(fault) if fault.code() == ErrorCode::Cancelled => return Err(fault),
        Err(fault) if fault.code() == ErrorCode::TooLarge => {
            let why = format!(
                "{} was not asked for its text: the file is over {}. This is the file on disk.",
                session.editor,
                figures::size(MOST)
            );
            return Ok(Found::Local(Some(why)));
        }
        Ok(_) | Err(_) => return Ok(Found::Local(None)),
    };
    if disk.is_none() && missing == IfMissing::New {
        return Ok(Found::Held(Held { disk, text: None, spelling: Spelling::default() }));
    }
    let request = ReadTextFileRequest::new(session.id.clone(), path.absolute());
    let asked = tokio::select! {
        biased;
        () = cx.cancelled() => {
            let text = format!("{} was being asked for {}. Nothing was changed.", session.editor, path.shown());
            return Err(ToolError::cancelled(text));
        }
        answered = within(session, session.client.read_text_file(request)) => answered,
    };
    let trouble = match asked {
        Ok(answer) => {
            let bytes: &[u8] = disk.as_ref().map_or(b"", |disk| &disk.bytes);
            let spelling = Spelling::between(bytes, &answer.content);
            let text = Some(Arc::new(spelling.on_disk(bytes, &answer.content)));
            return Ok(Found::Held(Held { disk, text, spelling }));
        }
        Err(trouble) => trouble,
    };
    let words = trouble.said(session);
    Ok(match (trouble, disk) {
        (Trouble::Gone(_), _) => Found::Local(Some(format!("{words}; this is the file on disk."))),
        // Editors report a file that they do not have by different errors.
        (Trouble::NotThere | Trouble::Refused(_) | Trouble::Said(_), None) => {
            Found::Held(Held { disk: None, text: None, spelling: Spelling::default() })
        }
        (Trouble::NotThere, Some(_)) => Found::Local(None),
        _ => Found::Unknown(words),
    })
}

/// Reads a window of the editor's text, or of the file on disk.
pub(super) async fn read(
    local: &LocalClient,
    cx: &ToolCx,
    session: &EditorSession,
    request: ReadTextFile,
) -> Result<TextWindow, ToolError> {
    if request.encoding.is_some_and(|asked| !asked.is_utf8()) {
        return local.read_text_file(cx, request).await;
    }
    let found = look(local, cx, session, &request.path, IfMissing::Ask).await?;
    let (mut window, source) = match &found {
        Found::Held(held) if held.is_unsaved() => {
            let text = held.now().cloned().unwrap_or_default();
            (window_of(cx, request, text).await?, by(session, true))
        }
        Found::Held(_) => (local.read_text_file(cx, request).await?, by(session, false)),
        Found::Local(why) => (local.read_text_file(cx, request).await?, instead(why.clone())),
        Found::Unknown(why) => {
            (local.read_text_file(cx, request).await?, instead(Some(on_disk_instead(why))))
        }
    };
    window.source = source;
    Ok(window)
}

/// Loads the editor's whole text, or the file on disk. `max_bytes` does not apply to the editor's text, whose own bound
/// is small.
pub(super) async fn load(
    local: &LocalClient,
    cx: &ToolCx,
    session: &EditorSession,
    path: WorkspacePath,
    max_bytes: u64,
) -> Result<LoadedFile, ToolError> {
    let why = match look(local, cx, session, &path, IfMissing::Ask).await? {
        Found::Held(held) if held.text.is_some() => {
            let (unsaved, stamp) = (held.is_unsaved(), held.stamp());
            let bytes = held.now().cloned().unwrap_or_default();
            let encoding = Encoding::Utf8.in_file(&bytes);
            return Ok(LoadedFile { bytes, encoding, stamp, source: by(session, unsaved) });
        }
        Found::Held(_) => None,
        Found::Local(why) => why,
        Found::Unknown(why) => Some(on_disk_instead(&why)),
    };
    let loaded = local.load_file(cx, path, max_bytes).await?;
    Ok(LoadedFile { source: instead(why), ..loaded })
}

fn by(session: &EditorSession, unsaved: bool) -> Source {
    Source::Editor { name: session.editor.clone(), unsaved }
}

fn instead(why: Option<String>) -> Source {
    why.map_or(Source::Disk, Source::DiskInstead)
}

fn on_disk_instead(why: &str) -> String {
    format!("{why}; this is the file on disk, and what is not saved is not in it.")
}
