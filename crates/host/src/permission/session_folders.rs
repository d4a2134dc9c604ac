//! The decision whether a client's session may work in its folders: in the workspaces, or where the owner's rules allow
//! it; and whether git may use a repository outside of them, which only the owner decides.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::active_rules::ActiveRules;
use crate::linked_repository::{has_tree_in, is_repository_folder};
use crate::protected_path::{
    PathProtection, find_bare_repository, find_git_state, find_protection,
};
use crate::{LinkedRepository, Workspace};
use punie_core::runner_home::check_outside_homes;
use punie_home::Home;
use punie_policy::{AddedPolicyRule, PolicyDecision};

/// The answer to the question whether a session may work in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderVerdict {
    /// It may.
    Allowed,
    /// The owner has not said so yet.
    Unknown,
    /// The rule of this name denies it.
    Denied(String),
    /// No session can work there; the rest of a sentence that begins with the folder.
    Unusable(String),
}

/// Decides by the workspaces and the owner's rules.
#[derive(Clone)]
pub struct SessionFolders {
    workspace: Workspace,
    home: PathBuf,
    /// The files by which the owner rules this device. No call may change them.
    owner_files: Vec<PathBuf>,
    /// What commands never see.
    hidden: Vec<PathBuf>,
    rules: Arc<ActiveRules>,
}

impl SessionFolders {
    /// Decides by these workspaces, and the rules of this home. `config_file` is the owner's configuration, `hidden` what
    /// commands never see.
    pub fn new(
        workspace: Workspace,
        home: &Home,
        config_file: &Path,
        hidden: &[PathBuf],
        rules: Arc<ActiveRules>,
    ) -> Self {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Self {
            workspace,
            home: real(home.root_dir()),
            owner_files: vec![real(&home.policy_file()), real(config_file)],
            hidden: hidden.iter().map(|path| real(path)).collect(),
            rules,
        }
    }

    /// Decides whether a session may work in a folder. Blocks for some system calls.
    pub fn judge_folder(&self, folder: &Path) -> FolderVerdict {
        if let Err(why) = self
            .check_place(folder)
            .and_then(|()| self.check_folder(folder))
        {
            return FolderVerdict::Unusable(why);
        }
        self.judge_by_rules(folder)
    }

    /// Decides whether git may use a repository for working trees that are elsewhere. A rule for a folder around it
    /// counts, since sessions may work in all of that.
    fn judge_repository(&self, repository: &Path) -> FolderVerdict {
        match self.check_place(repository) {
            Err(why) => FolderVerdict::Unusable(why),
            Ok(()) => self.judge_by_rules(repository),
        }
    }

    fn judge_by_rules(&self, folder: &Path) -> FolderVerdict {
        let current = self.rules.current_rules();
        let rule = current.rules.judge_folder(folder);
        let is_inside = self.workspace.contains_real_path(folder);
        match rule {
            Some(rule) if rule.decision == PolicyDecision::Deny => {
                FolderVerdict::Denied(rule.name.clone())
            }
            _ if is_inside => FolderVerdict::Allowed,
            _ if current.broken.is_some() => {
                let why = "lies outside of the workspaces, and the owner's rules cannot be read";
                FolderVerdict::Unusable(why.to_owned())
            }
            Some(_) => FolderVerdict::Allowed,
            None => FolderVerdict::Unknown,
        }
    }

    /// Checks that it is a folder, and that what is in it or around it is neither the runner's nor hidden.
    fn check_place(&self, folder: &Path) -> Result<(), String> {
        match folder.canonicalize() {
            Err(cause) => return Err(format!("cannot be used: {cause}")),
            Ok(real) if real != folder => {
                return Err(format!("is reached by a link; it is {}", real.display()));
            }
            Ok(real) if !real.is_dir() => return Err("is no folder".to_owned()),
            Ok(_) => {}
        }
        check_outside_homes(folder, &self.home)?;
        if let Some(file) = self
            .owner_files
            .iter()
            .find(|file| file.starts_with(folder))
        {
            return Err(format!(
                "holds {}, which no call may change",
                file.display()
            ));
        }
        // Narrowed to one of the following, calls would no longer meet what hides it or protects what is in it.
        let named = self.named_around(folder);
        let is_around = |path: &&PathBuf| folder.starts_with(path) && !named.starts_with(path);
        if let Some(hidden) = self.hidden.iter().find(is_around) {
            return Err(format!(
                "is hidden from commands, as all of {}",
                hidden.display()
            ));
        }
        Ok(())
    }

