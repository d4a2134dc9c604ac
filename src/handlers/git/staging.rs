//! Selects the files that may be staged and stages them. Not here: the text of the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::GitDeps;
use super::display_text;
use super::git_command::GitRunOptions;
use super::pending_operation::refuse_if_locked;
use super::porcelain::{ChangeState, RepoStatus};
use super::repository::{GitRepository, RepoPath, RepoPathKind, git_error};
use super::secret_scan::{SecretScan, check_file_name};
use crate::acp::RawPath;
use crate::tool::{ErrorCode, ToolContext, ToolError};

/// The largest number of paths in one call.
pub(super) const MOST_PATHS: usize = 500;

/// A file that may be staged.
#[derive(Debug)]
pub(super) struct StagingCandidate {
    pub(super) path: Vec<u8>,
    pub(super) place: ChangeState,
    letters: String,
    /// A remark for the answer.
    pub(super) remark: Option<&'static str>,
}

impl StagingCandidate {
    /// Returns `new`, `modified`, `deleted` or `resolved`.
    pub(super) fn change_word(&self) -> &'static str {
        match (self.place, self.letters.as_str()) {
            (ChangeState::Untracked, _) => "new",
            (ChangeState::Conflicted, _) => "resolved",
            (_, "D") => "deleted",
            _ => "modified",
        }
    }
}

/// The files to stage, and the refused ones.
#[derive(Debug, Default)]
pub(super) struct StagingBatch {
    pub(super) accepted: Vec<StagingCandidate>,
    /// Each path with its reason.
    pub(super) refused: Vec<(Vec<u8>, String)>,
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
    if paths.len() > MOST_PATHS {
        return Err(ToolError::invalid_args(format!(
            "{tool}: `paths` has more than {MOST_PATHS} entries; name folders."
        )));
    }
    let repository = GitRepository::open_repository(cx, deps, first).await?;
    let mut parts = Vec::new();
    for path in others {
        parts.push(resolve_repo_path(deps, tool, &repository, path)?);
    }
    let GitRepository {
        requested: RepoPath { path, kind, shown },
        ..
    } = &repository;
    parts.insert(
        0,
        RepoPath {
            path: path.clone(),
            kind: *kind,
            shown: shown.clone(),
        },
    );
    Ok((repository, parts))
}

/// Resolves another path of the same repository.
pub(super) fn resolve_repo_path(
    deps: &GitDeps,
    tool: &str,
    repository: &GitRepository,
    path: &RawPath,
) -> Result<RepoPath, ToolError> {
    let resolved = deps.workspace.resolve_in_workspace(path)?;
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
    cx: &ToolContext,
    deps: &GitDeps,
    repository: &GitRepository,
    parts: &[RepoPath],
    which: StagingScope,
) -> Result<StagingBatch, ToolError> {
    let whole = parts.iter().any(|part| part.path.is_empty());
    let untracked = match which {
        StagingScope::All => "--untracked-files=all",
        StagingScope::Tracked => "--untracked-files=no",
    };
    let mut question = vec![
        "status",
        "--porcelain=v2",
        "-z",
        untracked,
        "--ignore-submodules=dirty",
        "--no-renames",
        "--",
    ];
    if !whole {
        question.extend(parts.iter().map(|part| part.path.as_str()));
    }
    let answer = repository.git.run(cx, &question).await?;
    if !answer.is_success() {
        return Err(git_error(&answer));
    }
    if answer.cut {
        let text =
            "More files are changed than one call can stage. Name folders with fewer of them.";
        return Err(ToolError::new(ErrorCode::TooLarge, text));
    }
    let mut batch = StagingBatch::default();
    let ignored = find_ignored_paths(cx, repository, parts).await?;
    let mut found: BTreeMap<Vec<u8>, StagingCandidate> = BTreeMap::new();
    let status = RepoStatus::parse_porcelain(&answer.output);
    for change in status
        .changes
        .iter()
        .filter(|change| change.place != ChangeState::Staged)
    {
        let candidate = StagingCandidate {
            path: change.path.clone(),
            place: change.place,
            letters: change.letters.clone(),
            remark: None,
        };
        found.entry(change.path.clone()).or_insert(candidate);
    }
    for part in parts {
        let within = |path: &[u8]| is_within(path, part.path.as_bytes());
        if let Some(rule) = ignored.get(part.path.as_bytes()) {
            batch
                .refused
                .push((part.path.clone().into_bytes(), rule.clone()));
        } else if !found.keys().any(|path| within(path)) {
            let staged = status.changes.iter().any(|change| within(&change.path));
            if !staged && part.kind == RepoPathKind::Missing {
                require_tracked_path(cx, repository, part).await?;
            }
            batch.unchanged.push(part.shown.clone());
        }
    }
    let filtered = find_filtered_files(cx, repository, found.values()).await?;
    vet_candidates(
        cx,
        deps,
        repository,
        found.into_values(),
        &filtered,
        &mut batch,
    )
    .await?;
    Ok(batch)
}

