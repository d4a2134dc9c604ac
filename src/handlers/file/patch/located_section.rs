//! Resolves the file of each section of a patch: chooses the existing name, joins sections of the same file, refuses
//! collisions.

use std::path::Path;

use super::{PatchFileSection, SectionAction};
use crate::file::FileDeps;
use punie_host::{RawPath, WorkspacePath};
use punie_tool::{ErrorCode, ToolContext, ToolError};

/// A section with its resolved file.
pub(super) struct LocatedSection {
    pub(super) section: PatchFileSection,
    pub(super) path: WorkspacePath,
    pub(super) move_to: Option<WorkspacePath>,
}

async fn resolve_file(
    cx: &ToolContext,
    deps: &FileDeps,
    name: &str,
) -> Result<WorkspacePath, ToolError> {
    let path = deps.resolve_for_call(cx, &RawPath::from(name)).await?;
    path.check_writable()?;
    if path.names_folder() {
        let text = format!("{}/ names a folder.", path.display_text());
        return Err(ToolError::new(ErrorCode::IsDirectory, text));
    }
    Ok(path)
}

/// Refuses a patch of which one part is staged and another would be written at once.
pub(super) fn find_mixed_staging(found: &[LocatedSection]) -> Option<ToolError> {
    let mut paths = found
        .iter()
        .flat_map(|this| [Some(&this.path), this.move_to.as_ref()])
        .flatten();
    let first = paths.next()?;
    let other = paths.find(|path| path.is_staged() != first.is_staged())?;
    let text = format!(
        "Changes of {} are staged and those of {} are not, or the other way round. Split the patch.",
        first.display_text(),
        other.display_text()
    );
    Some(ToolError::invalid_args(text))
}

/// Adds the line of the patch to a fault.
pub(super) fn with_patch_line(line: usize, fault: &ToolError) -> ToolError {
    ToolError::new(
        fault.stable_code(),
        format!("Line {line} of the patch: {}", fault.model_text()),
    )
}

/// Resolves the file of a section, by the first of its names that exists.
pub(super) async fn locate_section(
    cx: &ToolContext,
    deps: &FileDeps,
    section: PatchFileSection,
) -> Result<LocatedSection, ToolError> {
    let resolve = async |name: &str| {
        let resolved = resolve_file(cx, deps, name).await;
        resolved.map_err(|fault| with_patch_line(section.line, &fault))
    };
    let first = resolve(&section.names[0]).await;
    let is_new = matches!(section.action, SectionAction::Add { .. });
    let path = if is_new
        || first
            .as_ref()
            .is_ok_and(WorkspacePath::existed_when_resolved)
    {
        first?
    } else {
        let mut found = first;
        for name in &section.names[1..] {
            let other = resolve(name).await;
            if other
                .as_ref()
                .is_ok_and(WorkspacePath::existed_when_resolved)
            {
                found = other;
                break;
            }
        }
        found?
    };
    let move_to = match &section.action {
        SectionAction::Update {
            move_to: Some(name),
            ..
        } => Some(resolve(name).await?).filter(|to| to.absolute_path() != path.absolute_path()),
        _ => None,
    };
    Ok(LocatedSection {
        section,
        path,
        move_to,
    })
}

/// Adds a section, or joins it with an earlier one of the same file.
pub(super) fn join_sections(
    found: &mut Vec<LocatedSection>,
    this: LocatedSection,
) -> Result<(), ToolError> {
    let Some(other) = found
        .iter_mut()
        .find(|other| other.path.absolute_path() == this.path.absolute_path())
    else {
        found.push(this);
        return Ok(());
    };
    let first = other.section.line;
    let line = this.section.line;
    if other.move_to.is_none()
        && this.move_to.is_none()
        && let (
            SectionAction::Update {
                hunks, executable, ..
            },
            SectionAction::Update {
                hunks: more,
                executable: later,
                ..
            },
        ) = (&mut other.section.action, this.section.action)
    {
        hunks.extend(more);
        *executable = later.or(*executable);
        return Ok(());
    }
    let text = format!(
        "Line {line} of the patch: {} is in the patch already, at line {first}. Give one section a file: only two \
         changes of the same file are joined.",
        this.path.display_text()
    );
    Err(ToolError::invalid_args(text))
}

/// Finds paths that two sections use.
pub(super) fn find_collisions(found: &[LocatedSection]) -> Vec<ToolError> {
    let mut faults = Vec::new();
    for (at, this) in found.iter().enumerate() {
        let Some(to) = &this.move_to else { continue };
        let wants = |other: &Path| other == to.absolute_path();
        let other = found.iter().enumerate().find(|(other_at, other)| {
            wants(other.path.absolute_path())
                || (*other_at < at
                    && other
                        .move_to
                        .as_ref()
                        .is_some_and(|to| wants(to.absolute_path())))
        });
        if let Some((_, other)) = other {
            faults.push(ToolError::invalid_args(format!(
                "Line {} of the patch: {} gets the path {}, which line {} of the patch names too. Do it in two \
                 patches.",
                this.section.line,
                this.path.display_text(),
                to.display_text(),
                other.section.line
            )));
        }
    }
    faults
}
