//! Prepares the write of a file that a connected editor may have. It passes every check of a local write, against the
//! editor's text if that was read. Not here: sending it (sending).

use std::sync::Arc;

use super::files::{Found, Held, IfMissing, MOST, look};
use super::followed::Followed;
use super::sending::{Checked, Sending};
use super::session::EditorSession;
use super::shown::ShownCall;
use crate::acp::files::{FileClient, NewContent, Precondition, Splice, WriteTextFile};
use crate::acp::local::files::shaped;
use crate::acp::prepared::PreparedWrite;
use crate::acp::{LocalClient, WorkspacePath};
use crate::output::figures;
use crate::tool::{ErrorCode, ToolCx, ToolError};

/// Checks a write of a call that an editor follows, and chooses between the editor and this machine.
///
/// # Errors
/// Those of a local write. `stale` if the editor has other text than was read, or unsaved text that would be lost. `io`
/// if the editor does not return its text.
pub(super) async fn prepare(
    local: &LocalClient,
    cx: &ToolCx,
    call: Arc<ShownCall>,
    request: WriteTextFile,
) -> Result<Box<dyn PreparedWrite>, ToolError> {
    let path = request.path.clone();
    if let Some(protection) = path.protection() {
        return Err(protection.denied(&path.shown()));
    }
    let session = Arc::clone(call.session());
    if !session.reads(&path) {
        return here(local, cx, call, request, None).await;
    }
    // Without a condition the write replaces any text that the editor has of a file that is not on disk.
    let missing = if request.only_if == Precondition::None { IfMissing::New } else { IfMissing::Ask };
    let held = match look(local, cx, &session, &path, missing).await? {
        Found::Held(held) => held,
        Found::Local(why) => return here(local, cx, call, request, why).await,
        Found::Unknown(why) => {
            let text = format!(
                "{}: {why}, so it cannot be told whether it holds unsaved text of this file. Nothing was written. Ask \
                 again when it answers.",
                path.shown()
            );
            return Err(ToolError::new(ErrorCode::Io, text));
        }
    };
    judge(&session, &held, &request)?;
    let (new, mut warnings) = content(&held, &request);
    let is_there = held.now().is_some_and(|now| **now == new);
    let unsaved = held.is_unsaved();
    if !unsaved && is_there && request.executable.is_none() {
        // The disk has this content already, which the local write reports.
        return here(local, cx, call, request, None).await;
    }
    let Some(why) = why_not(&session, &held, &request, &new) else {
        let name = &session.editor;
        if unsaved {
            warnings.push(match &request.content {
                NewContent::Text(_) if !is_there => {
                    format!("{name} had unsaved text of this file; it was replaced.")
                }
                _ => format!("{name} had unsaved text of this file; it is written with the change."),
            });
        }
        let here = local.prepare_file(cx, as_on_disk(&held, &request, &new)).await?;
        let exact = request.only_if != Precondition::None;
        let create_folders = request.create_folders;
        let checked = Checked { here, path, held, new: Arc::new(new), exact, create_folders, warnings };
        return Ok(Box::new(Sending::new(local, cx, call, checked)));
    };
    if unsaved {
        let text = format!(
            "{} has unsaved text in {}, {why}. Nothing was written. Have it saved there first, then read it again.",
            path.shown(),
            session.editor
        );
        return Err(ToolError::new(ErrorCode::Stale, text));
    }
    here(local, cx, call, request, None).await
}

/// Prepares a write on this machine that is shown in the editor.
async fn here(
    local: &LocalClient,
    cx: &ToolCx,
    call: Arc<ShownCall>,
    request: WriteTextFile,
    warning: Option<String>,
) -> Result<Box<dyn PreparedWrite>, ToolError> {
    let path = request.path.clone();
    let write = local.prepare_file(cx, request).await?;
    Ok(Box::new(Followed::new(write, call, path, warning)))
}

/// Returns the reason why the editor cannot make this write, as the end of a sentence.
fn why_not(session: &EditorSession, held: &Held, request: &WriteTextFile, new: &[u8]) -> Option<String> {
    if !session.writes(&request.path) {
        return Some("which does not take writes".to_owned());
    }
    if request.executable.is_some() {
        return Some("which cannot set who may run it".to_owned());
    }
    if new.len() as u64 > MOST {
        return Some(format!("which is given no more than {}", figures::size(MOST)));
    }
    held.spelling.for_editor(new).is_none().then(|| "which takes only UTF-8".to_owned())
}

