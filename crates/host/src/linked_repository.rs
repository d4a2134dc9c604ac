//! Working trees whose repository lies elsewhere: a linked worktree, a submodule's folder. Their `.git` is a file that
//! names the repository, and anyone who writes there can name any other. So a link counts only if the repository names
//! the working tree, too.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::protected_path::is_repository;
use punie_core::bounded_file::{FinalLink, open_regular_file};
use punie_home::command_to_type;
use punie_policy::command_line::quote_word;

/// The most bytes of a file that are read.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// The most working trees of a repository that are looked at.
const MAX_WORKING_TREES: usize = 1_024;

/// A working tree whose repository lies elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedRepository {
    /// The working tree, without links.
    pub tree: PathBuf,
    /// The folder of the repository that git uses for it: objects, references, settings, hooks.
    pub repository: PathBuf,
}

impl LinkedRepository {
    /// Returns the repository of a folder that is a linked worktree or a submodule, if both name each other.
    pub fn of_tree(folder: &Path) -> Option<Self> {
        let tree = folder.canonicalize().ok()?;
        let git_dir = git_dir_of(&tree)?.canonicalize().ok()?;
        let repository = repository_of(&git_dir, &tree)?;
        Some(Self { tree, repository })
    }

    /// Returns the same, given the folder that git names when it cannot reach it.
    pub fn of_git_dir(git_dir: &Path) -> Option<Self> {
        let git_dir = git_dir.canonicalize().ok()?;
        let marker = read_path(&git_dir, "gitdir").or_else(|| work_tree_of(&git_dir))?;
        let tree = if marker.ends_with(".git") {
            marker.parent()?
        } else {
            marker.as_path()
        };
        Self::of_tree(tree).filter(|found| git_dir.starts_with(&found.repository))
    }

    /// Tells where the repository lies, and that git does not reach it: a sentence without its period.
    pub fn describe_place(&self) -> String {
        format!(
            "The repository of {} lies outside of the workspaces, at {}, where git does not reach it",
            self.tree.display(),
            self.repository.display()
        )
    }

    /// Returns the arguments of this program by which the owner lets git use the repository.
    pub fn allow_arguments(&self) -> String {
        let shown = self.repository.display().to_string();
        format!("policy allow --folder {}", quote_word(&shown))
    }

    /// Tells that git does not reach the repository, and the command by which the owner lets it.
    pub fn describe_hidden(&self) -> String {
        let allow = command_to_type(&self.allow_arguments());
        format!(
            "{}. The owner lets git use it by `{allow}`.",
            self.describe_place()
        )
    }
}

/// Returns whether a folder is that of a repository, as `.git` is.
pub fn is_repository_folder(folder: &Path) -> bool {
    is_repository(|name| folder.join(name).symlink_metadata().is_ok())
}

/// Returns whether a repository names a working tree in one of these folders.
pub(crate) fn has_tree_in(repository: &Path, folders: &[PathBuf]) -> bool {
    let linked = fs::read_dir(repository.join("worktrees"))
        .into_iter()
        .flatten();
    let linked = linked.take(MAX_WORKING_TREES).filter_map(|entry| {
        let marker = read_path(&entry.ok()?.path(), "gitdir")?;
        marker.parent().map(Path::to_owned)
    });
    let mut trees = linked.chain(work_tree_of(repository));
    trees.any(|tree| {
        let real = tree.canonicalize().unwrap_or(tree);
        folders.iter().any(|folder| real.starts_with(folder))
    })
}

/// Returns the folder that the `.git` file of a working tree names, as it is written there. It need not exist.
pub fn git_dir_of(tree: &Path) -> Option<PathBuf> {
    let text = read_file(&tree.join(".git"))?;
    let named = text.strip_prefix("gitdir:")?.trim_start_matches(' ');
    Some(tree.join(named.trim_end_matches(['\n', '\r'])))
}

/// Tells that a `.git` file leads to a repository that does not return the link. `git_dir` is the path as it is written:
/// a command that wrote it may ask about any path, and learns nothing of what is there, nor where a link leads.
pub fn describe_unnamed(marker: &str, git_dir: &Path) -> String {
    format!(
        "{marker} leads to {}, outside of the workspaces, and no repository there names this folder as its working \
         tree, so that git does not reach it. If it is the right one, the owner makes it name the folder: by `git \
         worktree repair` in the repository, or by `git config core.worktree FOLDER` if it has no other working tree.",
        git_dir.display()
    )
}

/// Returns the repository of a git folder, if it names this working tree.
fn repository_of(git_dir: &Path, tree: &Path) -> Option<PathBuf> {
    let Some(common) = read_path(git_dir, "commondir") else {
        let is_named = work_tree_of(git_dir).is_some_and(|named| named == tree);
        return (is_named && is_repository_folder(git_dir)).then(|| git_dir.to_owned());
    };
    let common = common.canonicalize().ok()?;
    let marker = read_path(git_dir, "gitdir")?;
    // Only a folder that lies in the repository speaks for it.
    let is_named = git_dir.parent() == Some(common.join("worktrees").as_path())
        && marker.parent()?.canonicalize().ok()? == tree
        && is_repository_folder(&common);
    is_named.then_some(common)
}

/// Returns the working tree that a repository's settings name, as those of a submodule do.
fn work_tree_of(repository: &Path) -> Option<PathBuf> {
    let named = |name: &str| find_work_tree(&read_file(&repository.join(name))?);
    let named = named("config.worktree").or_else(|| named("config"))?;
    repository.join(named).canonicalize().ok()
}

