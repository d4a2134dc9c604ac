//! Several changes of files as one: all are made or none, also when the runner ends in the middle. Before-images are
//! stored first, then a record of the exact steps, then new contents beside their targets. Then each target is replaced,
//! and last the feature's record changes. Not here: which changes, and the change of one file (file_changes).

use super::file_changes::{check_present_state, has_same_content, read_present_state};
use super::self_mod_area::{SelfModArea, content_error, state_error};
use crate::failpoint::{reach, reach_of};
use crate::home::{
    AppliedFile, ChangePhase, FileState, ModLock, ModStore, PendingChange, PendingFinish,
    PendingStep, StagedFiles,
};
use crate::tool::{ErrorCode, ToolError};

/// Makes a change, or nothing of it. The lock is held for all of it. Blocks.
pub(super) fn make_change(
    area: &SelfModArea,
    lock: &ModLock,
    mut pending: PendingChange,
) -> Result<(), ToolError> {
    for step in &pending.steps {
        store_before_image(area, &step.file)?;
        if let Some(after) = &step.file.after {
            let checked = area.store.check_content(&after.sha256);
            checked.map_err(content_error(&step.file.path))?;
        }
    }
    write_phase(area, lock, &mut pending, ChangePhase::Staging)?;
    reach("selfmod.recorded");
    if let Err(error) = write_all_beside(area, &pending.steps) {
        clear_beside(area, &pending.steps)?;
        end_change(area, lock)?;
        return Err(error);
    }
    write_phase(area, lock, &mut pending, ChangePhase::Committed)?;
    reach("selfmod.committed");
    if let Err(error) = place_steps(area, &pending.steps) {
        take_back_change(area, lock, &mut pending)?;
        let text = format!(
            "{} Nothing is changed: what was changed before that is as it was.",
            error.model_text()
        );
        return Err(ToolError::new(error.stable_code(), text));
    }
    finish_change(area, lock, &pending)
}

/// Finishes or takes back the change that a crash cut off, if there is one. Blocks.
pub(super) fn finish_pending(area: &SelfModArea, lock: &ModLock) -> Result<(), ToolError> {
    let Some(mut pending) = area.store.read_pending(lock).map_err(state_error)? else {
        return Ok(());
    };
    if area.root.to_str() != Some(&pending.root) {
        return Err(state_error(format!(
            "a change of files below {} was cut off. Set root to that folder under [self_mod] in config.toml, and start \
             the runner once.",
            pending.root
        )));
    }
    let is_commit = pending.phase == ChangePhase::Committed;
    let is_foreign = |step: &PendingStep| {
        progress_of(area, step).map(|progress| progress == StepProgress::Foreign)
    };
    let mut has_foreign = false;
    for step in &pending.steps {
        has_foreign |= is_commit && is_foreign(step)?;
    }
    if !is_commit || has_foreign {
        take_back_change(area, lock, &mut pending)?;
        tracing::warn!(feature = %pending.feature, "a change that a crash cut off was taken back");
        return Ok(());
    }
    for step in &pending.steps {
        if progress_of(area, step)? == StepProgress::Before {
            area.remove_beside(step)
                .map_err(|cause| ToolError::from_io(&step.file.path, &cause))?;
            area.write_beside(step)?;
            area.place_step(step)?;
        }
    }
    finish_change(area, lock, &pending)?;
    tracing::info!(feature = %pending.feature, "a change that a crash cut off was finished");
    Ok(())
}

/// The progress of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepProgress {
    Before,
    Done,
    /// The file was changed by somebody else.
    Foreign,
}

fn progress_of(area: &SelfModArea, step: &PendingStep) -> Result<StepProgress, ToolError> {
    let path = area.real_path(&step.file.path)?;
    let Ok(present) = read_present_state(&path) else {
        return Ok(StepProgress::Foreign);
    };
    Ok(if present == step.file.after {
        StepProgress::Done
    } else if has_same_content(present.as_ref(), step.file.before.as_ref()) {
        StepProgress::Before
    } else {
        StepProgress::Foreign
    })
}

fn store_before_image(area: &SelfModArea, file: &AppliedFile) -> Result<(), ToolError> {
    let Some(before) = &file.before else {
        return Ok(());
    };
    let path = area.real_path(&file.path)?;
    let stored = path
        .open_for_reading()
        .and_then(|opened| area.store.store_content(opened));
    let (sha256, _) = stored.map_err(|cause| ToolError::from_io(path.display_text(), &cause))?;
    if sha256 == before.sha256 {
        Ok(())
    } else {
        Err(conflict_error(&[format!(
            "{}: it was changed just now",
            file.path
        )]))
    }
}

