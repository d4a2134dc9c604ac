//! What a patch changes, file by file, checked and placed before anything is written. Not here: writing (commit), and
//! where hunks belong (placing).

use std::path::Path;
use std::sync::Arc;

use super::lines::FileLines;
use super::rewrite::{self, Edit};
use super::{Action, Hunk, Patch, Section};
use crate::acp::files::LoadedFile;
use crate::acp::{RawPath, WorkspacePath};
use crate::handlers::file::edit::with_change;
use crate::handlers::file::seen_files::SeenLines;
use crate::handlers::file::{FileDeps, mask};
use crate::output::figures::{counted, size};
use crate::tool::{ErrorCode, ToolCx, ToolError};

/// The largest file that is patched.
const MAX_FILE: u64 = 64 << 20;
/// All files of a patch together: they are held in memory until the last is written.
const MAX_ALL: usize = 256 << 20;
/// Faults told at once.
const TOLD: usize = 10;

/// What happens to one file.
#[derive(Debug)]
pub(crate) struct Change {
    /// The file.
    pub path: WorkspacePath,
    /// How it was before; none for a new file, and for one that is only moved.
    pub loaded: Option<LoadedFile>,
    /// What is done.
    pub deed: Deed,
    /// What is to be said of it.
    pub notes: Vec<String>,
}