/// Checks each candidate and records it as accepted or refused.
async fn vet_candidates(
    cx: &ToolContext,
    deps: &GitDeps,
    repository: &GitRepository,
    candidates: impl Iterator<Item = StagingCandidate>,
    filtered: &BTreeMap<Vec<u8>, String>,
    batch: &mut StagingBatch,
) -> Result<(), ToolError> {
    for mut candidate in candidates {
        match find_refusal_reason(cx, deps, repository, &mut candidate, filtered).await? {
            Some(why) => batch.refused.push((candidate.path, why)),
            None => batch.accepted.push(candidate),
        }
    }
    Ok(())
}

async fn find_refusal_reason(
    cx: &ToolContext,
    deps: &GitDeps,
    repository: &GitRepository,
    candidate: &mut StagingCandidate,
    filtered: &BTreeMap<Vec<u8>, String>,
) -> Result<Option<String>, ToolError> {
    let is_new = candidate.place == ChangeState::Untracked;
    if candidate.path.ends_with(b"/") {
        return Ok(Some("it is a repository of its own".to_owned()));
    }
    if is_new && let Some(why) = check_file_name(&candidate.path) {
        return Ok(Some(why));
    }
    let file = repository.top.join(native(&candidate.path));
    let Ok(meta) = file.symlink_metadata() else {
        return Ok(None);
    };
    if !meta.is_file() {
        return Ok(None);
    }
    if let Some(name) = filtered.get(&candidate.path) {
        return Ok(Some(format!(
            "its attributes ask for the filter {name}, a program that is not run here; without it other content would be \
             committed than the repository expects. Bash `git add` runs it"
        )));
    }
    if is_foreign(&meta) {
        return Ok(Some("it is a hard link to another user's file".to_owned()));
    }
    let content = match scan_file(cx, deps, file).await {
        Ok(content) => content,
        Err(_) if cx.is_cancelled() => {
            return Err(ToolError::call_cancelled("Cancelled; nothing was staged."));
        }
        Err(cause) => return Ok(Some(format!("it cannot be read ({})", cause.kind()))),
    };
    if candidate.place == ChangeState::Conflicted && content.conflict_mark {
        candidate.remark = Some("still has conflict marks (<<<<<<<)");
    }
    let Some(why) = content.describe_secret() else {
        return Ok(None);
    };
    // Secrets that the repository has already are not reported.
    if !is_new && !content.has_new_secrets(&scan_index_blob(cx, repository, &candidate.path).await?)
    {
        return Ok(None);
    }
    Ok(Some(why))
}

async fn scan_file(cx: &ToolContext, deps: &GitDeps, file: PathBuf) -> std::io::Result<SecretScan> {
    let (workspace, cancel) = (deps.workspace.clone(), cx.cancel.clone());
    let looking = move || {
        SecretScan::scan_reader(&mut workspace.open_found_file(&file)?, || {
            cancel.is_cancelled()
        })
    };
    tokio::task::spawn_blocking(looking)
        .await
        .map_err(std::io::Error::other)?
}

/// Scans a file's content in the index.
async fn scan_index_blob(
    cx: &ToolContext,
    repository: &GitRepository,
    path: &[u8],
) -> Result<SecretScan, ToolError> {
    let Ok(path) = std::str::from_utf8(path) else {
        return Ok(SecretScan::default());
    };
    let answer = repository
        .git
        .run(cx, &["cat-file", "blob", &format!(":0:{path}")])
        .await?;
    Ok(SecretScan::scan_reader(&mut answer.output.as_slice(), || false).unwrap_or_default())
}

