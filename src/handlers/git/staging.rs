//! Selects the files that may be staged and stages them. Not here: the text of the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::GitDeps;
use super::command::Manner;
use super::names;
use super::porcelain::{Place, Status};
use super::progress::refuse_if_locked;
use super::repository::{Kind, Part, Repository, complaint};
use super::secrets::{Content, by_name};
use crate::acp::RawPath;
use crate::tool::{ErrorCode, ToolCx, ToolError};

/// The largest number of paths in one call.
pub(super) const MOST_PATHS: usize = 500;

/// A file that may be staged.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) path: Vec<u8>,
    pub(super) place: Place,
    letters: String,
    /// A remark for the answer.
    pub(super) remark: Option<&'static str>,
}

impl Candidate {
    /// Returns `new`, `modified`, `deleted` or `resolved`.
    pub(super) fn word(&self) -> &'static str {
        match (self.place, self.letters.as_str()) {
            (Place::Untracked, _) => "new",
            (Place::Conflicted, _) => "resolved",
            (_, "D") => "deleted",
            _ => "modified",
        }
    }
}

/// The files to stage, and the refused ones.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) accepted: Vec<Candidate>,
    /// Each path with its reason.
    pub(super) refused: Vec<(Vec<u8>, String)>,
    /// Requested paths without anything to stage.
    pub(super) unchanged: Vec<String>,
}

/// The kind of files to stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Also new files.
    All,
    /// Only files that git tracks.
    Tracked,
}

/// Opens the repository of these paths and resolves the paths in it.
pub(super) async fn open(
    cx: &ToolCx,
    deps: &GitDeps,
    tool: &str,
    paths: &[RawPath],
) -> Result<(Repository, Vec<Part>), ToolError> {
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
    let repository = Repository::open(cx, deps, first).await?;
    let mut parts = Vec::new();
    for path in others {
        parts.push(part(deps, tool, &repository, path)?);
    }
    let Repository { part: Part { path, kind, shown }, .. } = &repository;
    parts.insert(0, Part { path: path.clone(), kind: *kind, shown: shown.clone() });
    Ok((repository, parts))
}

/// Resolves another path of the same repository.
pub(super) fn part(
    deps: &GitDeps,
    tool: &str,
    repository: &Repository,
    path: &RawPath,
) -> Result<Part, ToolError> {
    let resolved = deps.workspace.resolve(path)?;
    let shown = resolved.shown();
    let Some(inside) = resolved.absolute().strip_prefix(&repository.top).ok().and_then(Path::to_str) else {
        return Err(ToolError::invalid_args(format!(
            "{tool}: {shown} is not in the repository {}, to which the first path belongs. Use one call a repository.",
            repository.top.display()
        )));
    };
    let kind = match resolved.absolute().symlink_metadata() {
        Ok(meta) if meta.is_dir() => Kind::Folder,
        Ok(_) => Kind::File,
        Err(_) => Kind::Gone,
    };
    Ok(Part { path: inside.to_owned(), kind, shown })
}