/// What is done to a file.
#[derive(Debug)]
pub(crate) enum Deed {
    /// It is made.
    Add {
        /// All that it holds.
        content: String,
        /// Whether it is executable.
        executable: Option<bool>,
    },
    /// It goes.
    Delete,
    /// Its content changes, or its right to be run, or its path.
    Update {
        /// The content's change.
        edit: Edit,
        /// Whether it is executable.
        executable: Option<bool>,
        /// The path that it gets.
        move_to: Option<WorkspacePath>,
    },
    /// Nothing, for this reason.
    Nothing(&'static str),
}

/// A section with its file found.
struct Found {
    section: Section,
    path: WorkspacePath,
    move_to: Option<WorkspacePath>,
}

/// Checks all of a patch and places its hunks.
///
/// # Errors
/// Everything that is wrong with it, under the code of the first fault.
pub(crate) async fn plan(cx: &ToolCx, deps: &FileDeps, patch: Patch) -> Result<Vec<Change>, ToolError> {
    let mut faults = Vec::new();
    let mut found: Vec<Found> = Vec::new();
    for section in patch.sections {
        match locate(deps, section).and_then(|this| join(&mut found, this)) {
            Ok(()) => {}
            Err(fault) => faults.push(fault),
        }
    }
    faults.extend(collisions(&found));
    let mut changes = Vec::new();
    let mut held = 0;
    for this in found {
        if cx.is_cancelled() {
            return Err(ToolError::cancelled("The call was cancelled before anything was changed."));
        }
        let line = this.section.line;
        match change(cx, deps, this).await {
            Ok(change) => {
                held += change.loaded.as_ref().map_or(0, |loaded| loaded.bytes.len());
                changes.push(change);
            }
            Err(fault) if fault.code() == ErrorCode::Cancelled => return Err(fault),
            Err(fault) => faults.push(at_line(line, &fault)),
        }
        if held > MAX_ALL {
            let text = format!(
                "The files of this patch are over {} together. Nothing was changed. Split the patch.",
                size(MAX_ALL as u64)
            );
            return Err(ToolError::new(ErrorCode::TooLarge, text));
        }
    }
    match faults.first().map(ToolError::code) {
        None => Ok(changes),
        Some(code) => Err(ToolError::new(code, told(&faults))),
    }
}

/// All faults as one text.
fn told(faults: &[ToolError]) -> String {
    let mut text = String::from("Nothing was changed: a patch is applied whole or not at all.");
    for fault in faults.iter().take(TOLD) {
        text.push('\n');
        if faults.len() > 1 {
            text.push_str("- ");
        }
        text.push_str(fault.text());
    }
    if faults.len() > TOLD {
        let more = counted((faults.len() - TOLD) as u64, "more fault");
        text.push_str("\n[... ");
        text.push_str(&more);
        text.push(']');
    }
    text
}

fn at_line(line: usize, fault: &ToolError) -> ToolError {
    ToolError::new(fault.code(), format!("Line {line} of the patch: {}", fault.text()))
}

/// The file of a section, by the first of its names that is there.
fn locate(deps: &FileDeps, section: Section) -> Result<Found, ToolError> {
    let resolve = |name: &str| {
        deps.workspace
            .resolve(&RawPath::from(name))
            .and_then(|path| match path.protection() {
                Some(protection) => Err(protection.denied(&path.shown())),
                None if path.names_folder() => {
                    Err(ToolError::new(ErrorCode::IsDirectory, format!("{}/ names a folder.", path.shown())))
                }
                None => Ok(path),
            })
            .map_err(|fault| at_line(section.line, &fault))
    };
    let first = resolve(&section.names[0]);
    let is_new = matches!(section.action, Action::Add { .. });
    let path = if is_new || first.as_ref().is_ok_and(WorkspacePath::existed) {
        first?
    } else {
        let other =
            section.names[1..].iter().filter_map(|name| resolve(name).ok()).find(WorkspacePath::existed);
        other.map_or(first, Ok)?
    };
    let move_to = match &section.action {
        Action::Update { move_to: Some(name), .. } => {
            Some(resolve(name)?).filter(|to| to.absolute() != path.absolute())
        }
        _ => None,
    };
    Ok(Found { section, path, move_to })
}

/// Takes a section, or joins it with an earlier one of the same file.
fn join(found: &mut Vec<Found>, this: Found) -> Result<(), ToolError> {
    let Some(other) = found.iter_mut().find(|other| other.path.absolute() == this.path.absolute()) else {
        found.push(this);
        return Ok(());
    };
    let (first, line) = (other.section.line, this.section.line);
    if other.move_to.is_none()
        && this.move_to.is_none()
        && let (
            Action::Update { hunks, executable, .. },
            Action::Update { hunks: more, executable: later, .. },
        ) = (&mut other.section.action, this.section.action)
    {
        hunks.extend(more);
        *executable = later.or(*executable);
        return Ok(());
    }
    let text = format!(
        "Line {line} of the patch: {} is in the patch already, at line {first}. Give one section a file: only two \
         changes of the same file are joined.",
        this.path.shown()
    );
    Err(ToolError::invalid_args(text))
}

/// Paths that two sections want.
fn collisions(found: &[Found]) -> Vec<ToolError> {
    let mut faults = Vec::new();
    for (at, this) in found.iter().enumerate() {
        let Some(to) = &this.move_to else { continue };
        let wants = |other: &Path| other == to.absolute();
        let other = found.iter().enumerate().find(|(other_at, other)| {
            wants(other.path.absolute())
                || (*other_at < at && other.move_to.as_ref().is_some_and(|to| wants(to.absolute())))
        });
        if let Some((_, other)) = other {
            faults.push(ToolError::invalid_args(format!(
                "Line {} of the patch: {} gets the path {}, which line {} of the patch names too. Do it in two \
                 patches.",
                this.section.line,
                this.path.shown(),
                to.shown(),
                other.section.line
            )));
        }
    }
    faults
}

/// What one section does.
async fn change(cx: &ToolCx, deps: &FileDeps, found: Found) -> Result<Change, ToolError> {
    let Found { section, path, move_to } = found;
    let load = |path: &WorkspacePath| deps.client.load_file(cx, path.clone(), MAX_FILE);
    if let Some(to) = move_to.as_ref().filter(|to| to.existed()) {
        let text = format!("{} exists already; {} is not moved over it.", to.shown(), path.shown());
        return Err(ToolError::new(ErrorCode::Stale, text));
    }
    match section.action {
        Action::Add { content, executable } => {
            mask::refuse_over(cx, &path, ("patch", &content)).await?;
            if !path.existed() {
                let deed = Deed::Add { content, executable };
                return Ok(Change { path, loaded: None, deed, notes: Vec::new() });
            }
            let loaded = load(&path).await?;
            if *loaded.bytes == content.as_bytes() {
                let deed = Deed::Nothing("it is there already, with exactly this text");
                return Ok(Change { path, loaded: Some(loaded), deed, notes: Vec::new() });
            }
            let text = format!(
                "{} exists already ({}). Change it with `*** Update File:`, or replace it with Write.",
                path.shown(),
                size(loaded.bytes.len() as u64)
            );
            Err(ToolError::new(ErrorCode::Stale, text))
        }
        Action::Delete { hunks } => {
            let loaded = load(&path).await?;
            if let Some(hunks) = hunks {
                check_whole(cx, &path, loaded.clone(), hunks).await?;
            }
            Ok(Change { path, loaded: Some(loaded), deed: Deed::Delete, notes: Vec::new() })
        }
        Action::Update { hunks, executable, .. } if hunks.is_empty() => {
            // Any regular file can be moved or made executable, whatever it holds.
            let loaded = if executable.is_some() { Some(load(&path).await?) } else { None };
            if loaded.is_none() && !path.existed() {
                load(&path).await?;
            }
            let deed = Deed::Update { edit: Edit::default(), executable, move_to };
            Ok(Change { path, loaded, deed, notes: Vec::new() })
        }
        Action::Update { hunks, executable, .. } => {
            let loaded = load(&path).await?;
            let text: String =
                hunks.iter().flat_map(|hunk| &hunk.lines).map(|line| line.text.as_str()).collect();
            mask::refuse_beside(&path.shown(), &loaded.bytes, &[("patch", &text)])?;
            let changed = deps.seen.change_since(cx, &path, || loaded.sha256(), Some(&loaded.bytes));
            let placed = placed(cx, &path, loaded.clone(), hunks).await;
            let (edit, mut notes) = placed.map_err(|error| with_change(error, changed.as_deref()))?;
            notes.extend(changed);
            let deed = if edit.splices.is_empty() && executable.is_none() && move_to.is_none() {
                Deed::Nothing("all that the patch changes in it is there already")
            } else {
                Deed::Update { edit, executable, move_to }
            };
            Ok(Change { path, loaded: Some(loaded), deed, notes })
        }
    }
}

/// Refuses the removal of a file that holds something else than the patch says.
async fn check_whole(
    cx: &ToolCx,
    path: &WorkspacePath,
    loaded: LoadedFile,
    hunks: Vec<Hunk>,
) -> Result<(), ToolError> {
    let whole = loaded.bytes.len() - loaded.encoding.mark().len();
    let (edit, _) = placed(cx, path, loaded, hunks).await?;
    let len = edit.decoded.as_ref().map_or(whole, Vec::len);
    let gone: usize = edit.splices.iter().map(|splice| splice.range.len()).sum();
    if gone < len || edit.splices.iter().any(|splice| !splice.with.is_empty()) {
        let text = format!(
            "{} holds more than the patch removes. Read it; to remove it whatever it holds, use `*** Delete File:`.",
            path.shown()
        );
        return Err(ToolError::new(ErrorCode::NoMatch, text));
    }
    Ok(())
}

/// The hunks in their places, off the async threads.
async fn placed(
    cx: &ToolCx,
    path: &WorkspacePath,
    loaded: LoadedFile,
    hunks: Vec<Hunk>,
) -> Result<(Edit, Vec<String>), ToolError> {
    let (cancel, shown, uncut) = (cx.cancel.clone(), path.shown(), cx.uncut.clone());
    tokio::task::spawn_blocking(move || {
        rewrite::edit(&shown, &loaded, &hunks, &uncut, &|| cancel.is_cancelled())
    })
    .await
    .map_err(|fault| ToolError::internal(format!("The search broke off: {fault}")))?
}

impl Change {
    /// The bytes that the file holds before, where they are known.
    pub(crate) fn before(&self) -> Option<&Arc<Vec<u8>>> {
        self.loaded.as_ref().map(|loaded| &loaded.bytes)
    }

