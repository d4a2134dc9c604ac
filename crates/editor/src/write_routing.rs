//! Prepares the write of a file that a connected editor may have. It passes every check of a local write, against the
//! editor's text if that was read.

use std::sync::Arc;

use super::file_reads::{
    EditorFile, EditorFileLookup, MAX_REQUESTED_BYTES, MissingFileHandling, look_up_file,
};
use super::file_write::{CheckedWrite, EditorWrite};
use super::followed_write::FollowedWrite;
use super::session::EditorSession;
use super::tool_call_view::ShownCall;
use punie_host::FileClient;
use punie_host::WorkspacePath;
use punie_host::files::{ByteSplice, NewContent, WritePrecondition, WriteTextFile};
use punie_host::local::local_files::{LocalFiles, shape_like_file};
use punie_host::local::old_file::stale_write_error;
use punie_host::prepared_write::PreparedWrite;
use punie_text::output::number_format;
use punie_tool::{ErrorCode, ToolContext, ToolError};

/// Checks a write of a call that an editor follows, and chooses between the editor and this machine.
///
/// # Errors
/// Those of a local write. `stale` if the editor has other text than was read, or unsaved text that would be lost. `io`
/// if the editor does not return its text.
pub(super) async fn prepare_editor_write(
    local: &LocalFiles,
    cx: &ToolContext,
    call: Arc<ShownCall>,
    request: WriteTextFile,
) -> Result<Box<dyn PreparedWrite>, ToolError> {
    let path = request.path.clone();
    path.check_writable()?;
    let session = Arc::clone(call.editor_session());
    if !session.serves_reads_of(&path) {
        return prepare_followed_write(local, cx, call, request, None).await;
    }
    // Without a condition the write replaces any text that the editor has of a file that is not on disk.
    let missing = if request.only_if == WritePrecondition::None {
        MissingFileHandling::TreatAsNew
    } else {
        MissingFileHandling::AskEditor
    };
    let file = match look_up_file(local, cx, &session, &path, missing).await? {
        EditorFileLookup::Available(file) => file,
        EditorFileLookup::Local(why) => {
            return prepare_followed_write(local, cx, call, request, why).await;
        }
        EditorFileLookup::Unknown(why) => {
            let text = format!(
                "{}: {why}, so it cannot be told whether it holds unsaved text of this file. Nothing was written. Ask \
                 again when it answers.",
                path.display_text()
            );
            return Err(ToolError::new(ErrorCode::Io, text));
        }
    };
    check_precondition(&session, &file, &request)?;
    let (new, mut warnings) = build_content(&file, &request);
    let is_there = file.current_bytes().is_some_and(|now| **now == new);
    let unsaved = file.is_unsaved();
    if !unsaved && is_there && request.executable.is_none() {
        // The disk has this content already, which the local write reports.
        return prepare_followed_write(local, cx, call, request, None).await;
    }
    let Some(why) = editor_write_obstacle(&session, &file, &request, &new) else {
        if unsaved {
            let is_replaced = matches!(request.content, NewContent::Text(_)) && !is_there;
            warnings.push(unsaved_text_note(&session, is_replaced));
        }
        let local_write = local
            .prepare_file(cx, as_local_request(&file, &request, &new))
            .await?;
        let checked = CheckedWrite {
            local_write,
            path,
            original: file,
            new: Arc::new(new),
            exact: request.only_if != WritePrecondition::None,
            create_folders: request.create_folders,
            warnings,
        };
        return Ok(Box::new(EditorWrite::new(local, cx, call, checked)));
    };
    if unsaved {
        let text = format!(
            "{} has unsaved text in {}, {why}. Nothing was written. Have it saved there first, then read it again.",
            path.display_text(),
            session.editor
        );
        return Err(ToolError::new(ErrorCode::Stale, text));
    }
    prepare_followed_write(local, cx, call, request, None).await
}

/// Builds the note on text that was not saved.
fn unsaved_text_note(session: &EditorSession, is_replaced: bool) -> String {
    let outcome = if is_replaced {
        "it was replaced"
    } else {
        "it is written with the change"
    };
    format!(
        "{} had unsaved text of this file; {outcome}.",
        session.editor
    )
}

/// Prepares a write on this machine that is shown in the editor.
async fn prepare_followed_write(
    local: &LocalFiles,
    cx: &ToolContext,
    call: Arc<ShownCall>,
    request: WriteTextFile,
    warning: Option<String>,
) -> Result<Box<dyn PreparedWrite>, ToolError> {
    let path = request.path.clone();
    let write = local.prepare_file(cx, request).await?;
    Ok(Box::new(FollowedWrite::new(write, call, path, warning)))
}

