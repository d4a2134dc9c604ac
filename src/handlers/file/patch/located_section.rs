//! Resolves the file of each section of a patch: chooses the existing name, joins sections of the
//! same file, refuses collisions. Not here: the change of the file (plan).

use std::path::Path;

use super::{PatchFileSection, SectionAction};
use crate::acp::{RawPath, WorkspacePath};
use crate::handlers::file::FileDeps;
use crate::tool::{ErrorCode, ToolError};

/// A section with its resolved file.
pub(super) struct LocatedSection {
    pub(super) section: PatchFileSection,
    pub(super) path: WorkspacePath,
    pub(super) move_to: Option<WorkspacePath>,
}

/// Adds the line of the patch to a fault.
pub(super) fn with_patch_line(line: usize, fault: &ToolError) -> ToolError {
    ToolError::new(
        fault.stable_code(),
        format!("Line {line} of the patch: {}", fault.model_text()),
    )
}

/// Resolves the file of a section, by the first of its names that exists.
pub(super) fn locate_section(
    deps: &FileDeps,
    section: PatchFileSection,
) -> Result<LocatedSection, ToolError> {
    let resolve = |name: &str| {
        deps.workspace
            .resolve_in_workspace(&RawPath::from(name))
            .and_then(|path| {
                path.check_writable()?;
                if path.names_folder() {
                    let text = format!("{}/ names a folder.", path.display_text());
                    return Err(ToolError::new(ErrorCode::IsDirectory, text));
                }
                Ok(path)
            })
            .map_err(|fault| with_patch_line(section.line, &fault))
    };
    let first = resolve(&section.names[0]);
    let is_new = matches!(section.action, SectionAction::Add { .. });
    let path = if is_new
        || first
            .as_ref()
            .is_ok_and(WorkspacePath::existed_when_resolved)
    {
        first?
    } else {
        let other = section.names[1..]
            .iter()
            .filter_map(|name| resolve(name).ok())
            .find(WorkspacePath::existed_when_resolved);
        other.map_or(first, Ok)?
    };
    let move_to = match &section.action {
        SectionAction::Update {
            move_to: Some(name),
            ..
        } => Some(resolve(name)?).filter(|to| to.absolute_path() != path.absolute_path()),
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
    let (first, line) = (other.section.line, this.section.line);
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