/// Sorts the changed files below the paths into accepted and refused ones. Changes nothing.
pub(super) async fn sort(
    cx: &ToolCx,
    deps: &GitDeps,
    repository: &Repository,
    parts: &[Part],
    which: Which,
) -> Result<Batch, ToolError> {
    let whole = parts.iter().any(|part| part.path.is_empty());
    let untracked = match which {
        Which::All => "--untracked-files=all",
        Which::Tracked => "--untracked-files=no",
    };
    let mut question =
        vec!["status", "--porcelain=v2", "-z", untracked, "--ignore-submodules=dirty", "--no-renames", "--"];
    if !whole {
        question.extend(parts.iter().map(|part| part.path.as_str()));
    }
    let answer = repository.git.run(cx, &question).await?;
    if !answer.worked() {
        return Err(complaint(&answer));
    }
    if answer.cut {
        let text = "More files are changed than one call can stage. Name folders with fewer of them.";
        return Err(ToolError::new(ErrorCode::TooLarge, text));
    }
    let mut batch = Batch::default();
    let ignored = ignored(cx, repository, parts).await?;
    let mut found: BTreeMap<Vec<u8>, Candidate> = BTreeMap::new();
    let status = Status::read(&answer.output);
    for change in status.changes.iter().filter(|change| change.place != Place::Staged) {
        let candidate = Candidate {
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
            batch.refused.push((part.path.clone().into_bytes(), rule.clone()));
        } else if !found.keys().any(|path| within(path)) {
            let staged = status.changes.iter().any(|change| within(&change.path));
            if !staged && part.kind == Kind::Gone {
                known(cx, repository, part).await?;
            }
            batch.unchanged.push(part.shown.clone());
        }
    }
    let filtered = filtered(cx, repository, found.values()).await?;
    vet(cx, deps, repository, found.into_values(), &filtered, &mut batch).await?;
    Ok(batch)
}

/// Checks each candidate and records it as accepted or refused.
async fn vet(
    cx: &ToolCx,
    deps: &GitDeps,
    repository: &Repository,
    candidates: impl Iterator<Item = Candidate>,
    filtered: &BTreeMap<Vec<u8>, String>,
    batch: &mut Batch,
) -> Result<(), ToolError> {
    for mut candidate in candidates {
        match refusal(cx, deps, repository, &mut candidate, filtered).await? {
            Some(why) => batch.refused.push((candidate.path, why)),
            None => batch.accepted.push(candidate),
        }
    }
    Ok(())
}

async fn refusal(
    cx: &ToolCx,
    deps: &GitDeps,
    repository: &Repository,
    candidate: &mut Candidate,
    filtered: &BTreeMap<Vec<u8>, String>,
) -> Result<Option<String>, ToolError> {
    let is_new = candidate.place == Place::Untracked;
    if candidate.path.ends_with(b"/") {
        return Ok(Some("it is a repository of its own".to_owned()));
    }
    if is_new && let Some(why) = by_name(&candidate.path) {
        return Ok(Some(why));
    }
    let file = repository.top.join(native(&candidate.path));
    let Ok(meta) = file.symlink_metadata() else { return Ok(None) };
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
    let content = match look(cx, deps, file).await {
        Ok(content) => content,
        Err(_) if cx.is_cancelled() => return Err(ToolError::cancelled("Cancelled; nothing was staged.")),
        Err(cause) => return Ok(Some(format!("it cannot be read ({})", cause.kind()))),
    };
    if candidate.place == Place::Conflicted && content.conflict_mark {
        candidate.remark = Some("still has conflict marks (<<<<<<<)");
    }
    let Some(why) = content.reason() else { return Ok(None) };
    // Secrets that the repository has already are not reported.
    if !is_new && !content.beyond(&in_index(cx, repository, &candidate.path).await?) {
        return Ok(None);
    }
    Ok(Some(why))
}

async fn look(cx: &ToolCx, deps: &GitDeps, file: PathBuf) -> std::io::Result<Content> {
    let (workspace, cancel) = (deps.workspace.clone(), cx.cancel.clone());
    let looking = move || Content::of(&mut workspace.open_found(&file)?, || cancel.is_cancelled());
    tokio::task::spawn_blocking(looking).await.map_err(std::io::Error::other)?
}

/// Scans a file's content in the index.
async fn in_index(cx: &ToolCx, repository: &Repository, path: &[u8]) -> Result<Content, ToolError> {
    let Ok(path) = std::str::from_utf8(path) else { return Ok(Content::default()) };
    let answer = repository.git.run(cx, &["cat-file", "blob", &format!(":0:{path}")]).await?;
    Ok(Content::of(&mut answer.output.as_slice(), || false).unwrap_or_default())
}

