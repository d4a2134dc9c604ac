//! A requested commit, and the checks before it.

use super::display_text::escape_line;
use super::pending_operation::find_pending_operations;
use super::porcelain::{ChangeState, GitFileChange, RepoStatus};
use super::repository::{GitRepository, RepoPath};
use super::staging::StagingBatch;
use super::status::status_header;
use punie_tool::{ErrorCode, ToolError};

const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// A commit that a tool asks for.
pub(super) struct CommitOrder {
    pub(super) tool: &'static str,
    pub(super) message: String,
    /// Files to stage first.
    pub(super) batch: Option<StagingBatch>,
    /// Commit only changes below these paths; `None` commits all that is staged.
    pub(super) only: Option<Vec<RepoPath>>,
    pub(super) amend: bool,
    /// Run the repository's hooks.
    pub(super) hooks: bool,
}

impl CommitOrder {
    /// Rejects a message that says nothing, is too long or that git does not accept.
    pub(super) fn check_message(&self) -> Result<(), ToolError> {
        let why = if self.message.trim().is_empty() {
            "is empty: say what changed and why"
        } else if self.message.len() > MAX_MESSAGE_BYTES {
            "is longer than 64 KB"
        } else if self.message.contains('\0') {
            "holds a NUL character"
        } else {
            return Ok(());
        };
        let tool = self.tool;
        Err(ToolError::invalid_args(format!("{tool}: `message` {why}.")))
    }

    /// Returns the paths to commit, or `None` to commit all that is staged.
    pub(super) fn select_paths(
        &self,
        repository: &GitRepository,
        status: &RepoStatus,
    ) -> Result<Option<Vec<Vec<u8>>>, ToolError> {
        let operations = find_pending_operations(repository);
        let concluded = operations
            .into_iter()
            .find(|operation| operation.commits_whole_index());
        let is_ours = |change: &&GitFileChange| {
            let parts = self.only.as_ref();
            parts.is_none_or(|parts| parts.iter().any(|part| part.contains(&change.path)))
        };
        let (ours, others): (Vec<_>, Vec<_>) =
            status.in_state(ChangeState::Staged).partition(is_ours);
        if ours.is_empty() && !self.amend && concluded.is_none() {
            return Err(self.nothing_error(repository, status));
        }
        if others.is_empty() {
            return Ok(None);
        }
        if let Some(operation) = concluded {
            return Err(ToolError::invalid_args(format!(
                "{}: {} Its commit takes all that is staged: leave out `paths`. Nothing was committed.",
                self.tool,
                operation.describe_next_step()
            )));
        }
        if ours.is_empty() {
            return Err(self.nothing_error(repository, status));
        }
        // Takes the path literally, even in a run with hooks, where pathspecs are patterns.
        let prefix: &[u8] = if self.hooks { b":(top,literal)" } else { b"" };
        let literal = |change: &GitFileChange| [prefix, &change.path].concat();
        Ok(Some(ours.into_iter().map(literal).collect()))
    }

    fn nothing_error(&self, repository: &GitRepository, status: &RepoStatus) -> ToolError {
        let why = if self.only.is_some() {
            "nothing below these paths is changed"
        } else {
            "nothing is staged"
        };
        let header = status_header(repository, status);
        ToolError::new(
            ErrorCode::NoMatch,
            format!(
                "Nothing to commit: {why}. Nothing was committed.\n{header}Stage with GitAdd, or name `paths`."
            ),
        )
    }
}

/// Requires a configured name and address, because git would otherwise guess them from the machine's name.
pub(super) async fn require_identity(repository: &GitRepository) -> Result<(), ToolError> {
    for role in ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"] {
        if !repository.git.run(&["var", role]).await?.is_success() {
            return Err(ToolError::not_found(
                "Nothing was committed: git has no name and e-mail address for commits here. Ask the user to run \
                 `git config --global user.name \"...\"` and `git config --global user.email \"...\"`, or the same \
                 without --global for this repository alone.",
            ));
        }
    }
    Ok(())
}

/// Fails if files are in conflict.
pub(super) fn refuse_conflicts(status: &RepoStatus) -> Result<(), ToolError> {
    let conflicts: Vec<String> = status
        .in_state(ChangeState::Conflicted)
        .map(GitFileChange::display_path)
        .collect();
    let files = match conflicts.len() {
        0 => return Ok(()),
        1 => "a file is".to_owned(),
        n => format!("{n} files are"),
    };
    Err(ToolError::invalid_args(format!(
        "Nothing was committed: {files} in conflict: {}. Edit them, then GitAdd them, then commit.",
        escape_line(&conflicts.join(", "))
    )))
}
