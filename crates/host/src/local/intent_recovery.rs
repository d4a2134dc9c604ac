//! Recovers file changes that a call declared before the runner ended: compares them with the disk, finishes them
//! where possible, and removes temporary files. Not here: the decision to run the call again (the engine), and
//! repositories (the git handlers).
//!
//! Each file is opened again beneath its workspace, as a call would open it. A path that has become a link, or lies
//! outside every workspace now, is neither read nor changed.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use super::file_removal::hash_file;
use crate::workspace::explain_io_error;
use crate::{RawPath, Workspace, WorkspacePath};
use punie_core::durable::allow_missing;
use punie_core::file_metadata::is_executable;
use punie_tool::{CallIntent, FileChange, IntentOutcome, ResultMeta, ToolReply};

/// The state of one declared change on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
enum IntentState {
    Done,
    /// The file is as it was before the change.
    Before,
    /// Neither done nor untouched, with a description.
    Other(String),
}

/// The file at a path, or `None` if there is none.
type CurrentFileResult = Result<Option<CurrentFile>, String>;

#[derive(Debug, Clone, PartialEq, Eq)]
struct CurrentFile {
    sha256: String,
    executable: Option<bool>,
}

/// Finds out which of these changes were made; they are given in the order in which they were to be made. If some
/// were made and the disk holds all that the others need, makes the others now. Blocks.
pub fn recover_changes(workspace: &Workspace, intents: &[CallIntent]) -> IntentOutcome {
    // A temporary file beside the target is no change of its own.
    let mut changed: Vec<CallIntent> = intents
        .iter()
        .filter(|intent| !matches!(intent, CallIntent::Beside { .. }))
        .cloned()
        .collect();
    // New contents come before new paths, because one file may get both.
    changed.sort_by_key(|intent| !matches!(intent, CallIntent::File { .. }));
    let found = resolve_changes(workspace, &changed);
    for intent in intents {
        if let CallIntent::File { temp, .. } | CallIntent::Beside { temp } = intent {
            remove_temp_file(workspace, temp);
        }
    }
    found
}

fn resolve_changes(workspace: &Workspace, intents: &[CallIntent]) -> IntentOutcome {
    let mut states = PathSnapshot::read(workspace, intents).intent_states(intents);
    let mut finished_now = false;
    if states.contains(&IntentState::Done)
        && states.contains(&IntentState::Before)
        && can_finish(workspace, intents, &states)
    {
        let left = intents
            .iter()
            .zip(&states)
            .filter(|(_, state)| **state == IntentState::Before);
        for (intent, _) in left {
            if let Err(cause) = finish_change(workspace, intent) {
                tracing::warn!(%cause, "a change that a crash cut off could not be finished");
                break;
            }
        }
        states = PathSnapshot::read(workspace, intents).intent_states(intents);
        finished_now = true;
    }
    if states.iter().all(|state| *state == IntentState::Before) {
        return IntentOutcome::Untouched;
    }
    let lines: Vec<String> = intents
        .iter()
        .zip(&states)
        .map(|(intent, state)| describe_change(intent, state))
        .collect();
    let files: Vec<FileChange> = intents
        .iter()
        .zip(&states)
        .filter(|(_, state)| **state == IntentState::Done)
        .flat_map(|(intent, _)| to_file_changes(intent))
        .collect();
    let sha256 = match files.as_slice() {
        [only] => only.after.clone(),
        _ => None,
    };
    let meta = ResultMeta {
        sha256,
        files,
        recovered: true,
        ..ResultMeta::default()
    };
    if states.iter().any(|state| *state != IntentState::Done) {
        return IntentOutcome::Unclear {
            text: lines.join("\n"),
            meta: Box::new(meta),
        };
    }
    let how = if finished_now {
        "The device's runner ended in the middle of this; the rest of it was done from what was ready on the disk. \
         Nothing was done twice."
    } else {
        "Done as asked before the device's runner ended; nothing was done twice."
    };
    IntentOutcome::Done(Box::new(
        ToolReply::from_text(format!("{how}\n{}", lines.join("\n"))).with_meta(meta),
    ))
}

/// The files at all paths that the changes name.
struct PathSnapshot(HashMap<String, CurrentFileResult>);

