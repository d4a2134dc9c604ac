//! Plans the changes of a patch file by file, and checks and places all of it before any write.

use super::apply_hunks::{ContentEdit, edit_content};
use super::located_section::{
    LocatedSection, find_collisions, find_mixed_staging, join_sections, locate_section,
    with_patch_line,
};
use super::{Hunk, Patch, SectionAction};
use crate::file::edit_plan::append_change_note;
use crate::file::seen_files::SeenLines;
use crate::file::{FileDeps, mask_guard};
use punie_host::WorkspacePath;
use punie_host::files::{FileEncoding, LoadedFile};
use punie_text::output::number_format::{format_count, format_size};
use punie_tool::{ErrorCode, ToolContext, ToolError};

/// The largest file that can be patched.
const MAX_FILE: u64 = 64 << 20;
/// The most bytes of all files of a patch, which are in memory until the last is written.
const MAX_ALL: usize = 256 << 20;
/// The most faults listed at once.
const MAX_FAULTS: usize = 10;

/// The change of one file.
#[derive(Debug)]
pub(crate) struct PlannedChange {
    /// The file.
    pub path: WorkspacePath,
    /// Its state before; `None` for a new file, and for one that is only moved.
    pub loaded: Option<LoadedFile>,
    pub action: PlannedAction,
    /// Notes for the answer.
    pub notes: Vec<String>,
}