/// Writes all new contents, then checks that no target has changed since it was compared.
fn write_all_beside(area: &SelfModArea, steps: &[PendingStep]) -> Result<(), ToolError> {
    for step in steps {
        area.write_beside(step)?;
        reach_of("selfmod.beside", &step.file.path);
    }
    let mut conflicts = Vec::new();
    for step in steps {
        let path = area.real_path(&step.file.path)?;
        let checked = check_present_state(&path, &step.file.path, step.file.before.as_ref());
        conflicts.extend(checked.err());
    }
    if conflicts.is_empty() {
        Ok(())
    } else {
        Err(conflict_error(&conflicts))
    }
}

fn place_steps(area: &SelfModArea, steps: &[PendingStep]) -> Result<(), ToolError> {
    for step in steps {
        area.place_step(step)?;
        reach_of("selfmod.placed", &step.file.path);
    }
    Ok(())
}

/// Brings every file back that the change has replaced, and removes what it wrote beside the others.
fn take_back_change(
    area: &SelfModArea,
    lock: &ModLock,
    pending: &mut PendingChange,
) -> Result<(), ToolError> {
    let was_committed = pending.phase != ChangePhase::Staging;
    clear_beside(area, &pending.steps)?;
    if was_committed {
        write_phase(area, lock, pending, ChangePhase::TakingBack)?;
        for step in &pending.steps {
            if progress_of(area, step)? != StepProgress::Done || step.file.before == step.file.after
            {
                continue;
            }
            let back = PendingStep {
                file: AppliedFile {
                    before: step.file.after.clone(),
                    after: step.file.before.clone(),
                    ..step.file.clone()
                },
                temp: step.temp.clone(),
            };
            area.write_beside(&back)?;
            area.place_step(&back)?;
        }
    }
    end_change(area, lock)
}

fn clear_beside(area: &SelfModArea, steps: &[PendingStep]) -> Result<(), ToolError> {
    for step in steps {
        area.remove_beside(step)
            .map_err(|cause| ToolError::from_io(&step.file.path, &cause))?;
    }
    Ok(())
}

/// Changes the feature's record, clears what was staged, and removes the record of the change.
fn finish_change(
    area: &SelfModArea,
    lock: &ModLock,
    pending: &PendingChange,
) -> Result<(), ToolError> {
    let read = area.store.read_feature(&pending.feature);
    let Some(mut feature) = read.map_err(state_error)? else {
        return Err(state_error(format!(
            "the record of {} is gone",
            pending.feature
        )));
    };
    feature.finish_change(&pending.finish, ModStore::unix_time_ms());
    let written = area.store.write_feature(lock, &feature);
    written.map_err(state_error)?;
    reach("selfmod.finished");
    if matches!(pending.finish, PendingFinish::Append(_)) {
        let cleared = StagedFiles::default();
        let written = area.store.write_staged(lock, &pending.feature, &cleared);
        written.map_err(state_error)?;
        reach("selfmod.cleared");
    }
    end_change(area, lock)?;
    reach("selfmod.ended");
    Ok(())
}

fn end_change(area: &SelfModArea, lock: &ModLock) -> Result<(), ToolError> {
    area.store.write_pending(lock, None).map_err(state_error)
}

fn write_phase(
    area: &SelfModArea,
    lock: &ModLock,
    pending: &mut PendingChange,
    phase: ChangePhase,
) -> Result<(), ToolError> {
    pending.phase = phase;
    let written = area.store.write_pending(lock, Some(pending));
    written.map_err(state_error)
}

/// Builds the error for files that are not as expected.
pub(super) fn conflict_error(conflicts: &[String]) -> ToolError {
    let text = format!(
        "Nothing was changed, because these files are not as they were left:\n{}\nRead them and decide. SelfModRevert \
         with discard_staged drops what is staged.",
        conflicts.join("\n")
    );
    ToolError::new(ErrorCode::Stale, text)
}

/// Returns the content that a file gets: the staged one, with the mode that the real file has now if the staging did
/// not change it.
pub(super) fn keep_present_mode(
    wanted: Option<&FileState>,
    base: Option<&FileState>,
    present: Option<&FileState>,
) -> Option<FileState> {
    let mut wanted = wanted?.clone();
    if base.is_some_and(|base| base.mode == wanted.mode)
        && let Some(present) = present
    {
        wanted.mode = present.mode;
    }
    Some(wanted)
}
