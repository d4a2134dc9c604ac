//! The repository's hooks that a commit would run. Not here: running them, which git does.

use super::git_binary::is_program;
use super::git_command::GitRunOptions;
use super::repository::GitRepository;
use punie_tool::ToolError;

/// The hooks that a commit can run.
const COMMIT_HOOKS: [&str; 7] = [
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-rewrite",
    "reference-transaction",
    "post-index-change",
];

/// Returns the executable commit hooks, in the hooks folder or in the settings.
pub(super) async fn find_commit_hooks(
    repository: &GitRepository,
) -> Result<Vec<&'static str>, ToolError> {
    let options = GitRunOptions {
        hooks: true,
        ..GitRunOptions::default()
    };
    let answer = repository
        .git
        .run_with_options(&["rev-parse", "--git-path", "hooks"], options)
        .await?;
    let folder = repository.top.join(answer.first_output_line());
    let named = configured_hooks(repository).await?;
    let is_one =
        |name: &&str| is_program(&folder.join(name)) || named.iter().any(|event| event == name);
    Ok(COMMIT_HOOKS.into_iter().filter(is_one).collect())
}

/// Returns the events of hooks in the settings, if this git supports them (since 2.54).
async fn configured_hooks(repository: &GitRepository) -> Result<Vec<String>, ToolError> {
    if repository.git.hook_overrides.is_empty()
        || !supports_config_hooks(&repository.git.run(&["version"]).await?.first_output_line())
    {
        return Ok(Vec::new());
    }
    let answer = repository
        .git
        .run(&["config", "-z", "--get-regexp", r"^hook\..*\.event$"])
        .await?;
    let pairs = answer.stdout_text();
    Ok(pairs
        .split('\0')
        .filter_map(|pair| Some(pair.split_once('\n')?.1.to_owned()))
        .collect())
}

/// Parses `git version 2.54.0`.
fn supports_config_hooks(version: &str) -> bool {
    let mut numbers = version
        .trim_start_matches("git version ")
        .split('.')
        .map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (2, 54),
        // Assume support, because listing a hook too many is safer than missing one.
        _ => true,
    }
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
            assert_eq!(supports_config_hooks(version), knows, "{version}");
        }
    }
}