    /// The file that there is afterwards, with its lines where they are remembered; no file where it goes.
    pub(crate) fn seen_after(&self) -> (Option<&WorkspacePath>, SeenLines) {
        match &self.deed {
            Deed::Add { content, .. } => (Some(&self.path), SeenLines::of_text(content.as_bytes())),
            Deed::Delete | Deed::Nothing(_) => (None, SeenLines::default()),
            Deed::Update { edit, move_to, .. } => {
                let text = edit.decoded.as_deref().or(self.before().map(|bytes| bytes.as_slice()));
                let lines = text.map(|text| SeenLines::of_spliced(text, &edit.splices)).unwrap_or_default();
                (Some(move_to.as_ref().unwrap_or(&self.path)), lines)
            }
        }
    }

    /// How many lines come and go.
    pub(crate) fn lines(&self) -> (usize, usize) {
        let count = |bytes: &[u8]| FileLines::of(bytes, true).len();
        match &self.deed {
            Deed::Add { content, .. } => (count(content.as_bytes()), 0),
            Deed::Delete => (0, self.before().map_or(0, |bytes| count(bytes))),
            Deed::Update { edit, .. } => {
                let text = edit
                    .decoded
                    .as_deref()
                    .or(self.before().map(|bytes| bytes.as_slice()))
                    .unwrap_or_default();
                edit.splices.iter().fold((0, 0), |(added, removed), splice| {
                    // What comes behind an open last line ends that line first.
                    let closes = splice.range.is_empty()
                        && splice.range.start == text.len()
                        && !text.is_empty()
                        && !text.ends_with(b"\n");
                    let come = count(&splice.with) - usize::from(closes);
                    (added + come, removed + count(&text[splice.range.clone()]))
                })
            }
            Deed::Nothing(_) => (0, 0),
        }
    }
}
