//! Recovers file changes that a call declared before the runner ended: compares them with the disk, finishes them
//! where possible, and removes temporary files. Not here: the decision to run the call again (the engine), and
//! repositories (the git handlers).
//!
//! Each file is opened again beneath its workspace, as a call would open it. A path that has become a link, or lies
//! outside every workspace now, is neither read nor changed.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use super::removal::hash;
use crate::acp::workspace::{Folder, in_words};
use crate::acp::{RawPath, Workspace, WorkspacePath};
use crate::tool::{Aftermath, FileChange, Intent, Meta, Reply};

/// The state of one declared change on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Done,
    /// The file is as it was before the change.
    Before,
    /// Neither done nor untouched, with a description.
    Other(String),
}

/// The file at a path, or `None` if there is none.
type Found = Result<Option<Now>, String>;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Now {
    sha256: String,
    executable: Option<bool>,
}

/// Finds out which of these changes were made; they are given in the order in which they were to be made. If some
/// were made and the disk holds all that the others need, makes the others now. Blocks.
pub fn settle(workspace: &Workspace, intents: &[Intent]) -> Aftermath {
    // A temporary file beside the target is no change of its own.
    let mut changed: Vec<Intent> =
        intents.iter().filter(|intent| !matches!(intent, Intent::Beside { .. })).cloned().collect();
    // New contents come before new paths, because one file may get both.
    changed.sort_by_key(|intent| !matches!(intent, Intent::File { .. }));
    let found = settle_changes(workspace, &changed);
    for intent in intents {
        if let Intent::File { temp, .. } | Intent::Beside { temp } = intent {
            clear(workspace, temp);
        }
    }
    found
}

fn settle_changes(workspace: &Workspace, intents: &[Intent]) -> Aftermath {
    let mut states = Look::at(workspace, intents).states(intents);
    let mut finished_now = false;
    if states.contains(&State::Done)
        && states.contains(&State::Before)
        && can_go_on(workspace, intents, &states)
    {
        let left = intents.iter().zip(&states).filter(|(_, state)| **state == State::Before);
        for (intent, _) in left {
            if let Err(cause) = go_on(workspace, intent) {
                tracing::warn!(%cause, "a change that a crash cut off could not be finished");
                break;
            }
        }
        states = Look::at(workspace, intents).states(intents);
        finished_now = true;
    }
    if states.iter().all(|state| *state == State::Before) {
        return Aftermath::Untouched;
    }
    let lines: Vec<String> = intents.iter().zip(&states).map(|(intent, state)| line(intent, state)).collect();
    let files: Vec<FileChange> = intents
        .iter()
        .zip(&states)
        .filter(|(_, state)| **state == State::Done)
        .flat_map(|(intent, _)| changes(intent))
        .collect();
    let sha256 = match files.as_slice() {
        [only] => only.after.clone(),
        _ => None,
    };
    let meta = Meta { sha256, files, recovered: true, ..Meta::default() };
    if states.iter().any(|state| *state != State::Done) {
        return Aftermath::Unclear { text: lines.join("\n"), meta: Box::new(meta) };
    }
    let how = if finished_now {
        "The device's runner ended in the middle of this; the rest of it was done from what was ready on the disk. \
         Nothing was done twice."
    } else {
        "Done as asked before the device's runner ended; nothing was done twice."
    };
    Aftermath::Done(Box::new(Reply::text(format!("{how}\n{}", lines.join("\n"))).with_meta(meta)))
}

/// The files at all paths that the changes name.
struct Look(HashMap<String, Found>);

impl Look {
    fn at(workspace: &Workspace, intents: &[Intent]) -> Self {
        let paths = intents.iter().flat_map(|intent| match intent {
            Intent::File { path, .. } => vec![path],
            Intent::Move { from, to, .. } => vec![from, to],
            _ => Vec::new(),
        });
        Self(paths.map(|path| (path.clone(), now(workspace, path))).collect())
    }

    fn now(&self, path: &str) -> Found {
        self.0.get(path).cloned().unwrap_or(Ok(None))
    }

    fn states(&self, intents: &[Intent]) -> Vec<State> {
        intents.iter().map(|intent| self.state(intent, intents)).collect()
    }

    fn state(&self, intent: &Intent, all: &[Intent]) -> State {
        match intent {
            Intent::File { path, before, after, executable, .. } => {
                // A file that was written and then moved is looked up at its new path.
                let moved = all.iter().find_map(|other| match other {
                    Intent::Move { from, to, .. } if from == path => Some(to),
                    _ => None,
                });
                let found = match (self.now(path), moved) {
                    (Ok(None), Some(to)) => self.now(to),
                    (found, _) => found,
                };
                let now = match found {
                    Ok(now) => now,
                    Err(why) => return State::Other(why),
                };
                let sha256 = now.as_ref().map(|now| &now.sha256);
                let runs = now.as_ref().and_then(|now| now.executable);
                let mode_is_set = executable.is_none() || runs.is_none() || *executable == runs;
                if sha256 == after.as_ref() && mode_is_set {
                    State::Done
                } else if sha256 == before.as_ref() {
                    State::Before
                } else {
                    State::Other(match sha256 {
                        Some(sha256) => format!("holds something else now, SHA-256 {sha256}"),
                        None => "is not there any more".to_owned(),
                    })
                }
            }
            Intent::Move { from, to, sha256 } => match (self.now(from), self.now(to)) {
                (Err(why), _) | (_, Err(why)) => State::Other(why),
                (Ok(None), Ok(Some(now))) if sha256.as_ref().is_none_or(|sha256| now.sha256 == *sha256) => {
                    State::Done
                }
                (Ok(Some(_)), Ok(None)) => State::Before,
                (Ok(Some(_)), Ok(Some(_))) => State::Other(format!("is there, and so is {to}")),
                (Ok(None), _) => State::Other("is not there any more".to_owned()),
            },
            _ => State::Other("cannot be told".to_owned()),
        }
    }
}

