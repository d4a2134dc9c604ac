//! Where the repository of a path is, and whether all of it lies in the workspace.

use std::io;
use std::path::{Path, PathBuf};

use super::GitDeps;
use super::git_command::{GitCommand, GitOutput};
use super::object_paths::find_outside_path;
use super::repository::RepoPathKind;
use punie_host::linked_repository::{describe_unnamed, git_dir_of};
use punie_host::{LinkedRepository, Workspace};
use punie_tool::{ErrorCode, ToolError};

/// Fails where a `.git` file leads to a repository that git cannot reach. Git would only say that there is none.
pub(super) fn check_linked_repository(marker: &Path, deps: &GitDeps) -> Result<(), ToolError> {
    let tree = marker.parent().unwrap_or(marker);
    let Some(git_dir) = git_dir_of(tree) else {
        return Ok(());
    };
    let reached = deps.with_repositories();
    let is_reached = |path: &Path| reached.contains_real_path(path);
    let text = match LinkedRepository::of_tree(tree) {
        Some(linked) if is_reached(&linked.repository) => return Ok(()),
        Some(linked) => linked.describe_hidden(),
        None if is_reached(&git_dir.canonicalize().unwrap_or_else(|_| git_dir.clone())) => {
            return Ok(());
        }
        None => describe_unnamed(&marker.display().to_string(), &git_dir),
    };
    Err(ToolError::new(ErrorCode::OutsideWorkspace, text))
}

/// Asks git for the folders of the repository and checks that they lie in the workspace. `core.worktree`, a `.git`
/// file and `commondir` can each lead elsewhere.
pub(super) async fn find_repo_folders(
    git: &GitCommand,
    marker: &Path,
) -> Result<[PathBuf; 3], ToolError> {
    let asked = [
        "rev-parse",
        "--show-toplevel",
        "--absolute-git-dir",
        "--path-format=absolute",
        "--git-common-dir",
    ];
    let answer = git.run(&asked).await?;
    if answer.exit_code != Some(0) {
        let bare = git.run(&["rev-parse", "--is-bare-repository"]).await?;
        return Err(if bare.first_output_line() == "true" {
            bare_repository_error(marker)
        } else {
            explain_rejected_repository(&answer, marker)
        });
    }
    let text = String::from_utf8(answer.output)
        .map_err(|_| outside_workspace_error("its folders have names that are no text"))?;
    let workspace = git.deps.with_repositories();
    tokio::task::spawn_blocking(move || check_inside_workspace(&text, &workspace))
        .await
        .map_err(|_| ToolError::internal("The look at the repository did not get to its end."))?
}

/// Resolves the folders and checks that they and the objects lie in the workspace. Blocks.
fn check_inside_workspace(places: &str, workspace: &Workspace) -> Result<[PathBuf; 3], ToolError> {
    let mut found = Vec::new();
    for place in places.lines() {
        let real = Path::new(place)
            .canonicalize()
            .map_err(|cause| ToolError::from_io(place, &cause))?;
        if !workspace.contains_real_path(&real) {
            return Err(outside_workspace_error(&format!("it uses {place}")));
        }
        found.push(real);
    }
    let found = <[PathBuf; 3]>::try_from(found)
        .map_err(|_| outside_workspace_error("its folders have names with line breaks"))?;
    let reaches = find_outside_path(&found[1], &found[2], workspace);
    reaches.map_or(Ok(found), |why| Err(outside_workspace_error(&why)))
}

/// Returns whether a folder is the top of a working tree.
pub(super) fn is_repository(folder: &Path) -> bool {
    folder.join(".git").symlink_metadata().is_ok()
}

/// Returns the folder from which to look for the repository, and the kind of the path. For a deleted path, that is
/// the deepest existing parent.
pub(super) fn find_start_folder(
    path: &Path,
    root: &Path,
    shown: &str,
) -> Result<(PathBuf, RepoPathKind), ToolError> {
    let mut kind = RepoPathKind::Folder;
    for folder in path
        .ancestors()
        .take_while(|folder| folder.starts_with(root))
    {
        match folder.symlink_metadata().map(|meta| meta.is_dir()) {
            Ok(true) => return Ok((folder.to_owned(), kind)),
            Ok(false) => kind = RepoPathKind::File,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => kind = RepoPathKind::Missing,
            Err(cause) => return Err(ToolError::from_io(shown, &cause)),
        }
    }
    Err(ToolError::invalid_args(format!(
        "{shown} is neither a folder nor a file."
    )))
}

/// Finds the `.git` above a folder, if there is one. Without one inside the workspace, git is not even started.
pub(super) fn find_git_marker(folder: &Path, root: &Path) -> Result<Option<PathBuf>, ToolError> {
    let found = |dir: &Path| is_repository(dir).then(|| dir.join(".git"));
    let inside = || folder.ancestors().take_while(|dir| dir.starts_with(root));
    if let Some(git) = inside().find_map(found) {
        return Ok(Some(git));
    }
    // git's own test for a bare repository.
    let is_bare = |dir: &&Path| {
        ["HEAD", "objects", "refs"]
            .iter()
            .all(|name| dir.join(name).exists())
    };
    if let Some(git) = inside().find(is_bare) {
        return Err(bare_repository_error(git));
    }
    match root.ancestors().skip(1).find_map(found) {
        Some(above) => Err(outside_workspace_error(&format!(
            "it begins above the workspace, at {}",
            above.display()
        ))),
        None => Ok(None),
    }
}

/// Returns the error for a repository without a working tree.
fn bare_repository_error(git: &Path) -> ToolError {
    let git = git.display();
    ToolError::not_found(format!(
        "{git} is a bare repository: it has a history and no working tree, and the git tools need one. Use Bash, for \
         example `git --git-dir={git} log`, or make a working tree inside the workspace with `git --git-dir={git} \
         worktree add FOLDER`."
    ))
}

pub(super) fn outside_workspace_error(why: &str) -> ToolError {
    ToolError::new(
        ErrorCode::OutsideWorkspace,
        format!(
            "The repository reaches outside the workspace: {why}. To allow it, the workspaces must hold that folder, and \
             for the session of a client (MCP) the session's folders: start the client there, or name it with \
             --workspace."
        ),
    )
}

/// Explains why git rejects a repository although a `.git` exists.
fn explain_rejected_repository(answer: &GitOutput, marker: &Path) -> ToolError {
    if let Some(owner) = foreign_owner(marker) {
        return ToolError::new(
            ErrorCode::PolicyDenied,
            format!(
                "{} belongs to another user ({owner}), and git does not trust such a repository. Its owner can be asked, \
                 or the user can run: git config --global --add safe.directory {}",
                marker.display(),
                marker.parent().unwrap_or(marker).display()
            ),
        );
    }
    let why = answer.stderr_or("git gave no reason");
    ToolError::not_found(format!(
        "Error: Not a git repository\n{why}\n{} is there, but git refuses it.",
        marker.display()
    ))
}

#[cfg(unix)]
fn foreign_owner(marker: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let own = rustix::process::geteuid().as_raw();
    let owner = |path: &Path| {
        path.symlink_metadata()
            .ok()
            .map(|meta| meta.uid())
            .filter(|uid| *uid != own)
    };
    owner(marker)
        .or_else(|| marker.parent().and_then(owner))
        .map(|uid| format!("uid {uid}"))
}

#[cfg(not(unix))]
fn foreign_owner(_marker: &Path) -> Option<String> {
    None
}