/// A change that is ready to be made.
#[derive(Debug)]
pub(crate) enum PlannedAction {
    /// Creates the file.
    Add {
        /// The whole content.
        content: String,
        /// The executable bit.
        executable: Option<bool>,
    },
    /// Removes the file.
    Delete,
    /// Changes the file's content, its executable bit, or its path.
    Update {
        /// The change of the content.
        edit: ContentEdit,
        /// The executable bit.
        executable: Option<bool>,
        move_to: Option<WorkspacePath>,
    },
    /// Changes nothing, for this reason.
    Unchanged(&'static str),
}

/// Checks a whole patch and places its hunks.
///
/// # Errors
/// All faults of the patch, under the code of the first.
pub(crate) async fn plan_patch(
    cx: &ToolContext,
    deps: &FileDeps,
    patch: Patch,
) -> Result<Vec<PlannedChange>, ToolError> {
    let mut faults = Vec::new();
    let mut found: Vec<LocatedSection> = Vec::new();
    for section in patch.sections {
        let located = locate_section(cx, deps, section).await;
        let joined = located.and_then(|this| join_sections(&mut found, this));
        faults.extend(joined.err());
    }
    faults.extend(find_collisions(&found));
    faults.extend(find_mixed_staging(&found));
    let mut changes = Vec::new();
    let mut loaded_bytes = 0;
    for this in found {
        if cx.is_cancelled() {
            return Err(ToolError::call_cancelled(
                "The call was cancelled before anything was changed.",
            ));
        }
        let line = this.section.line;
        match plan_section(cx, deps, this).await {
            Ok(change) => {
                loaded_bytes += change
                    .loaded
                    .as_ref()
                    .map_or(0, |loaded| loaded.bytes.len());
                changes.push(change);
            }
            Err(fault) if fault.stable_code() == ErrorCode::Cancelled => return Err(fault),
            Err(fault) => faults.push(with_patch_line(line, &fault)),
        }
        if loaded_bytes > MAX_ALL {
            let text = format!(
                "The files of this patch are over {} together. Nothing was changed. Split the patch.",
                format_size(MAX_ALL as u64)
            );
            return Err(ToolError::new(ErrorCode::TooLarge, text));
        }
    }
    match faults.first().map(ToolError::stable_code) {
        None => Ok(changes),
        Some(code) => Err(ToolError::new(code, list_faults(&faults))),
    }
}

fn list_faults(faults: &[ToolError]) -> String {
    let mut text = String::from("Nothing was changed: a patch is applied whole or not at all.");
    let mark = if faults.len() > 1 { "- " } else { "" };
    for fault in faults.iter().take(MAX_FAULTS) {
        text.extend(["\n", mark, fault.model_text()]);
    }
    if faults.len() > MAX_FAULTS {
        let more = format_count((faults.len() - MAX_FAULTS) as u64, "more fault");
        text.extend(["\n[... ", &more, "]"]);
    }
    text
}

/// Plans the change of one section.
async fn plan_section(
    cx: &ToolContext,
    deps: &FileDeps,
    found: LocatedSection,
) -> Result<PlannedChange, ToolError> {
    let LocatedSection {
        section,
        path,
        move_to,
    } = found;
    if let Some(to) = move_to.as_ref().filter(|to| to.existed_when_resolved()) {
        let text = format!(
            "{} exists already; {} is not moved over it.",
            to.display_text(),
            path.display_text()
        );
        return Err(ToolError::new(ErrorCode::Stale, text));
    }
    match section.action {
        SectionAction::Add {
            content,
            executable,
        } => plan_new_file(cx, deps, path, content, executable).await,
        SectionAction::Delete { hunks } => {
            let loaded = load_whole(cx, deps, &path).await?;
            if let Some(hunks) = hunks {
                check_whole_removal(cx, &path, loaded.clone(), hunks).await?;
            }
            let action = PlannedAction::Delete;
            Ok(PlannedChange::new(path, Some(loaded), action))
        }
        SectionAction::Update {
            hunks, executable, ..
        } if hunks.is_empty() => {
            // Any regular file can be moved or made executable, with any content.
            let loaded = if executable.is_some() || !path.existed_when_resolved() {
                Some(load_whole(cx, deps, &path).await?)
            } else {
                None
            };
            let action = PlannedAction::Update {
                edit: ContentEdit::default(),
                executable,
                move_to,
            };
            Ok(PlannedChange::new(path, loaded, action))
        }
        SectionAction::Update {
            hunks, executable, ..
        } => plan_update(cx, deps, path, hunks, executable, move_to).await,
    }
}

async fn load_whole(
    cx: &ToolContext,
    deps: &FileDeps,
    path: &WorkspacePath,
) -> Result<LoadedFile, ToolError> {
    deps.client.load_file(cx, path.clone(), MAX_FILE).await
}

async fn plan_new_file(
    cx: &ToolContext,
    deps: &FileDeps,
    path: WorkspacePath,
    content: String,
    executable: Option<bool>,
) -> Result<PlannedChange, ToolError> {
    mask_guard::refuse_masked_overwrite(cx, deps, &path, ("patch", &content)).await?;
    if !path.existed_when_resolved() {
        let action = PlannedAction::Add {
            content,
            executable,
        };
        return Ok(PlannedChange::new(path, None, action));
    }
    let loaded = load_whole(cx, deps, &path).await?;
    check_same_content(&path, &loaded, &content)?;
    let action = PlannedAction::Unchanged("it is there already, with exactly this text");
    Ok(PlannedChange::new(path, Some(loaded), action))
}

async fn plan_update(
    cx: &ToolContext,
    deps: &FileDeps,
    path: WorkspacePath,
    hunks: Vec<Hunk>,
    executable: Option<bool>,
    move_to: Option<WorkspacePath>,
) -> Result<PlannedChange, ToolError> {
    let loaded = load_whole(cx, deps, &path).await?;
    let lines = hunks.iter().flat_map(|hunk| &hunk.lines);
    let lines: String = lines.map(|line| line.text.as_str()).collect();
    mask_guard::refuse_unless_masked(&path.display_text(), &loaded.bytes, &[("patch", &lines)])?;
    let changed =
        deps.seen
            .describe_change_since(cx, &path, || loaded.bytes_sha256(), Some(&loaded.bytes));
    let edited = edit_loaded(cx, &path, loaded.clone(), hunks).await;
    let (edit, said) = edited.map_err(|error| append_change_note(error, changed.as_deref()))?;
    let action = if edit.splices.is_empty() && executable.is_none() && move_to.is_none() {
        PlannedAction::Unchanged("all that the patch changes in it is there already")
    } else {
        PlannedAction::Update {
            edit,
            executable,
            move_to,
        }
    };
    let mut change = PlannedChange::new(path, Some(loaded), action);
    change.notes.extend(said.into_iter().chain(changed));
    Ok(change)
}

/// Refuses to create a file that exists with another text.
fn check_same_content(
    path: &WorkspacePath,
    loaded: &LoadedFile,
    content: &str,
) -> Result<(), ToolError> {
    if *loaded.bytes == content.as_bytes() {
        return Ok(());
    }
    let text = format!(
        "{} exists already ({}). Change it with `*** Update File:`, or replace it with Write.",
        path.display_text(),
        format_size(loaded.bytes.len() as u64)
    );
    Err(ToolError::new(ErrorCode::Stale, text))
}

/// Refuses the removal of a file whose content differs from the patch.
async fn check_whole_removal(
    cx: &ToolContext,
    path: &WorkspacePath,
    loaded: LoadedFile,
    hunks: Vec<Hunk>,
) -> Result<(), ToolError> {
    let (edit, _) = edit_loaded(cx, path, loaded, hunks).await?;
    let text = edit
        .text
        .strip_prefix(FileEncoding::Utf8Bom.bom_bytes())
        .unwrap_or(&edit.text);
    let gone: usize = edit.splices.iter().map(|splice| splice.range.len()).sum();
    if gone < text.len() || edit.splices.iter().any(|splice| !splice.with.is_empty()) {
        let text = format!(
            "{} holds more than the patch removes. Read it; to remove it whatever it holds, use `*** Delete File:`.",
            path.display_text()
        );
        return Err(ToolError::new(ErrorCode::NoMatch, text));
    }
    Ok(())
}

/// Applies the hunks to a file's content, off the async threads.
async fn edit_loaded(
    cx: &ToolContext,
    path: &WorkspacePath,
    loaded: LoadedFile,
    hunks: Vec<Hunk>,
) -> Result<(ContentEdit, Vec<String>), ToolError> {
    let cancel = cx.cancel.clone();
    let shown = path.display_text();
    let uncut = cx.secret_boundaries.clone();
    tokio::task::spawn_blocking(move || {
        edit_content(&shown, &loaded, &hunks, &uncut, &|| cancel.is_cancelled())
    })
    .await
    .map_err(|fault| ToolError::internal(format!("The search broke off: {fault}")))?
}

impl PlannedChange {
    fn new(path: WorkspacePath, loaded: Option<LoadedFile>, action: PlannedAction) -> Self {
        Self {
            path,
            loaded,
            action,
            notes: Vec::new(),
        }
    }

