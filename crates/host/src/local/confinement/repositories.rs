//! The repositories outside of the workspaces that git uses for working trees in them, because the owner allows it. Not
//! here: the owner's decision (permission), and what of them stays read-only (the guard of protected paths).

use std::path::{Path, PathBuf};

use super::Confinement;
use crate::LinkedRepository;
use crate::linked_repository::describe_unnamed;
use punie_sandbox::SandboxRules;

impl Confinement {
    /// Lets git use these repositories outside of the workspaces, and no others: in the commands that are narrowed to
    /// these folders, or without folders in those that are not narrowed. Processes that run keep their confinement.
    pub fn open_repositories(&self, folders: Option<&[PathBuf]>, repositories: Vec<PathBuf>) {
        let Some(state) = self.state() else {
            return;
        };
        let rules = &state.setup.rules;
        let Some(folders) = folders.filter(|folders| rules.workspaces != *folders) else {
            if folders.is_none() && rules.repositories != repositories {
                let mut setup = state.setup.clone();
                setup.rules.repositories = repositories;
                self.set_state(state.with_setup(setup));
            }
            return;
        };
        if self.narrowed_to(folders).repositories() != repositories {
            state.narrow_to(folders, &repositories);
        }
    }

    /// Returns the repositories outside of the workspaces that git uses.
    pub fn repositories(&self) -> Vec<PathBuf> {
        let state = self.state();
        state.map_or_else(Vec::new, |state| state.setup.rules.repositories.clone())
    }
}

/// Returns a hint for the output of git that cannot reach the repository of a working tree in the workspaces.
pub(super) fn hidden_repository_hint(rules: &SandboxRules, output: &str) -> Option<String> {
    let is_ours = |path: &Path| rules.workspaces.iter().any(|root| path.starts_with(root));
    let hint = |line: &str| {
        let path = Path::new(line.split_once("not a git repository: ")?.1.trim_end());
        let git_dir = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut opened = rules.repositories.iter();
        if !path.is_absolute() || is_ours(&git_dir) || opened.any(|one| git_dir.starts_with(one)) {
            return None;
        }
        let linked = LinkedRepository::of_git_dir(&git_dir).filter(|found| is_ours(&found.tree));
        Some(linked.map_or_else(
            || describe_unnamed("The `.git` file", &git_dir),
            |found| found.describe_hidden(),
        ))
    };
    output.lines().rev().find_map(hint)
}