/// Checks the request's condition against the editor's text.
fn judge(session: &EditorSession, held: &Held, request: &WriteTextFile) -> Result<(), ToolError> {
    let shown = request.path.shown();
    let name = &session.editor;
    match (&request.only_if, held.now()) {
        (Precondition::Absent, Some(_)) if held.disk.is_none() => {
            Err(stale(&shown, &format!("is open in {name}, not saved yet, and overwrite is \"never\"")))
        }
        // If the file exists, the local check reports it.
        (Precondition::None | Precondition::Absent, _) => Ok(()),
        (_, None) => Err(stale(&shown, "does not exist any more")),
        (Precondition::Content(expected), Some(now)) => {
            let is = crate::ids::hex(&<sha2::Sha256 as sha2::Digest>::digest(now.as_slice()));
            if is.eq_ignore_ascii_case(expected) {
                return Ok(());
            }
            Err(stale(
                &shown,
                &format!("is not what was expected: its SHA-256 in {name} is {is}, not {expected}"),
            ))
        }
        (Precondition::AsLoaded(loaded), Some(now)) => {
            let same = match &request.content {
                NewContent::Spliced { old, .. } => old == now,
                _ => !held.is_unsaved() && held.disk.as_ref().is_some_and(|disk| disk.stamp == *loaded),
            };
            if same {
                Ok(())
            } else {
                Err(stale(&shown, &format!("was changed meanwhile, in {name} or on disk")))
            }
        }
    }
}

/// Builds the whole new content as it would be on disk, with notes on the changes made to it.
fn content(held: &Held, request: &WriteTextFile) -> (Vec<u8>, Vec<String>) {
    match &request.content {
        NewContent::Text(text) => {
            let disk = held.disk.as_ref().map(|disk| &disk.bytes);
            disk.map_or_else(|| (text.as_bytes().to_vec(), Vec::new()), |disk| shaped(text, disk))
        }
        NewContent::Spliced { old, splices } => (spliced(old, splices), Vec::new()),
        NewContent::SplicedOnDisk { splices, .. } => {
            let disk = held.disk.as_ref().map(|disk| Arc::clone(&disk.bytes)).unwrap_or_default();
            let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(disk.len());
            let splices: Vec<Splice> = splices
                .iter()
                .map(|splice| Splice {
                    range: place(splice.range.start)..place(splice.range.end),
                    with: splice.with.to_vec(),
                })
                .collect();
            (spliced(&disk, &splices), Vec::new())
        }
    }
}

fn spliced(old: &[u8], splices: &[Splice]) -> Vec<u8> {
    let (mut new, mut at) = (Vec::with_capacity(old.len()), 0);
    for splice in splices {
        new.extend_from_slice(&old[at..splice.range.start]);
        new.extend_from_slice(&splice.with);
        at = splice.range.end;
    }
    new.extend_from_slice(&old[at..]);
    new
}

/// Builds the same write for this machine: for its checks, and for the declaration with the disk's hashes.
fn as_on_disk(held: &Held, request: &WriteTextFile, new: &[u8]) -> WriteTextFile {
    let path: WorkspacePath = request.path.clone();
    let (content, only_if) = match &held.disk {
        // The local check refuses it.
        Some(_) if request.only_if == Precondition::Absent => (request.content.clone(), Precondition::Absent),
        Some(disk) => {
            let splices = vec![Splice { range: 0..disk.bytes.len(), with: new.to_vec() }];
            let content = NewContent::Spliced { old: Arc::clone(&disk.bytes), splices };
            (content, Precondition::AsLoaded(disk.stamp))
        }
        None => (NewContent::Text(String::from_utf8_lossy(new).into_owned()), Precondition::Absent),
    };
    WriteTextFile { path, content, only_if, create_folders: request.create_folders, executable: None }
}

pub(super) fn stale(shown: &str, what: &str) -> ToolError {
    let text = format!("{shown} {what}. Nothing was written. Read it again, then decide.");
    ToolError::new(ErrorCode::Stale, text)
}
