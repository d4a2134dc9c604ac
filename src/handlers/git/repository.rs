//! Finds the repository of a path and checks that all of it lies in the workspace. Not here: the queries.

use std::io;
use std::path::{Path, PathBuf};

use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use super::GitDeps;
use super::disable_repo_programs;
use super::display_text::escape_line;
use super::git_command::{GitCommand, GitOutput};
use super::object_paths::find_outside_path;
use punie_host::linked_repository::{describe_unnamed, git_dir_of};
use punie_host::{LinkedRepository, RawPath, Workspace};
use punie_tool::{ErrorCode, ResultMeta, ToolContext, ToolError, ToolReply};

/// A requested path in its repository. The default is the whole working tree.
#[derive(Debug, Clone, Default)]
pub(super) struct RepoPath {
    /// Relative to the working tree; empty for the working tree itself.
    pub(super) path: String,
    pub(super) kind: RepoPathKind,
    /// The form shown in answers.
    pub(super) shown: String,
}

impl RepoPath {
    /// Returns whether a path of the repository is this one or lies in this folder.
    pub(super) fn contains_path(&self, path: &[u8]) -> bool {
        self.path.is_empty()
            || path
                .strip_prefix(self.path.as_bytes())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }
}

/// The kind of file at a path now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum RepoPathKind {
    #[default]
    Folder,
    File,
    /// Nothing is there, but git may know the path.
    Missing,
}

/// A checked repository with the path that was requested.
#[derive(Debug, Clone)]
pub(super) struct GitRepository {
    pub(super) git: GitCommand,
    /// The working tree, in which git runs.
    pub(super) top: PathBuf,
    /// The git folder, with the index, HEAD and locks.
    pub(super) git_dir: PathBuf,
    pub(super) requested: RepoPath,
    /// The filters in its settings, which do not run.
    pub(super) filters: Vec<String>,
    /// Warnings about things that the answer leaves out.
    pub(super) warnings: Vec<String>,
}

impl GitRepository {
    /// Finds the repository of a path and disables the programs in its settings.
    pub(super) async fn open_repository(
        cx: &ToolContext,
        deps: &GitDeps,
        path: &RawPath,
    ) -> Result<Self, ToolError> {
        let resolved = deps.workspace.resolve_in_workspace(path)?;
        let root = resolved.root_path();
        let shown = resolved.display_text();
        let (folder, kind) = find_start_folder(resolved.absolute_path(), root, &shown)?;
        let marker = find_git_marker(&folder, root)?.ok_or_else(|| {
            ToolError::not_found(match kind {
                RepoPathKind::Missing => format!("There is nothing at {shown}."),
                _ => "Error: Not a git repository".to_owned(),
            })
        })?;
        check_linked_repository(&marker, deps)?;
        let mut git = GitCommand::new(cx, deps, &folder, root.parent().unwrap_or(root))?;
        let [top, git_dir, _] = find_repo_folders(&git, &marker).await?;
        let Ok(path) = resolved.absolute_path().strip_prefix(&top) else {
            return Err(outside_workspace_error(&format!(
                "its working tree is {}, which does not hold {shown}",
                top.display()
            )));
        };
        let Some(path) = path.to_str() else {
            let text = format!("{shown} has a name that is not valid text; name its folder.");
            return Err(ToolError::invalid_args(text));
        };
        let requested = RepoPath {
            path: path.to_owned(),
            kind,
            shown,
        };
        git.folder.clone_from(&top);
        let filters = disable_repo_programs::override_programs(&mut git).await?;
        let mut warnings = Vec::new();
        if !filters.is_empty() {
            let names = filters.iter().map(|name| escape_line(name));
            warnings.push(format!(
                "the filters {} were not run, so files under them may be listed as changed",
                names.collect::<Vec<_>>().join(", ")
            ));
        }
        if top.join(".gitmodules").symlink_metadata().is_ok() {
            warnings.push("of submodules the commit is compared, not their files".to_owned());
        }
        Ok(Self {
            git,
            top,
            git_dir,
            requested,
            filters,
            warnings,
        })
    }