/// Finds `core.worktree` in the text of a configuration.
fn find_work_tree(text: &str) -> Option<String> {
    let mut in_core = false;
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            in_core = line.eq_ignore_ascii_case("[core]");
        } else if let Some((key, value)) = line.split_once('=')
            && in_core
            && key.trim().eq_ignore_ascii_case("worktree")
        {
            let value = value.trim().trim_matches('"');
            found = Some(value.replace("\\\"", "\"").replace("\\\\", "\\"));
        }
    }
    found
}

/// Reads a file of git's that has one path, which is relative to its folder.
fn read_path(folder: &Path, name: &str) -> Option<PathBuf> {
    let text = read_file(&folder.join(name))?;
    let path = text.trim_end_matches(['\n', '\r']);
    (!path.is_empty()).then(|| folder.join(path))
}

/// Reads a small file. A link, a pipe or a device is none.
fn read_file(path: &Path) -> Option<String> {
    let file = open_regular_file(path, FinalLink::Refuse).ok()?;
    let mut text = String::new();
    file.take(MAX_FILE_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Command;

    use super::*;

    fn git(folder: &Path, args: &[&str]) {
        let settings = [
            "user.name=a",
            "user.email=a@b",
            "protocol.file.allow=always",
        ];
        let settings = settings.iter().flat_map(|setting| ["-c", setting]);
        let done = Command::new("git")
            .args(settings)
            .args(args)
            .current_dir(folder)
            .output()
            .expect("git runs");
        assert!(done.status.success(), "{args:?}: {done:?}");
    }

    /// A repository `main` with the worktrees `linked` and `relative`, and the submodule `main/sub`.
    fn repositories() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path().canonicalize().expect("real");
        for name in ["main", "lib"] {
            git(&top, &["init", "-q", name]);
            git(
                &top.join(name),
                &["commit", "-q", "--allow-empty", "-m", "one"],
            );
        }
        let main = top.join("main");
        git(&main, &["submodule", "--quiet", "add", "../lib", "sub"]);
        git(
            &main,
            &["worktree", "add", "-q", "../linked", "-b", "linked"],
        );
        git(
            &main,
            &["worktree", "add", "-q", "../relative", "-b", "other"],
        );
        // As `worktree.useRelativePaths` writes them.
        let written = [
            ("relative/.git", "gitdir: ../main/.git/worktrees/relative\n"),
            (
                "main/.git/worktrees/relative/gitdir",
                "../../../../relative/.git\n",
            ),
        ];
        for (file, text) in written {
            fs::write(top.join(file), text).expect("written");
        }
        (folder, top)
    }

    #[test]
    fn linked_worktrees_and_submodules_lead_to_their_repository_and_back() {
        let (_folder, top) = repositories();
        for (tree, git_dir, repository) in [
            ("linked", "main/.git/worktrees/linked", "main/.git"),
            ("relative", "main/.git/worktrees/relative", "main/.git"),
            ("main/sub", "main/.git/modules/sub", "main/.git/modules/sub"),
        ] {
            let found = LinkedRepository {
                tree: top.join(tree),
                repository: top.join(repository),
            };
            assert_eq!(
                LinkedRepository::of_tree(&top.join(tree)).as_ref(),
                Some(&found)
            );
            let by_git_dir = LinkedRepository::of_git_dir(&top.join(git_dir));
            assert_eq!(by_git_dir.as_ref(), Some(&found), "{git_dir}");
            assert!(has_tree_in(&found.repository, &[top.join(tree)]), "{tree}");
            assert!(
                !has_tree_in(&found.repository, &[top.join("lib")]),
                "{tree}"
            );
        }
        for none in ["main", "lib", "gone"] {
            assert_eq!(LinkedRepository::of_tree(&top.join(none)), None, "{none}");
        }
    }

    #[test]
    fn a_link_that_the_repository_does_not_return_is_none() {
        let (_folder, top) = repositories();
        let tree = top.join("forged");
        let own = top.join("forged/own");
        fs::create_dir_all(&own).expect("made");
        let [main, lib] = ["main/.git", "lib/.git"].map(|git| top.join(git).display().to_string());
        let back = tree.join(".git").display().to_string();
        for (file, text) in [
            ("HEAD", "ref: refs/heads/main\n"),
            ("commondir", main.as_str()),
            ("gitdir", back.as_str()),
        ] {
            fs::write(own.join(file), text).expect("written");
        }
        let worktree = format!("{main}/worktrees/linked");
        for target in [&own.display().to_string(), &worktree, &main, &lib] {
            fs::write(tree.join(".git"), format!("gitdir: {target}\n")).expect("written");
            assert_eq!(LinkedRepository::of_tree(&tree), None, "{target}");
        }
        fs::remove_file(tree.join(".git")).expect("removed");
        std::os::unix::fs::symlink(top.join("linked/.git"), tree.join(".git")).expect("linked");
        assert_eq!(
            LinkedRepository::of_tree(&tree),
            None,
            "a link in its place"
        );
    }

    #[test]
    fn the_last_working_tree_in_the_settings_counts() {
        let text =
            "[core]\n\tworktree = a\n[user]\n\tworktree = b\n[Core]\n\tWorkTree = \"c \\\\d\"\n";
        assert_eq!(find_work_tree(text).as_deref(), Some("c \\d"));
        assert_eq!(find_work_tree("[user]\n\tworktree = b\n"), None);
    }
}
