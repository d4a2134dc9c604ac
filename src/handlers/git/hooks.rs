//! Which of the repository's hooks a commit would run. Not here: running them, which git does.

use std::path::PathBuf;

use super::command::Manner;
use super::repository::Repository;
use crate::tool::{ToolCx, ToolError};

/// Those of a commit.
const OF_A_COMMIT: [&str; 7] = [
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-rewrite",
    "reference-transaction",
    "post-index-change",
];

/// The hooks that are there and may run, wherever the settings say that hooks are.
pub(super) async fn of_a_commit(
    cx: &ToolCx,
    repository: &Repository,
) -> Result<Vec<&'static str>, ToolError> {
    let manner = Manner { hooks: true, ..Manner::default() };
    let answer = repository.git.run_as(cx, &["rev-parse", "--git-path", "hooks"], manner).await?;
    let folder = repository.top.join(PathBuf::from(answer.line()));
    Ok(OF_A_COMMIT.into_iter().filter(|name| may_run(&folder.join(name))).collect())
}

#[cfg(unix)]
fn may_run(hook: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    hook.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn may_run(hook: &std::path::Path) -> bool {
    hook.metadata().is_ok_and(|meta| meta.is_file())
}