/// Returns the requested paths that are ignored, each with the rule.
async fn find_ignored_paths(
    cx: &ToolContext,
    repository: &GitRepository,
    parts: &[RepoPath],
) -> Result<BTreeMap<Vec<u8>, String>, ToolError> {
    // With `./` before it, git does not read a path as a pattern.
    let asked: Vec<Vec<u8>> = parts
        .iter()
        .filter(|part| !part.path.is_empty())
        .map(|part| [b"./", part.path.as_bytes()].concat())
        .collect();
    if asked.is_empty() {
        return Ok(BTreeMap::new());
    }
    let input = join_nul_ended(asked.iter().map(Vec::as_slice));
    let manner = GitRunOptions {
        with_patterns: true,
        ..GitRunOptions::with_input(input)
    };
    let answer = repository
        .git
        .run_with_options(cx, &["check-ignore", "--verbose", "-z", "--stdin"], manner)
        .await?;
    // 1 means that none is ignored.
    if !matches!(answer.exit_code, Some(0 | 1)) {
        return Err(git_error(&answer));
    }
    let fields: Vec<&[u8]> = answer.output.split(|byte| *byte == 0).collect();
    let mut found = BTreeMap::new();
    for record in fields.chunks_exact(4) {
        let (source, pattern) = (
            display_text::path(record[0]),
            display_text::escape_line(&String::from_utf8_lossy(record[2])),
        );
        if pattern.starts_with('!') {
            continue;
        }
        // A rule outside the repository may reveal private settings, so it is not quoted.
        let is_the_repositorys = |rules: PathBuf| {
            rules.starts_with(&repository.top) || rules.starts_with(&repository.git_dir)
        };
        let rule = if repository
            .top
            .join(&source)
            .canonicalize()
            .is_ok_and(is_the_repositorys)
        {
            format!(
                "{source}:{} `{pattern}`",
                String::from_utf8_lossy(record[1])
            )
        } else {
            "a rule of the user's own".to_owned()
        };
        let path = record[3].strip_prefix(b"./").unwrap_or(record[3]);
        found.insert(path.to_vec(), format!("it is ignored by {rule}"));
    }
    Ok(found)
}

/// Returns the files that a filter would change when staged, each with the filter.
async fn find_filtered_files(
    cx: &ToolContext,
    repository: &GitRepository,
    candidates: impl Iterator<Item = &StagingCandidate>,
) -> Result<BTreeMap<Vec<u8>, String>, ToolError> {
    if repository.filters.is_empty() {
        return Ok(BTreeMap::new());
    }
    let asked = join_nul_ended(candidates.map(|candidate| candidate.path.as_slice()));
    let answer = repository
        .git
        .run_with_options(
            cx,
            &["check-attr", "-z", "--stdin", "filter"],
            GitRunOptions::with_input(asked),
        )
        .await?;
    if !answer.is_success() || answer.cut {
        return Err(git_error(&answer));
    }
    let fields: Vec<&[u8]> = answer.output.split(|byte| *byte == 0).collect();
    let known: BTreeSet<&[u8]> = repository.filters.iter().map(String::as_bytes).collect();
    let ours = fields
        .chunks_exact(3)
        .filter(|record| known.contains(record[2]));
    Ok(ours
        .map(|record| {
            (
                record[0].to_vec(),
                display_text::escape_line(&String::from_utf8_lossy(record[2])),
            )
        })
        .collect())
}

/// Fails if a missing path was not tracked.
async fn require_tracked_path(
    cx: &ToolContext,
    repository: &GitRepository,
    part: &RepoPath,
) -> Result<(), ToolError> {
    for list in [
        ["ls-files", "--"].as_slice(),
        &["ls-tree", "--name-only", "--full-tree", "HEAD", "--"],
    ] {
        let arguments: Vec<&str> = list.iter().copied().chain([part.path.as_str()]).collect();
        if !repository.git.run(cx, &arguments).await?.output.is_empty() {
            return Ok(());
        }
    }
    Err(ToolError::not_found(format!(
        "{} does not exist, and git does not track it. Nothing was staged.",
        part.shown
    )))
}

/// Stages the accepted files.
pub(super) async fn stage_batch(
    cx: &ToolContext,
    repository: &GitRepository,
    batch: &StagingBatch,
) -> Result<(), ToolError> {
    refuse_if_locked(repository)?;
    if batch.accepted.is_empty() {
        return Ok(());
    }
    let input = join_nul_ended(
        batch
            .accepted
            .iter()
            .map(|candidate| candidate.path.as_slice()),
    );
    let manner = GitRunOptions {
        writes: true,
        ..GitRunOptions::with_input(input)
    };
    let answer = repository
        .git
        .run_with_options(
            cx,
            &["add", "--pathspec-from-file=-", "--pathspec-file-nul"],
            manner,
        )
        .await?;
    if !answer.is_success() {
        // Another git may have locked the index meanwhile.
        refuse_if_locked(repository)?;
        return Err(git_error(&answer));
    }
    Ok(())
}

/// Joins paths in git's NUL-terminated input format.
pub(super) fn join_nul_ended<'a>(paths: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    paths
        .flat_map(|path| path.iter().copied().chain([0]))
        .collect()
}

pub(super) fn is_within(path: &[u8], folder: &[u8]) -> bool {
    folder.is_empty()
        || path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(unix)]
fn native(path: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(path))
}

#[cfg(not(unix))]
fn native(path: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(path).into_owned())
}

#[cfg(unix)]
fn is_foreign(meta: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    meta.nlink() > 1 && meta.uid() != rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_foreign(_meta: &std::fs::Metadata) -> bool {
    false
}
