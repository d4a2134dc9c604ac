//! The repository's hooks that a commit would run. Not here: running them, which git does.

use std::path::PathBuf;

use super::command::Manner;
use super::repository::Repository;
use crate::tool::{ToolCx, ToolError};

/// The hooks that a commit can run.
const OF_A_COMMIT: [&str; 7] = [
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-rewrite",
    "reference-transaction",
    "post-index-change",
];

/// Returns the executable commit hooks, in the hooks folder or in the settings.
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

/// Returns the events of hooks in the settings, if this git supports them (since 2.54).
async fn named(cx: &ToolCx, repository: &Repository) -> Result<Vec<String>, ToolError> {
    if !repository.git.knows_more_hooks() || !knows_of_it(&repository.git.run(cx, &["version"]).await?.line())
    {
        return Ok(Vec::new());
    }
    let answer = repository.git.run(cx, &["config", "-z", "--get-regexp", r"^hook\..*\.event$"]).await?;
    let pairs = answer.text();
    Ok(pairs.split('\0').filter_map(|pair| Some(pair.split_once('\n')?.1.to_owned())).collect())
}

/// Parses `git version 2.54.0`.
fn knows_of_it(version: &str) -> bool {
    let mut numbers = version.trim_start_matches("git version ").split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (2, 54),
        // Assume support, because listing a hook too many is safer than missing one.
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