/// Returns whether the disk holds all that the unfinished changes need.
fn can_go_on(workspace: &Workspace, intents: &[Intent], states: &[State]) -> bool {
    intents.iter().zip(states).all(|(intent, state)| match (state, intent) {
        (State::Before, Intent::File { after: Some(after), temp, .. }) => {
            matches!(now(workspace, temp), Ok(Some(now)) if now.sha256 == *after)
        }
        (State::Done, _) | (State::Before, Intent::File { .. } | Intent::Move { .. }) => true,
        (State::Other(_) | State::Before, _) => false,
    })
}

/// Makes a change that was not made.
fn go_on(workspace: &Workspace, intent: &Intent) -> Result<(), String> {
    let failed = |cause: io::Error| in_words(cause).to_string();
    match intent {
        Intent::File { path, before, after, temp, .. } => {
            let (folder, name) = spot(workspace, path)?.open_parent(false).map_err(failed)?;
            let temp = Path::new(temp).file_name().unwrap_or_default();
            match (before, after) {
                (_, None) => folder.remove(&name),
                (Some(_), Some(_)) => folder.rename(temp, &name),
                (None, Some(_)) => folder.rename_new(temp, &name),
            }
            .and_then(|()| folder.sync())
            .map_err(failed)
        }
        Intent::Move { from, to, .. } => {
            let (folder, name) = spot(workspace, from)?.open_parent(false).map_err(failed)?;
            let (new_folder, new_name) = spot(workspace, to)?.open_parent(true).map_err(failed)?;
            folder
                .move_new(&name, &new_folder, &new_name)
                .and_then(|()| new_folder.sync())
                .and_then(|()| folder.sync())
                .map_err(failed)
        }
        _ => Err("there is nothing to go on with".to_owned()),
    }
}

/// Removes one of our temporary files beside a target, if the name has our form and it is a regular file.
fn clear(workspace: &Workspace, temp: &str) {
    let path = Path::new(temp);
    let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    if !hidden || path.extension().is_none_or(|ending| ending != "tmp") {
        return;
    }
    let Ok(Some((folder, name))) = spot(workspace, temp).map(|path| folder_of(&path).ok().flatten()) else {
        return;
    };
    if folder.metadata(&name).is_ok_and(|metadata| metadata.is_file())
        && let Err(cause) = folder.remove(&name).and_then(|()| folder.sync())
    {
        tracing::warn!(path = temp, %cause, "a file that an earlier life left cannot be taken away");
    }
}

/// Resolves the path if it still leads to itself: no link, inside a workspace, and writable.
fn spot(workspace: &Workspace, path: &str) -> Result<WorkspacePath, String> {
    let resolved = workspace.resolve(&RawPath::from(path)).map_err(|fault| fault.text().to_owned())?;
    if resolved.absolute() != Path::new(path) {
        return Err(format!("leads to {} now", resolved.shown()));
    }
    if resolved.protection().is_some() {
        return Err("must not be written".to_owned());
    }
    Ok(resolved)
}

fn now(workspace: &Workspace, path: &str) -> Found {
    let failed = |cause: io::Error| format!("cannot be read: {}", in_words(cause));
    let path = spot(workspace, path)?;
    let Some((folder, name)) = folder_of(&path).map_err(failed)? else { return Ok(None) };
    let metadata = match folder.metadata(&name) {
        Ok(metadata) => metadata,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed(cause)),
    };
    if !metadata.is_file() {
        return Err("is not a regular file any more".to_owned());
    }
    let sha256 = hash(&folder, &name).map_err(failed)?;
    Ok(Some(Now { sha256, executable: is_executable(&metadata) }))
}

/// Opens the parent folder, or returns `None` if it does not exist.
fn folder_of(path: &WorkspacePath) -> io::Result<Option<(Folder, OsString)>> {
    match path.open_parent(false) {
        Ok(spot) => Ok(Some(spot)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "not every system has this")]
fn is_executable(metadata: &std::fs::Metadata) -> Option<bool> {
    use std::os::unix::fs::PermissionsExt as _;
    Some(metadata.permissions().mode() & 0o100 != 0)
}

#[cfg(not(unix))]
fn is_executable(_metadata: &std::fs::Metadata) -> Option<bool> {
    None
}

/// Describes one change for the reply.
fn line(intent: &Intent, state: &State) -> String {
    let (what, done) = match intent {
        Intent::File { path, after: Some(after), .. } => (path.as_str(), format!("written, SHA-256 {after}")),
        Intent::File { path, after: None, .. } => (path.as_str(), "removed".to_owned()),
        Intent::Move { from, to, .. } => (from.as_str(), format!("moved to {to}")),
        Intent::Stage { repository, .. } | Intent::Commit { repository, .. } => {
            (repository.as_str(), String::new())
        }
        Intent::Vague { what } | Intent::Beside { temp: what } => (what.as_str(), String::new()),
    };
    match state {
        State::Done => format!("{what}: {done}"),
        State::Before => format!("{what}: not done, it is as it was before"),
        State::Other(words) => format!("{what}: {words}"),
    }
}

fn changes(intent: &Intent) -> Vec<FileChange> {
    let change = |path: &String, before: &Option<String>, after: &Option<String>| FileChange {
        path: path.clone(),
        before: before.clone(),
        after: after.clone(),
    };
    match intent {
        Intent::File { path, before, after, .. } => vec![change(path, before, after)],
        Intent::Move { from, to, sha256 } => {
            vec![change(from, sha256, &None), change(to, &None, sha256)]
        }
        _ => Vec::new(),
    }
}