    /// Returns the requested path, unless it is the whole repository.
    pub(super) fn pathspec(&self) -> Option<&str> {
        (!self.requested.path.is_empty()).then_some(self.requested.path.as_str())
    }

    /// Returns the requested path if it is a file. For a folder, the tools query the whole repository.
    pub(super) fn file_pathspec(&self) -> Option<&str> {
        if self.requested.kind == RepoPathKind::Folder {
            None
        } else {
            self.pathspec()
        }
    }

    /// Runs a subcommand on a path. Fails if git fails.
    pub(super) async fn run_on_path(
        &self,
        arguments: &[&str],
        path: Option<&str>,
    ) -> Result<GitOutput, ToolError> {
        self.git
            .run_checked(&append_pathspec(arguments, path))
            .await
    }

    /// Fails if the requested path is missing and git never tracked it, because "no changes" would then mislead.
    pub(super) async fn require_known_path(&self) -> Result<(), ToolError> {
        let RepoPath { path, kind, shown } = &self.requested;
        if *kind != RepoPathKind::Missing || self.has_tracked(path).await? {
            return Ok(());
        }
        Err(ToolError::not_found(format!(
            "There is nothing at {shown}, and git knows no such path, neither in the index nor in the last commit. \
             GitStatus on its folder lists what changed, GitLog with this path whether it ever was."
        )))
    }

    /// Returns whether the index or the last commit has a path.
    pub(super) async fn has_tracked(&self, path: &str) -> Result<bool, ToolError> {
        for list in [
            ["ls-files"].as_slice(),
            &["ls-tree", "--name-only", "--full-tree", "HEAD"],
        ] {
            let listed = self.git.run(&append_pathspec(list, Some(path))).await?;
            // Without a first commit there is no HEAD, so its list is empty.
            if !listed.output.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits until no other call changes this repository, and locks it until the guard is dropped.
    pub(super) async fn lock_changes(&self) -> Result<OwnedMutexGuard<()>, ToolError> {
        let GitCommand { cx, deps, .. } = &self.git;
        deps.repo_locks.lock_repository(cx, &self.git_dir).await
    }

    /// Returns the repository for queries after the end of the call, which neither its cancellation nor its deadline
    /// stops.
    pub(super) fn outliving_call(&self) -> Self {
        let mut after = self.clone();
        after.git.cx.cancel = CancellationToken::new();
        after.git.cx.deadline = None;
        after
    }

    /// Returns a text answer with the warnings.
    pub(super) fn into_reply(self, text: impl Into<String>) -> ToolReply {
        ToolReply::from_text(text).with_meta(ResultMeta {
            warnings: self.warnings,
            ..ResultMeta::default()
        })
    }
}

/// Appends a path after `--`, so that git cannot read it as an option or revision.
pub(super) fn append_pathspec<'a>(arguments: &[&'a str], path: Option<&'a str>) -> Vec<&'a str> {
    let mut arguments = arguments.to_vec();
    arguments.push("--");
    arguments.extend(path);
    arguments
}

/// Fails where a `.git` file leads to a repository that git cannot reach. Git would only say that there is none.
fn check_linked_repository(marker: &Path, deps: &GitDeps) -> Result<(), ToolError> {
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
async fn find_repo_folders(git: &GitCommand, marker: &Path) -> Result<[PathBuf; 3], ToolError> {
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
        .map_err(|_| {
            ToolError::internal_error("The look at the repository did not get to its end.")
        })?
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

/// Returns the folder from which to look for the repository, and the kind of the path. For a deleted path, that is
/// the deepest existing parent.
fn find_start_folder(
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
fn find_git_marker(folder: &Path, root: &Path) -> Result<Option<PathBuf>, ToolError> {
    let found = |dir: &Path| Some(dir.join(".git")).filter(|git| git.symlink_metadata().is_ok());
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

fn outside_workspace_error(why: &str) -> ToolError {
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