    fn check_folder(&self, folder: &Path) -> Result<(), String> {
        if is_repository_folder(folder) && !self.workspace.contains_real_path(folder) {
            return Err("is the folder of a repository, which only git uses".to_owned());
        }
        let named = self.named_around(folder);
        match find_protection_below(&named, folder) {
            Some(protection) => Err(format!("is protected: {}", protection.why)),
            None => Ok(()),
        }
    }

    /// Returns the innermost folder around this one that the owner named, as a workspace or in a rule that allows it, else
    /// the root of the file system. What is around a named folder neither hides nor protects it.
    fn named_around(&self, folder: &Path) -> PathBuf {
        let rules = self.rules.current_rules();
        let allowed = rules.rules.rules.iter();
        let allowed = allowed.filter(|rule| rule.decision == PolicyDecision::Allow);
        let named = allowed
            .flat_map(|rule| rule.folders.iter().map(PathBuf::as_path))
            .chain(self.workspace.root_paths())
            .chain(folder.ancestors().last());
        let around = named.filter(|named| folder.starts_with(named));
        around
            .max_by_key(|named| named.components().count())
            .unwrap_or(folder)
            .to_owned()
    }

    /// Returns the folders outside of the workspaces in which the rules allow sessions to work.
    pub fn allowed(&self) -> Vec<PathBuf> {
        let current = self.rules.current_rules();
        let rules = current.rules.rules.iter();
        let allowed = rules.filter(|rule| rule.decision == PolicyDecision::Allow);
        let mut folders: Vec<PathBuf> = allowed.flat_map(|rule| rule.folders.clone()).collect();
        folders.retain(|folder| self.judge_folder(folder) == FolderVerdict::Allowed);
        folders
    }

    /// Returns the repositories that the owner lets git use for working trees in the folders of a session, or in the
    /// workspaces. Those that lie in these folders themselves are left out.
    pub fn allowed_repositories(&self, of_session: Option<&[PathBuf]>) -> Vec<PathBuf> {
        let workspaces = self.workspace.root_paths().map(Path::to_owned).collect();
        let folders = of_session.map_or(workspaces, <[PathBuf]>::to_vec);
        let current = self.rules.current_rules();
        let rules = current.rules.rules.iter();
        let named = rules.flat_map(|rule| rule.folders.iter().cloned());
        let mut found: BTreeSet<PathBuf> = named
            .filter(|folder| is_repository_folder(folder) && has_tree_in(folder, &folders))
            .collect();
        found.extend(linked_repositories(&folders).map(|linked| linked.repository));
        let is_inside = |path: &PathBuf| folders.iter().any(|folder| path.starts_with(folder));
        found
            .into_iter()
            .filter(|path| !is_inside(path))
            .filter(|path| self.judge_repository(path) == FolderVerdict::Allowed)
            .collect()
    }

    /// Returns the repositories of working trees at these folders about which the owner has not decided.
    pub fn undecided_repositories(&self, folders: &[PathBuf]) -> Vec<LinkedRepository> {
        let mut seen = BTreeSet::new();
        linked_repositories(folders)
            .filter(|linked| seen.insert(linked.repository.clone()))
            .filter(|linked| self.judge_repository(&linked.repository) == FolderVerdict::Unknown)
            .collect()
    }

    /// Adds the owner's answer to the rules. Returns the rule's name.
    ///
    /// # Errors
    /// The reason why it could not be added.
    pub fn record_answer(&self, folder: &Path, is_allowed: bool) -> Result<String, String> {
        let rule = AddedPolicyRule {
            folders: vec![folder.display().to_string()],
            ..AddedPolicyRule::default()
        };
        let decision = if is_allowed {
            PolicyDecision::Allow
        } else {
            PolicyDecision::Deny
        };
        match self.rules.append(&rule, decision) {
            Ok(Ok(name)) => Ok(name),
            Ok(Err(broken)) => Err(broken.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn linked_repositories(folders: &[PathBuf]) -> impl Iterator<Item = LinkedRepository> {
    folders
        .iter()
        .filter_map(|folder| LinkedRepository::of_tree(folder))
}

/// Returns the rule that protects a folder, or one between it and `named`.
fn find_protection_below(named: &Path, folder: &Path) -> Option<PathProtection> {
    let below = folder.strip_prefix(named).ok()?;
    let exists = |path: &Path| named.join(path).symlink_metadata().is_ok();
    find_protection(below)
        .or_else(|| find_git_state(below))
        .or_else(|| find_bare_repository(below, exists))
}