/// Returns the requested paths that are ignored, each with the rule.
async fn ignored(
    cx: &ToolCx,
    repository: &Repository,
    parts: &[Part],
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
    let input = nul_ended(asked.iter().map(Vec::as_slice));
    let manner = Manner { with_patterns: true, ..Manner::fed(input) };
    let answer = repository.git.run_as(cx, &["check-ignore", "--verbose", "-z", "--stdin"], manner).await?;
    // 1 means that none is ignored.
    if !matches!(answer.exit_code, Some(0 | 1)) {
        return Err(complaint(&answer));
    }
    let fields: Vec<&[u8]> = answer.output.split(|byte| *byte == 0).collect();
    let mut found = BTreeMap::new();
    for record in fields.chunks_exact(4) {
        let (source, pattern) = (names::path(record[0]), names::line(&String::from_utf8_lossy(record[2])));
        if pattern.starts_with('!') {
            continue;
        }
        // A rule outside the repository may reveal private settings, so it is not quoted.
        let is_the_repositorys =
            |rules: PathBuf| rules.starts_with(&repository.top) || rules.starts_with(&repository.git_dir);
        let rule = if repository.top.join(&source).canonicalize().is_ok_and(is_the_repositorys) {
            format!("{source}:{} `{pattern}`", String::from_utf8_lossy(record[1]))
        } else {
            "a rule of the user's own".to_owned()
        };
        let path = record[3].strip_prefix(b"./").unwrap_or(record[3]);
        found.insert(path.to_vec(), format!("it is ignored by {rule}"));
    }
    Ok(found)
}

/// Returns the files that a filter would change when staged, each with the filter.
async fn filtered(
    cx: &ToolCx,
    repository: &Repository,
    candidates: impl Iterator<Item = &Candidate>,
) -> Result<BTreeMap<Vec<u8>, String>, ToolError> {
    if repository.filters.is_empty() {
        return Ok(BTreeMap::new());
    }
    let asked = nul_ended(candidates.map(|candidate| candidate.path.as_slice()));
    let answer =
        repository.git.run_as(cx, &["check-attr", "-z", "--stdin", "filter"], Manner::fed(asked)).await?;
    if !answer.worked() || answer.cut {
        return Err(complaint(&answer));
    }
    let fields: Vec<&[u8]> = answer.output.split(|byte| *byte == 0).collect();
    let known: BTreeSet<&[u8]> = repository.filters.iter().map(String::as_bytes).collect();
    let ours = fields.chunks_exact(3).filter(|record| known.contains(record[2]));
    Ok(ours.map(|record| (record[0].to_vec(), names::line(&String::from_utf8_lossy(record[2])))).collect())
}

/// Fails if a missing path was not tracked.
async fn known(cx: &ToolCx, repository: &Repository, part: &Part) -> Result<(), ToolError> {
    for list in [["ls-files", "--"].as_slice(), &["ls-tree", "--name-only", "--full-tree", "HEAD", "--"]] {
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
pub(super) async fn stage(cx: &ToolCx, repository: &Repository, batch: &Batch) -> Result<(), ToolError> {
    refuse_if_locked(repository)?;
    if batch.accepted.is_empty() {
        return Ok(());
    }
    let input = nul_ended(batch.accepted.iter().map(|candidate| candidate.path.as_slice()));
    let manner = Manner { writes: true, ..Manner::fed(input) };
    let answer =
        repository.git.run_as(cx, &["add", "--pathspec-from-file=-", "--pathspec-file-nul"], manner).await?;
    if !answer.worked() {
        // Another git may have locked the index meanwhile.
        refuse_if_locked(repository)?;
        return Err(complaint(&answer));
    }
    Ok(())
}

/// Joins paths in git's NUL-terminated input format.
pub(super) fn nul_ended<'a>(paths: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    paths.flat_map(|path| path.iter().copied().chain([0])).collect()
}

pub(super) fn is_within(path: &[u8], folder: &[u8]) -> bool {
    folder.is_empty()
        || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
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
