//! Finds the repository of a path and checks that all of it lies in the workspace.

use std::path::{Path, PathBuf};

use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use super::GitDeps;
use super::disable_repo_programs;
use super::display_text::escape_line;
use super::git_command::{GitCommand, GitOutput};
use super::repository_place::{
    check_linked_repository, find_git_marker, find_repo_folders, find_start_folder, is_repository,
    outside_workspace_error,
};
use punie_host::{RawPath, WorkspacePath};
use punie_tool::{ResultMeta, ToolContext, ToolError, ToolReply};

/// The mode of a submodule in the index.
pub(super) const SUBMODULE_MODE: &[u8] = b"160000 ";

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
    pub(super) fn contains(&self, path: &[u8]) -> bool {
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
}

impl GitRepository {
    /// Finds the repository of a path and disables the programs in its settings.
    pub(super) async fn open(
        cx: &ToolContext,
        deps: &GitDeps,
        path: &RawPath,
    ) -> Result<Self, ToolError> {
        let resolved = deps.workspace.resolve_inside(path)?;
        let shown = resolved.display_text();
        let (folder, kind) =
            find_start_folder(resolved.absolute_path(), resolved.root_path(), &shown)?;
        Self::open_from(cx, deps, &resolved, &folder, kind).await
    }

    /// Finds the repository that has a path as an entry. That of a submodule's folder is the one around it.
    pub(super) async fn open_around(
        cx: &ToolContext,
        deps: &GitDeps,
        path: &RawPath,
    ) -> Result<Self, ToolError> {
        let resolved = deps.workspace.resolve_inside(path)?;
        let folder = resolved.absolute_path();
        if folder != resolved.root_path()
            && is_repository(folder)
            && let Some(above) = folder.parent()
            && let Ok(around) =
                Self::open_from(cx, deps, &resolved, above, RepoPathKind::Folder).await
            && around.is_submodule(&around.requested.path).await?
        {
            return Ok(around);
        }
        Self::open(cx, deps, path).await
    }

    async fn open_from(
        cx: &ToolContext,
        deps: &GitDeps,
        resolved: &WorkspacePath,
        folder: &Path,
        kind: RepoPathKind,
    ) -> Result<Self, ToolError> {
        let root = resolved.root_path();
        let shown = resolved.display_text();
        let marker = find_git_marker(folder, root)?.ok_or_else(|| {
            ToolError::not_found(match kind {
                RepoPathKind::Missing => format!("There is nothing at {shown}."),
                _ => "Error: Not a git repository".to_owned(),
            })
        })?;
        check_linked_repository(&marker, deps)?;
        let mut git = GitCommand::new(cx, deps, folder, root.parent().unwrap_or(root))?;
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
        Ok(Self {
            git,
            top,
            git_dir,
            requested,
            filters,
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

    /// Returns whether the index has a path as a submodule.
    async fn is_submodule(&self, path: &str) -> Result<bool, ToolError> {
        let listed = self
            .run_on_path(&["ls-files", "--stage"], Some(path))
            .await?;
        Ok(listed.output.starts_with(SUBMODULE_MODE))
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
        deps.repo_locks.lock(cx, &self.git_dir).await
    }

    /// Returns the repository for queries after the end of the call, which neither its cancellation nor its deadline
    /// stops.
    pub(super) fn outliving_call(&self) -> Self {
        let mut after = self.clone();
        after.git.cx.cancel = CancellationToken::new();
        after.git.cx.deadline = None;
        after
    }

    /// Returns the warning about filters that did not run, if there are any.
    pub(super) fn filter_warning(&self) -> Option<String> {
        let names: Vec<String> = self.filters.iter().map(|name| escape_line(name)).collect();
        (!names.is_empty()).then(|| {
            format!(
                "the filters {} were not run, so files under them may be listed as changed",
                names.join(", ")
            )
        })
    }

    /// Returns the warnings about what a comparison of the working tree leaves out.
    pub(super) fn comparison_warnings(&self) -> Vec<String> {
        let has_submodules = self.top.join(".gitmodules").symlink_metadata().is_ok();
        let submodules = has_submodules
            .then(|| "of submodules the commit is compared, not their files".to_owned());
        self.filter_warning()
            .into_iter()
            .chain(submodules)
            .collect()
    }

    /// Returns an answer about a comparison, with its warnings.
    pub(super) fn comparison_reply(&self, text: impl Into<String>) -> ToolReply {
        reply_with_warnings(text, self.comparison_warnings())
    }
}

/// Returns a text answer with warnings.
pub(super) fn reply_with_warnings(
    text: impl Into<String>,
    warnings: impl IntoIterator<Item = String>,
) -> ToolReply {
    ToolReply::from_text(text).with_meta(ResultMeta {
        warnings: warnings.into_iter().collect(),
        ..ResultMeta::default()
    })
}

/// Appends a path after `--`, so that git cannot read it as an option or revision.
pub(super) fn append_pathspec<'a>(arguments: &[&'a str], path: Option<&'a str>) -> Vec<&'a str> {
    let mut arguments = arguments.to_vec();
    arguments.push("--");
    arguments.extend(path);
    arguments
}