impl PathSnapshot {
    fn read(workspace: &Workspace, intents: &[CallIntent]) -> Self {
        let paths = intents.iter().flat_map(|intent| match intent {
            CallIntent::File { path, .. } => vec![path],
            CallIntent::Move { from, to, .. } => vec![from, to],
            _ => Vec::new(),
        });
        Self(
            paths
                .map(|path| (path.clone(), read_current_file(workspace, path)))
                .collect(),
        )
    }

    fn file_at(&self, path: &str) -> CurrentFileResult {
        self.0.get(path).cloned().unwrap_or(Ok(None))
    }

    fn intent_states(&self, intents: &[CallIntent]) -> Vec<IntentState> {
        intents
            .iter()
            .map(|intent| self.intent_state(intent, intents))
            .collect()
    }

    fn intent_state(&self, intent: &CallIntent, all: &[CallIntent]) -> IntentState {
        match intent {
            CallIntent::File {
                path,
                before,
                after,
                executable,
                ..
            } => {
                // A file that was written and then moved is looked up at its new path.
                let moved = all.iter().find_map(|other| match other {
                    CallIntent::Move { from, to, .. } if from == path => Some(to),
                    _ => None,
                });
                let found = match (self.file_at(path), moved) {
                    (Ok(None), Some(to)) => self.file_at(to),
                    (found, _) => found,
                };
                let now = match found {
                    Ok(now) => now,
                    Err(why) => return IntentState::Other(why),
                };
                let sha256 = now.as_ref().map(|now| &now.sha256);
                let runs = now.as_ref().and_then(|now| now.executable);
                let mode_is_set = executable.is_none() || runs.is_none() || *executable == runs;
                if sha256 == after.as_ref() && mode_is_set {
                    IntentState::Done
                } else if sha256 == before.as_ref() {
                    IntentState::Before
                } else {
                    IntentState::Other(match sha256 {
                        Some(sha256) => format!("holds something else now, SHA-256 {sha256}"),
                        None => "is not there any more".to_owned(),
                    })
                }
            }
            CallIntent::Move { from, to, sha256 } => match (self.file_at(from), self.file_at(to)) {
                (Err(why), _) | (_, Err(why)) => IntentState::Other(why),
                (Ok(None), Ok(Some(now)))
                    if sha256.as_ref().is_none_or(|sha256| now.sha256 == *sha256) =>
                {
                    IntentState::Done
                }
                (Ok(Some(_)), Ok(None)) => IntentState::Before,
                (Ok(Some(_)), Ok(Some(_))) => {
                    IntentState::Other(format!("is there, and so is {to}"))
                }
                (Ok(None), _) => IntentState::Other("is not there any more".to_owned()),
            },
            _ => IntentState::Other("cannot be told".to_owned()),
        }
    }
}

/// Returns whether the disk holds all that the unfinished changes need.
fn can_finish(workspace: &Workspace, intents: &[CallIntent], states: &[IntentState]) -> bool {
    intents
        .iter()
        .zip(states)
        .all(|(intent, state)| match (state, intent) {
            (
                IntentState::Before,
                CallIntent::File {
                    after: Some(after),
                    temp,
                    ..
                },
            ) => {
                matches!(read_current_file(workspace, temp), Ok(Some(now)) if now.sha256 == *after)
            }
            (IntentState::Done, _)
            | (IntentState::Before, CallIntent::File { .. } | CallIntent::Move { .. }) => true,
            (IntentState::Other(_) | IntentState::Before, _) => false,
        })
}

/// Makes a change that was not made.
fn finish_change(workspace: &Workspace, intent: &CallIntent) -> Result<(), String> {
    let failed = |cause: io::Error| explain_io_error(cause).to_string();
    match intent {
        CallIntent::File {
            path,
            before,
            after,
            temp,
            ..
        } => {
            let (folder, name) = resolve_unchanged(workspace, path)?
                .open_parent_folder(false)
                .map_err(failed)?;
            let temp = Path::new(temp).file_name().unwrap_or_default();
            match (before, after) {
                (_, None) => folder.remove_file_entry(&name),
                (Some(_), Some(_)) => folder.rename_entry(temp, &name),
                (None, Some(_)) => folder.rename_without_replacing(temp, &name),
            }
            .and_then(|()| folder.fsync_folder())
            .map_err(failed)
        }
        CallIntent::Move { from, to, .. } => {
            let (folder, name) = resolve_unchanged(workspace, from)?
                .open_parent_folder(false)
                .map_err(failed)?;
            let (new_folder, new_name) = resolve_unchanged(workspace, to)?
                .open_parent_folder(true)
                .map_err(failed)?;
            folder
                .move_without_replacing(&name, &new_folder, &new_name)
                .and_then(|()| new_folder.fsync_folder())
                .and_then(|()| folder.fsync_folder())
                .map_err(failed)
        }
        _ => Err("there is nothing to go on with".to_owned()),
    }
}

