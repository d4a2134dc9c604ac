//! Selects the files that may be staged and stages them. Not here: the reasons to refuse a file, and the text of the
//! answer.

use std::collections::BTreeMap;
use std::path::Path;

use super::GitDeps;
use super::git_command::GitRunOptions;
use super::path_attributes::{find_filtered_files, find_ignored_paths};
use super::pending_operation::refuse_if_locked;
use super::porcelain::{ChangeState, RepoStatus};
use super::repository::{GitRepository, RepoPath, RepoPathKind};
use super::repository_place::is_repository;
use super::staging_candidate::{StagingCandidate, StagingRefusal};
use punie_host::RawPath;
use punie_tool::{ErrorCode, ToolContext, ToolError};

/// The largest number of paths in one call.
const MAX_PATHS: usize = 500;

/// The files to stage, and the refused ones.
#[derive(Debug, Default)]
pub(super) struct StagingBatch {
    pub(super) accepted: Vec<StagingCandidate>,
    /// Each path with its reason.
    pub(super) refused: Vec<(Vec<u8>, StagingRefusal)>,
    /// Requested paths without anything to stage.
    pub(super) unchanged: Vec<String>,
}

/// The kind of files to stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StagingScope {
    /// Also new files.
    All,
    /// Only files that git tracks.
    Tracked,
}

/// Opens the repository of these paths and resolves the paths in it.
pub(super) async fn open_with_paths(
    cx: &ToolContext,
    deps: &GitDeps,
    tool: &str,
    paths: &[RawPath],
) -> Result<(GitRepository, Vec<RepoPath>), ToolError> {
    let Some((first, others)) = paths.split_first() else {
        return Err(ToolError::invalid_args(format!(
            "{tool}: `paths` is empty. Name the files or folders to stage; \".\" is all of the first workspace folder."
        )));
    };
    if paths.len() > MAX_PATHS {
        return Err(ToolError::invalid_args(format!(
            "{tool}: `paths` has more than {MAX_PATHS} entries; name folders."
        )));
    }
    let repository = GitRepository::open_around(cx, deps, first).await?;
    let mut parts = vec![repository.requested.clone()];
    for path in others {
        parts.push(resolve_repo_path(tool, &repository, path)?);
    }
    Ok((repository, parts))
}

/// Resolves another path of the same repository.
fn resolve_repo_path(
    tool: &str,
    repository: &GitRepository,
    path: &RawPath,
) -> Result<RepoPath, ToolError> {
    let resolved = repository.git.deps.workspace.resolve_inside(path)?;
    let shown = resolved.display_text();
    let Some(inside) = resolved
        .absolute_path()
        .strip_prefix(&repository.top)
        .ok()
        .and_then(Path::to_str)
    else {
        return Err(ToolError::invalid_args(format!(
            "{tool}: {shown} is not in the repository {}, to which the first path belongs. Use one call a repository.",
            repository.top.display()
        )));
    };
    let folders = Path::new(inside).ancestors().skip(1);
    let mut inner = folders.map(|folder| repository.top.join(folder));
    if let Some(inner) = inner.find(|folder| *folder != repository.top && is_repository(folder)) {
        return Err(ToolError::invalid_args(format!(
            "{tool}: {shown} is in a repository of its own, {}. Use one call a repository.",
            inner.display()
        )));
    }
    let kind = match resolved.absolute_path().symlink_metadata() {
        Ok(meta) if meta.is_dir() => RepoPathKind::Folder,
        Ok(_) => RepoPathKind::File,
        Err(_) => RepoPathKind::Missing,
    };
    Ok(RepoPath {
        path: inside.to_owned(),
        kind,
        shown,
    })
}

/// Sorts the changed files below the paths into accepted and refused ones. Changes nothing.
pub(super) async fn collect_batch(
    repository: &GitRepository,
    parts: &[RepoPath],
    scope: StagingScope,
) -> Result<StagingBatch, ToolError> {
    let status = read_changes(repository, parts, scope).await?;
    let ignored = find_ignored_paths(repository, parts).await?;
    let mut batch = StagingBatch::default();
    let mut candidates = BTreeMap::new();
    for change in &status.changes {
        if change.place != ChangeState::Staged {
            candidates
                .entry(change.path.as_slice())
                .or_insert_with(|| StagingCandidate {
                    change: change.clone(),
                    remark: None,
                });
        }
    }
    for part in parts {
        if let Some(rule) = ignored.get(part.path.as_bytes()) {
            let refusal = StagingRefusal::Other(rule.clone());
            batch
                .refused
                .push((part.path.clone().into_bytes(), refusal));
        } else if !candidates.keys().any(|path| part.contains(path)) {
            let changes = &mut status.changes.iter();
            let is_staged = changes.any(|change| part.contains(&change.path));
            if !is_staged
                && part.kind == RepoPathKind::Missing
                && !repository.has_tracked(&part.path).await?
            {
                return Err(ToolError::not_found(format!(
                    "{} does not exist, and git does not track it. Nothing was staged.",
                    part.shown
                )));
            }
            let is_submodule =
                is_repository(&repository.top.join(&part.path)) && !part.path.is_empty();
            batch.unchanged.push(if is_submodule {
                format!(
                    "{} (a submodule, at the same commit; name files in it to stage them there)",
                    part.shown
                )
            } else {
                part.shown.clone()
            });
        }
    }
    let filtered = find_filtered_files(repository, candidates.keys().copied()).await?;
    for mut candidate in candidates.into_values() {
        match candidate.find_refusal_reason(repository, &filtered).await? {
            Some(why) => batch.refused.push((candidate.change.path, why)),
            None => batch.accepted.push(candidate),
        }
    }
    Ok(batch)
}

/// Reads the changes below the paths.
async fn read_changes(
    repository: &GitRepository,
    parts: &[RepoPath],
    scope: StagingScope,
) -> Result<RepoStatus, ToolError> {
    let untracked = match scope {
        StagingScope::All => "--untracked-files=all",
        StagingScope::Tracked => "--untracked-files=no",
    };
    let mut arguments = vec![
        "status",
        "--porcelain=v2",
        "-z",
        untracked,
        "--ignore-submodules=dirty",
        "--no-renames",
        "--",
    ];
    if !parts.iter().any(|part| part.path.is_empty()) {
        arguments.extend(parts.iter().map(|part| part.path.as_str()));
    }
    let answer = repository.git.run_checked(&arguments).await?;
    if answer.cut {
        let text =
            "More files are changed than one call can stage. Name folders with fewer of them.";
        return Err(ToolError::new(ErrorCode::TooLarge, text));
    }
    Ok(RepoStatus::parse_porcelain(&answer.output))
}

/// Stages the accepted files.
pub(super) async fn stage_batch(
    repository: &GitRepository,
    batch: &StagingBatch,
) -> Result<(), ToolError> {
    refuse_if_locked(repository)?;
    if batch.accepted.is_empty() {
        return Ok(());
    }
    let paths = batch.accepted.iter();
    let options = GitRunOptions {
        writes: true,
        ..GitRunOptions::with_paths(paths.map(|candidate| candidate.change.path.as_slice()))
    };
    let arguments = ["add", "--pathspec-from-file=-", "--pathspec-file-nul"];
    let answer = repository.git.run_with_options(&arguments, options).await?;
    if !answer.is_success() {
        // Another git may have locked the index meanwhile.
        refuse_if_locked(repository)?;
        return Err(answer.git_error());
    }
    Ok(())
}