    /// The file's bytes before the change, as far as they were loaded.
    pub(crate) fn loaded_bytes(&self) -> &[u8] {
        self.loaded.as_ref().map_or(&[], |loaded| &loaded.bytes)
    }

    /// The file after the change, with its lines if they are recorded; `None` if it is removed.
    pub(crate) fn seen_after(&self) -> Option<(&WorkspacePath, SeenLines)> {
        match &self.action {
            PlannedAction::Add { content, .. } => {
                Some((&self.path, SeenLines::from_whole_text(content.as_bytes())))
            }
            PlannedAction::Delete | PlannedAction::Unchanged(_) => None,
            PlannedAction::Update { edit, move_to, .. } => {
                let loaded = self.loaded.as_ref().map(|loaded| &loaded.bytes);
                let text = if edit.text.is_empty() {
                    loaded
                } else {
                    Some(&edit.text)
                };
                let lines = text.map(|text| SeenLines::from_spliced(text, &edit.splices));
                Some((
                    move_to.as_ref().unwrap_or(&self.path),
                    lines.unwrap_or_default(),
                ))
            }
        }
    }

    /// The numbers of added and removed lines.
    pub(crate) fn count_lines(&self) -> (usize, usize) {
        let count = |bytes: &[u8]| bytes.split_inclusive(|byte| *byte == b'\n').count();
        match &self.action {
            PlannedAction::Add { content, .. } => (count(content.as_bytes()), 0),
            PlannedAction::Delete => (0, count(self.loaded_bytes())),
            PlannedAction::Update { edit, .. } => {
                edit.splices
                    .iter()
                    .fold((0, 0), |(added, removed), splice| {
                        let range = &splice.range;
                        // Text added after an unterminated last line ends that line first.
                        let closes = range.is_empty()
                            && range.start == edit.text.len()
                            && edit.text.last().is_some_and(|byte| *byte != b'\n');
                        let come = count(&splice.with) - usize::from(closes);
                        (added + come, removed + count(&edit.text[range.clone()]))
                    })
            }
            PlannedAction::Unchanged(_) => (0, 0),
        }
    }
}