/// Removes one of our temporary files beside a target, if the name has our form and it is a regular file.
fn remove_temp_file(workspace: &Workspace, temp: &str) {
    let path = Path::new(temp);
    let hidden = path
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with('.'));
    if !hidden || path.extension().is_none_or(|ending| ending != "tmp") {
        return;
    }
    let Ok(Some((folder, name))) =
        resolve_unchanged(workspace, temp).map(|path| path.open_parent_folder(false).ok())
    else {
        return;
    };
    if folder
        .entry_metadata(&name)
        .is_ok_and(|metadata| metadata.is_file())
        && let Err(cause) = folder
            .remove_file_entry(&name)
            .and_then(|()| folder.fsync_folder())
    {
        tracing::warn!(path = temp, %cause, "a file that an earlier life left cannot be taken away");
    }
}

/// Resolves the path if it still leads to itself: no link, inside a workspace, and writable.
fn resolve_unchanged(workspace: &Workspace, path: &str) -> Result<WorkspacePath, String> {
    let resolved = workspace
        .resolve_inside(&RawPath::from(path))
        .map_err(|fault| fault.model_text().to_owned())?;
    if resolved.absolute_path() != Path::new(path) {
        return Err(format!("leads to {} now", resolved.display_text()));
    }
    match resolved.check_writable() {
        Ok(()) => Ok(resolved),
        Err(_) => Err("must not be written".to_owned()),
    }
}

fn read_current_file(workspace: &Workspace, path: &str) -> CurrentFileResult {
    let failed = |cause: io::Error| format!("cannot be read: {}", explain_io_error(cause));
    let path = resolve_unchanged(workspace, path)?;
    let parent = allow_missing(path.open_parent_folder(false)).map_err(failed)?;
    let Some((folder, name)) = parent else {
        return Ok(None);
    };
    let Some(metadata) = allow_missing(folder.entry_metadata(&name)).map_err(failed)? else {
        return Ok(None);
    };
    if !metadata.is_file() {
        return Err("is not a regular file any more".to_owned());
    }
    let sha256 = hash_file(&folder, &name).map_err(failed)?;
    Ok(Some(CurrentFile {
        sha256,
        executable: is_executable(&metadata),
    }))
}

/// Describes one change for the reply.
fn describe_change(intent: &CallIntent, state: &IntentState) -> String {
    let (what, done) = match intent {
        CallIntent::File {
            path,
            after: Some(after),
            ..
        } => (path.as_str(), format!("written, SHA-256 {after}")),
        CallIntent::File {
            path, after: None, ..
        } => (path.as_str(), "removed".to_owned()),
        CallIntent::Move { from, to, .. } => (from.as_str(), format!("moved to {to}")),
        CallIntent::Stage { repository, .. } | CallIntent::Commit { repository, .. } => {
            (repository.as_str(), String::new())
        }
        CallIntent::Vague { what } | CallIntent::Beside { temp: what } => {
            (what.as_str(), String::new())
        }
    };
    match state {
        IntentState::Done => format!("{what}: {done}"),
        IntentState::Before => format!("{what}: not done, it is as it was before"),
        IntentState::Other(words) => format!("{what}: {words}"),
    }
}

fn to_file_changes(intent: &CallIntent) -> Vec<FileChange> {
    let change = |path: &String, before: &Option<String>, after: &Option<String>| FileChange {
        path: path.clone(),
        before: before.clone(),
        after: after.clone(),
    };
    match intent {
        CallIntent::File {
            path,
            before,
            after,
            ..
        } => vec![change(path, before, after)],
        CallIntent::Move { from, to, sha256 } => {
            vec![change(from, sha256, &None), change(to, &None, sha256)]
        }
        _ => Vec::new(),
    }
}
