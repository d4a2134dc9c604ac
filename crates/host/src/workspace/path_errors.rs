//! The errors for paths that a call cannot use: outside of the workspaces, in a missing one, in a home of this program,
//! or with a file in place of a folder.

use std::path::Path;
use std::sync::Arc;

use super::workspace_folder::{WorkspaceFolder, find_workspace_fault};
use super::workspace_root::WorkspaceRoot;
use super::{DanglingLink, RawPath, Workspace, WorkspacePath};
use punie_core::runner_home::is_runner_home;
use punie_tool::{ErrorCode, ToolError};

impl Workspace {
    /// Returns the open folder, or the error that says that it is missing.
    pub(super) fn open_root_of(
        &self,
        folder: &WorkspaceFolder,
        asked: &str,
    ) -> Result<Arc<WorkspaceRoot>, ToolError> {
        folder.opened().ok_or_else(|| {
            let path = &folder.canonical;
            let why = find_workspace_fault(path);
            let why = why.unwrap_or_else(|| "was missing when this call began".to_owned());
            let others = self.roots.iter().filter(|root| root.opened().is_some());
            let others: Vec<_> = others
                .map(|root| root.canonical.display().to_string())
                .collect();
            let until = if others.is_empty() {
                String::new()
            } else {
                format!(" Until then use the others: {}.", others.join(", "))
            };
            ToolError::not_found(format!(
                "The workspace {} {why}, and with it {asked}. It is used again as soon as it is back.{until}",
                path.display()
            ))
        })
    }

    pub(super) fn outside_error(&self, raw: &RawPath, link: Option<&DanglingLink>) -> ToolError {
        if self.roots.is_empty() {
            return no_workspace_error(raw.as_str());
        }
        let roots: Vec<String> = self
            .root_paths()
            .map(|root| root.display().to_string())
            .collect();
        let via = describe_link(link);
        ToolError::new(
            ErrorCode::OutsideWorkspace,
            format!(
                "{} is outside the workspace{via}. File tools reach only: {}. Use a path in there.",
                raw.as_str(),
                roots.join(", ")
            ),
        )
    }
}

/// Says that no path is inside, because there is no workspace at all.
pub(super) fn no_workspace_error(asked: &str) -> ToolError {
    let text = format!(
        "{asked} is outside the workspace: this device has none for calls without a session's folder. The owner names \
         one: paths under [workspaces] in config.toml."
    );
    ToolError::new(ErrorCode::OutsideWorkspace, text)
}

/// Refuses a path in a home of this program below the workspace: it holds keys and tokens.
pub(super) fn refuse_runner_home(raw: &RawPath, found: &WorkspacePath) -> Result<(), ToolError> {
    let root = found.root_path();
    let home = found
        .absolute_path()
        .ancestors()
        .take_while(|folder| *folder != root)
        .find(|folder| is_runner_home(folder));
    match home {
        None => Ok(()),
        Some(home) => Err(ToolError::new(
            ErrorCode::PolicyDenied,
            format!(
                "{} lies in {}, a home of punie-runner, which holds keys and tokens. No tool reaches it.",
                raw.as_str(),
                home.display()
            ),
        )),
    }
}

/// Builds the error for a file in place of a folder: above the rest of a path, or before a slash at its end.
pub(super) fn file_in_path_error(
    raw: &RawPath,
    file: &Path,
    rest: &Path,
    link: Option<&DanglingLink>,
) -> ToolError {
    let raw = raw.as_str();
    let shown = file.display();
    let via = describe_link(link);
    if rest.as_os_str().is_empty() {
        return ToolError::invalid_args(format!(
            "{raw}: it ends in a slash, which only a folder may, but {shown} is a file{via}. Leave out the slash."
        ));
    }
    ToolError::not_found(format!(
        "{raw} does not exist: {shown} is a file, not a folder{via}, so there can be no {} in it. Use {shown} itself, \
         or another folder.",
        rest.display()
    ))
}

/// Names the symlink that led to a path, as a part of a sentence.
pub(super) fn describe_link(link: Option<&DanglingLink>) -> String {
    link.map_or_else(String::new, |met| {
        format!(
            " (the link {} leads to {})",
            met.link.display(),
            met.target.display()
        )
    })
}
