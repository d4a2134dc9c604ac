//! Several changes of files as one: all are made or none, also when the runner ends in the middle. Before-images are
//! stored first, then a record of the exact steps, then new contents beside their targets. Then each target is
//! replaced, and last the feature's record changes.

use super::file_changes::{
    changed_executable, check_present_state, has_same_content, read_present_state,
};
use super::self_mod_area::{SelfModArea, content_error, state_error};
use punie_core::failpoint::{reach, reach_of};
use punie_home::{
    AppliedFile, ChangePhase, FileState, HomeError, ModLock, ModStore, PendingChange,
    PendingFinish, PendingStep, StagedFiles,
};
use punie_tool::{ErrorCode, ToolError};

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
        clear_beside(area, &pending.steps);
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
    finish_change(area, lock, &pending).map_err(|cause| {
        let text = format!(
            "The files are changed as asked, but the record of it could not be written: {cause}. The next call of these \
             tools writes it."
        );
        ToolError::new(ErrorCode::Io, text)
    })
}

/// Finishes or takes back the change that a crash cut off, if there is one. Blocks.
pub(super) fn finish_pending(area: &SelfModArea, lock: &ModLock) -> Result<(), ToolError> {
    let Some(mut pending) = area.store.read_pending(lock).map_err(state_error)? else {
        return Ok(());
    };
    if area.root_text() != pending.root {
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
    if let Err(error) = finish_steps(area, &pending.steps) {
        tracing::warn!(feature = %pending.feature, %error, "a change that a crash cut off cannot be finished");
        return take_back_change(area, lock, &mut pending);
    }
    finish_change(area, lock, &pending).map_err(state_error)?;
    tracing::info!(feature = %pending.feature, "a change that a crash cut off was finished");
    Ok(())
}

/// Makes the changes of files that a crash has left out.
fn finish_steps(area: &SelfModArea, steps: &[PendingStep]) -> Result<(), ToolError> {
    for step in steps {
        if progress_of(area, step)? == StepProgress::Before {
            area.complete_beside(step)?;
            area.place_step(step)?;
            reach_of("selfmod.completed", &step.file.path);
        }
    }
    Ok(())
}

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
    let before = step.file.before.as_ref();
    let after = step.file.after.as_ref();
    let has_mode = || {
        let bits = |state: Option<&FileState>| state.and_then(|state| state.mode);
        changed_executable(&step.file).is_none_or(|wanted| {
            bits(present.as_ref()).is_some_and(|mode| (mode & 0o100 != 0) == wanted)
        })
    };
    // The mode decides only where the content stays: somebody may have changed it since.
    let is_done = has_same_content(present.as_ref(), after)
        && (!has_same_content(before, after) || has_mode());
    Ok(if is_done {
        StepProgress::Done
    } else if has_same_content(present.as_ref(), before) {
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
    clear_beside(area, &pending.steps);
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
            area.complete_beside(&back)?;
            area.place_step(&back)?;
            reach_of("selfmod.taken_back", &back.file.path);
        }
    }
    end_change(area, lock)
}

fn clear_beside(area: &SelfModArea, steps: &[PendingStep]) {
    for step in steps {
        area.remove_beside(step);
    }
}

/// Changes the feature's record, clears what was staged, and removes the record of the change.
fn finish_change(
    area: &SelfModArea,
    lock: &ModLock,
    pending: &PendingChange,
) -> Result<(), HomeError> {
    if let Some(mut feature) = area.store.read_feature(&pending.feature)? {
        feature.finish_change(&pending.finish, ModStore::unix_time_ms());
        area.store.write_feature(lock, &feature)?;
    } else {
        tracing::warn!(feature = %pending.feature, "the record of a changed feature is gone");
    }
    reach("selfmod.finished");
    if matches!(pending.finish, PendingFinish::Append(_)) {
        let cleared = StagedFiles::default();
        area.store.write_staged(lock, &pending.feature, &cleared)?;
        reach("selfmod.cleared");
    }
    area.store.write_pending(lock, None)?;
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
