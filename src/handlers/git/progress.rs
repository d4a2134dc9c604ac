//! What a repository is in the middle of: a merge, a rebase, and who holds its index. Not here: changing it.

use std::io::Read as _;
use std::path::Path;

use super::GitDeps;
use super::repository::Repository;
use crate::tool::{ErrorCode, ToolError};

/// Something that was begun and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Merge,
    CherryPick,
    Revert,
    Rebase,
    Mailbox,
    Bisect,
}

impl Progress {
    /// What it is, and how it goes on.
    pub(super) fn words(self) -> &'static str {
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

    /// Whether the next commit ends it with all that is staged.
    pub(super) fn takes_all(self) -> bool {
        matches!(self, Self::Merge | Self::CherryPick | Self::Revert)
    }
}

/// What is in progress.
pub(super) fn in_progress(repository: &Repository) -> Vec<Progress> {
    let is_there = |name: &str| repository.git_dir.join(name).symlink_metadata().is_ok();
    let mut found = Vec::new();
    if is_there("rebase-merge") {
        found.push(Progress::Rebase);
    } else if is_there("rebase-apply") {
        found.push(if is_there("rebase-apply/applying") { Progress::Mailbox } else { Progress::Rebase });
    }
    for (name, progress) in [
        ("MERGE_HEAD", Progress::Merge),
        ("CHERRY_PICK_HEAD", Progress::CherryPick),
        ("REVERT_HEAD", Progress::Revert),
        ("BISECT_LOG", Progress::Bisect),
    ] {
        // A rebase picks its commits one by one; that it does is no news.
        if is_there(name) && !(found.contains(&Progress::Rebase) && progress == Progress::CherryPick) {
            found.push(progress);
        }
    }
    found
}

/// How far a rebase is: `2 of 5`.
pub(super) fn rebase_step(deps: &GitDeps, repository: &Repository) -> Option<String> {
    let folders = [("rebase-merge", "msgnum", "end"), ("rebase-apply", "next", "last")];
    folders.iter().find_map(|(folder, now, end)| {
        let folder = repository.git_dir.join(folder);
        Some(format!("{} of {}", number(deps, &folder.join(now))?, number(deps, &folder.join(end))?))
    })
}

fn number(deps: &GitDeps, file: &Path) -> Option<u64> {
    let mut text = String::new();
    deps.workspace.open_found(file).ok()?.take(20).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Another git's lock is never taken away: that git may be alive.
pub(super) fn refuse_if_locked(repository: &Repository) -> Result<(), ToolError> {
    let lock = repository.git_dir.join("index.lock");
    let Ok(meta) = lock.symlink_metadata() else { return Ok(()) };
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
