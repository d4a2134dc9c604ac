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
    let named = named(cx, repository).await?;
    let is_one = |name: &&str| may_run(&folder.join(name)) || named.iter().any(|event| event == name);
    Ok(OF_A_COMMIT.into_iter().filter(is_one).collect())
}

/// The events for which settings name hooks, by a git that knows of that (2.54).
async fn named(cx: &ToolCx, repository: &Repository) -> Result<Vec<String>, ToolError> {
    if !repository.git.knows_more_hooks() || !knows_of_it(&repository.git.run(cx, &["version"]).await?.line())
    {
        return Ok(Vec::new());
    }
    let answer = repository.git.run(cx, &["config", "-z", "--get-regexp", r"^hook\..*\.event$"]).await?;
    let pairs = answer.text();
    Ok(pairs.split('\0').filter_map(|pair| Some(pair.split_once('\n')?.1.to_owned())).collect())
}

/// `git version 2.54.0`.
fn knows_of_it(version: &str) -> bool {
    let mut numbers = version.trim_start_matches("git version ").split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (2, 54),
        // Rather one too many than none.
        _ => true,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_hooks_from_a_version_on() {
        for (version, knows) in [
            ("git version 2.47.3", false),
            ("git version 2.54.0", true),
            ("git version 2.54.0.windows.1", true),
            ("git version 3.0.1", true),
            ("git version 2.9.5 (Apple Git-1)", false),
            ("something else", true),
        ] {
            assert_eq!(knows_of_it(version), knows, "{version}");
        }
    }
}
