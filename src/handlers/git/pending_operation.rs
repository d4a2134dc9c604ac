//! Unfinished operations of a repository, such as a merge or a rebase, and the lock of its index.

use std::io::Read as _;
use std::path::Path;

use super::repository::GitRepository;
use punie_host::Workspace;
use punie_tool::{ErrorCode, ToolError};

/// An operation that was started and is not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PendingOperation {
    Merge,
    CherryPick,
    Revert,
    Rebase,
    Mailbox,
    Bisect,
}

impl PendingOperation {
    /// Says which operation is in progress and how to continue or abort it.
    pub(super) fn describe_next_step(self) -> &'static str {
        match self {
            Self::Merge => {
                "A merge is in progress: edit the conflicted files, GitAdd them, then GitCommit; Bash `git merge --abort` \
                 takes it back."
            }
            Self::CherryPick => {
                "A cherry-pick is in progress: edit the conflicted files, GitAdd them, then Bash `git cherry-pick \
                 --continue`; `--abort` takes it back."
            }
            Self::Revert => {
                "A revert is in progress: edit the conflicted files, GitAdd them, then Bash `git revert --continue`; \
                 `--abort` takes it back."
            }
            Self::Rebase => {
                "A rebase is in progress: edit the conflicted files, GitAdd them, then Bash `git rebase --continue`; \
                 `--abort` takes it back."
            }
            Self::Mailbox => {
                "Patches are being applied (git am): edit the conflicted files, GitAdd them, then Bash `git am \
                 --continue`; `--abort` takes it back."
            }
            Self::Bisect => "A bisect is in progress; Bash `git bisect reset` ends it.",
        }
    }

    /// Returns whether the next commit finishes the operation with everything that is staged.
    pub(super) fn commits_whole_index(self) -> bool {
        matches!(self, Self::Merge | Self::CherryPick | Self::Revert)
    }
}

/// Returns the operations in progress.
pub(super) fn find_pending_operations(repository: &GitRepository) -> Vec<PendingOperation> {
    let is_there = |name: &str| repository.git_dir.join(name).symlink_metadata().is_ok();
    let mut found = Vec::new();
    if is_there("rebase-merge") {
        found.push(PendingOperation::Rebase);
    } else if is_there("rebase-apply") {
        found.push(if is_there("rebase-apply/applying") {
            PendingOperation::Mailbox
        } else {
            PendingOperation::Rebase
        });
    }
    for (name, progress) in [
        ("MERGE_HEAD", PendingOperation::Merge),
        ("CHERRY_PICK_HEAD", PendingOperation::CherryPick),
        ("REVERT_HEAD", PendingOperation::Revert),
        ("BISECT_LOG", PendingOperation::Bisect),
    ] {
        // A rebase cherry-picks its commits, so that is not reported separately.
        if is_there(name)
            && !(found.contains(&PendingOperation::Rebase)
                && progress == PendingOperation::CherryPick)
        {
            found.push(progress);
        }
    }
    found
}

/// Returns the progress of a rebase: `2 of 5`.
pub(super) fn rebase_step(repository: &GitRepository) -> Option<String> {
    let folders = [
        ("rebase-merge", "msgnum", "end"),
        ("rebase-apply", "next", "last"),
    ];
    let workspace = repository.git.deps.with_repositories();
    folders.iter().find_map(|(folder, now, end)| {
        let folder = repository.git_dir.join(folder);
        Some(format!(
            "{} of {}",
            read_step_number(&workspace, &folder.join(now))?,
            read_step_number(&workspace, &folder.join(end))?
        ))
    })
}

fn read_step_number(workspace: &Workspace, file: &Path) -> Option<u64> {
    let mut text = String::new();
    workspace
        .open_found_file(file)
        .ok()?
        .take(20)
        .read_to_string(&mut text)
        .ok()?;
    text.trim().parse().ok()
}

/// Fails if the index is locked. The lock is never removed, because another git may still be running.
pub(super) fn refuse_if_locked(repository: &GitRepository) -> Result<(), ToolError> {
    let lock = repository.git_dir.join("index.lock");
    let Ok(meta) = lock.symlink_metadata() else {
        return Ok(());
    };
    let age = meta.modified().ok().and_then(|at| at.elapsed().ok());
    let age = age.map_or_else(String::new, |age| match age.as_secs() {
        seconds @ ..120 => format!(" for {seconds} s"),
        seconds => format!(" for {} min", seconds / 60),
    });
    Err(ToolError::new(
        ErrorCode::Busy,
        format!(
            "{} is there{age}: another git is changing this repository, or one was killed while it did. Nothing was \
             changed, and the lock was not removed. Try again shortly; if no git runs (Bash `pgrep -a git`) and it stays, \
             the user can delete that file.",
            lock.display()
        ),
    ))
}
