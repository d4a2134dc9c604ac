//! The repositories outside of the workspaces that git uses for working trees in them, because the owner allows it.

use std::path::{Path, PathBuf};

use super::Confinement;
use crate::LinkedRepository;
use crate::linked_repository::describe_unnamed;
use punie_sandbox::SandboxRules;

impl Confinement {
    /// Lets git use these repositories outside of the workspaces, and no others: in the commands that are narrowed to
    /// these folders, or without folders in those that are not narrowed. Processes that run keep their confinement.
    pub fn open_repositories(&self, folders: Option<&[PathBuf]>, repositories: Vec<PathBuf>) {
        match (folders, &self.shared) {
            (Some(folders), Some(shared)) => {
                // The lock is held meanwhile: a state that follows must not miss it.
                shared
                    .read()
                    .set_session_repositories(folders, repositories);
            }
            (None, Some(_)) if self.repositories() != repositories => {
                self.update_setup(|setup| setup.rules.repositories = repositories);
            }
            _ => {}
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
            || describe_unnamed("The `.git` file", path),
            |found| found.describe_hidden(),
        ))
    };
    output.lines().rev().find_map(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::confinement::ConfinementSetup;
    use punie_sandbox::RequiredLevel;

    #[test]
    fn repositories_outlast_a_change_of_the_settings_and_many_other_sessions() {
        let folder = |name: &str| PathBuf::from("/a").join(name);
        let mut rules = SandboxRules::minimal(folder("home"), folder("temp"));
        rules.workspaces = vec![folder("work")];
        let setup = ConfinementSetup {
            rules,
            require: RequiredLevel::None,
            confine: false,
            apps: false,
            java_trust_store: PathBuf::new(),
            self_test: folder("home/self-test"),
        };
        let confinement = Confinement::new(setup.clone());
        let session = [folder("one")];
        let elsewhere = vec![folder("one.git")];
        confinement.open_repositories(None, vec![folder("main.git")]);
        confinement.open_repositories(Some(&session), elsewhere.clone());
        confinement.replace_setup(setup);
        for number in 0..100 {
            let _ = confinement.narrowed_to(&[folder(&number.to_string())]);
        }
        let of_session = || confinement.narrowed_to(&session).repositories();
        assert_eq!(of_session(), elsewhere);
        assert_eq!(confinement.repositories(), [folder("main.git")]);
        assert!(
            confinement
                .narrowed_to(&[folder("two")])
                .repositories()
                .is_empty()
        );
        confinement.open_repositories(Some(&session), Vec::new());
        assert!(of_session().is_empty());
    }
}