/// Returns the reason why the editor cannot make this write, as the end of a sentence.
fn editor_write_obstacle(
    session: &EditorSession,
    file: &EditorFile,
    request: &WriteTextFile,
    new: &[u8],
) -> Option<String> {
    if !session.serves_writes_of(&request.path) {
        return Some("which does not take writes".to_owned());
    }
    if request.executable.is_some() {
        return Some("which cannot set who may run it".to_owned());
    }
    if new.len() as u64 > MAX_REQUESTED_BYTES {
        return Some(format!(
            "which is given no more than {}",
            number_format::format_size(MAX_REQUESTED_BYTES)
        ));
    }
    file.text_form
        .to_editor_text(new)
        .is_none()
        .then(|| "which takes only UTF-8".to_owned())
}

/// Checks the request's condition against the editor's text.
fn check_precondition(
    session: &EditorSession,
    file: &EditorFile,
    request: &WriteTextFile,
) -> Result<(), ToolError> {
    let shown = request.path.display_text();
    let name = &session.editor;
    match (&request.only_if, file.current_bytes()) {
        (WritePrecondition::Absent, Some(_)) if file.disk.is_none() => Err(stale_write_error(
            &shown,
            &format!("is open in {name}, not saved yet, and overwrite is \"never\""),
        )),
        // If the file exists, the local check reports it.
        (WritePrecondition::None | WritePrecondition::Absent, _) => Ok(()),
        (_, None) => Err(stale_write_error(&shown, "does not exist any more")),
        (WritePrecondition::Content(expected), Some(now)) => {
            let is =
                punie_core::ids::to_hex(&<sha2::Sha256 as sha2::Digest>::digest(now.as_slice()));
            if is.eq_ignore_ascii_case(expected) {
                return Ok(());
            }
            Err(stale_write_error(
                &shown,
                &format!("is not what was expected: its SHA-256 in {name} is {is}, not {expected}"),
            ))
        }
        (WritePrecondition::AsLoaded(loaded), Some(now)) => {
            let same = match &request.content {
                NewContent::Spliced { old, .. } => old == now,
                NewContent::Text(_) => {
                    !file.is_unsaved()
                        && file.disk.as_ref().is_some_and(|disk| disk.stamp == *loaded)
                }
            };
            if same {
                Ok(())
            } else {
                Err(stale_write_error(
                    &shown,
                    &format!("was changed meanwhile, in {name} or on disk"),
                ))
            }
        }
    }
}

/// Builds the whole new content as it would be on disk, with notes on the changes made to it.
fn build_content(file: &EditorFile, request: &WriteTextFile) -> (Vec<u8>, Vec<String>) {
    match &request.content {
        NewContent::Text(text) => {
            let disk = file.disk.as_ref().map(|disk| &disk.bytes);
            disk.map_or_else(
                || (text.as_bytes().to_vec(), Vec::new()),
                |disk| shape_like_file(text, disk),
            )
        }
        NewContent::Spliced { old, splices } => (apply_splices(old, splices), Vec::new()),
    }
}

fn apply_splices(old: &[u8], splices: &[ByteSplice]) -> Vec<u8> {
    let mut new = Vec::with_capacity(old.len());
    let mut at = 0;
    for splice in splices {
        new.extend_from_slice(&old[at..splice.range.start]);
        new.extend_from_slice(&splice.with);
        at = splice.range.end;
    }
    new.extend_from_slice(&old[at..]);
    new
}

/// Builds the same write for this machine: for its checks, and for the declaration with the disk's hashes.
fn as_local_request(file: &EditorFile, request: &WriteTextFile, new: &[u8]) -> WriteTextFile {
    let path: WorkspacePath = request.path.clone();
    let (content, only_if) = match &file.disk {
        // The local check refuses it.
        Some(_) if request.only_if == WritePrecondition::Absent => {
            (request.content.clone(), WritePrecondition::Absent)
        }
        Some(disk) => {
            let splices = vec![ByteSplice {
                range: 0..disk.bytes.len(),
                with: new.to_vec(),
            }];
            let content = NewContent::Spliced {
                old: Arc::clone(&disk.bytes),
                splices,
            };
            (content, WritePrecondition::AsLoaded(disk.stamp))
        }
        None => (
            NewContent::Text(String::from_utf8_lossy(new).into_owned()),
            WritePrecondition::Absent,
        ),
    };
    WriteTextFile {
        path,
        content,
        only_if,
        create_folders: request.create_folders,
        executable: None,
    }
}
