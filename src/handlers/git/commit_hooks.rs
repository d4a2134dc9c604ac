//! The repository's hooks that a commit would run, and what they find in their environment.

use std::path::PathBuf;

use super::git_binary::is_program;
use super::git_command::GitRunOptions;
use super::repository::GitRepository;
use super::safe_settings::GIT_VARIABLES;
use punie_host::local::hook_environment::HookEnvironment;
use punie_host::terminals::{CommandLaunch, CreateTerminal};
use punie_tool::ToolError;

/// The hooks that a commit can run.
pub const COMMIT_HOOKS: [&str; 7] = [
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-rewrite",
    "reference-transaction",
    "post-index-change",
];

/// The hooks of a repository for commits.
pub(super) struct CommitHooks {
    pub(super) names: Vec<&'static str>,
    folder: PathBuf,
}

impl CommitHooks {
    /// Prepares them to find what a command of this call would find, in place of what git itself is restricted by. `None`
    /// if there are none, or no wrappers for them.
    pub(super) async fn prepare(
        &self,
        repository: &GitRepository,
        tool: &'static str,
    ) -> Result<Option<HookEnvironment>, ToolError> {
        let git = &repository.git;
        let cx = &repository.git.cx;
        let Some(wrappers) = git.deps.hook_wrappers.as_ref() else {
            return Ok(None);
        };
        if self.names.is_empty() {
            return Ok(None);
        }
        let launch = CommandLaunch::Program {
            command: "git".to_owned(),
            args: vec!["commit".to_owned()],
        };
        let request = CreateTerminal {
            tool,
            conversation: Some(cx.conversation.clone()),
            folders: cx.session_folders(),
            ..CreateTerminal::new(&cx.request, launch, repository.top.clone())
        };
        // git itself says to hooks that they have no editor.
        let names = GIT_VARIABLES.iter().map(|(name, _)| *name);
        let restricted: Vec<&str> = names
            .filter(|name| *name != "GIT_EDITOR")
            .chain(["GIT_CEILING_DIRECTORIES"])
            .collect();
        let prepared = wrappers.prepare(&self.folder, &request, &restricted);
        prepared.await.map(Some)
    }
}

/// Finds the executable commit hooks, in the hooks folder or in the settings.
pub(super) async fn find_commit_hooks(
    repository: &GitRepository,
) -> Result<CommitHooks, ToolError> {
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
    Ok(CommitHooks {
        names: COMMIT_HOOKS.into_iter().filter(is_one).collect(),
        folder,
    })
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
