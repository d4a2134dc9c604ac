//! Changed files inside submodules. git is not asked for them with the rest, because it would run the programs that
//! their settings name: each is opened as a repository of its own.

use std::time::Duration;

use tokio::time::Instant;

use super::git_command::GitOutputSink;
use super::porcelain::{ChangeState, GitFileChange, RepoStatus};
use super::repository::{GitRepository, SUBMODULE_MODE, append_pathspec};
use super::repository_place::is_repository;
use super::status::read_status;
use punie_host::RawPath;
use punie_text::output::path_text::path_text_from_bytes;
use punie_tool::ToolError;

/// The most submodules that one answer compares.
const MAX_COMPARED: usize = 30;
/// The time for all of them.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// The names of uncompared submodules in a warning.
const MAX_NAMED: usize = 5;

/// Adds the submodules with changed or new files to a status of this path. Returns a warning if some were not compared.
pub(super) async fn add_submodule_changes(
    repository: &GitRepository,
    status: &mut RepoStatus,
    path: Option<&str>,
) -> Result<Option<String>, ToolError> {
    let mut comparison = SubmoduleComparison {
        left: MAX_COMPARED,
        until: Instant::now() + TIME_LIMIT,
        uncompared: Vec::new(),
    };
    comparison.compare_all(repository, status, path).await?;
    Ok(comparison.warning())
}

struct SubmoduleComparison {
    left: usize,
    until: Instant,
    uncompared: Vec<String>,
}

impl SubmoduleComparison {
    async fn compare_all(
        &mut self,
        repository: &GitRepository,
        status: &mut RepoStatus,
        path: Option<&str>,
    ) -> Result<(), ToolError> {
        let listing = append_pathspec(&["ls-files", "--stage", "-z"], path);
        let list = repository
            .git
            .run_into_sink(&listing, SubmoduleList::default())
            .await?;
        for path in list.paths {
            let is_changed = |change: &GitFileChange| {
                change.place == ChangeState::Unstaged && change.path == path
            };
            if status.changes.iter().any(is_changed) {
                continue;
            }
            match self.compare_one(repository, &path).await {
                Some(Some(letter)) => status.add_change(ChangeState::Unstaged, letter, &path),
                Some(None) => {}
                None => self.uncompared.push(path_text_from_bytes(&path)),
            }
        }
        Ok(())
    }

    /// Returns git's letter for a submodule: `m` with changed files, `?` with new ones only. `None` if it was not
    /// compared.
    async fn compare_one(
        &mut self,
        repository: &GitRepository,
        path: &[u8],
    ) -> Option<Option<&'static str>> {
        let folder = repository.top.join(str::from_utf8(path).ok()?);
        if !is_repository(&folder) {
            return Some(None);
        }
        self.left = self.left.checked_sub(1)?;
        let reading = async {
            let raw = RawPath::from(folder.to_str()?);
            let git = &repository.git;
            let inner = GitRepository::open(&git.cx, &git.deps, &raw).await.ok()?;
            Some((read_status(&inner, &[], None).await.ok()?, inner))
        };
        let (mut status, inner) = tokio::time::timeout_at(self.until, reading).await.ok()??;
        if status.changes.is_empty() {
            Box::pin(self.compare_all(&inner, &mut status, None))
                .await
                .ok()?;
        }
        let is_new = |change: &GitFileChange| change.place == ChangeState::Untracked;
        Some(match status.changes.as_slice() {
            [] => None,
            changes if changes.iter().all(is_new) => Some("?"),
            _ => Some("m"),
        })
    }

    fn warning(&self) -> Option<String> {
        let all = &self.uncompared;
        let named = all
            .iter()
            .take(MAX_NAMED)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        let more = match all.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        (!all.is_empty())
            .then(|| format!("the files of these submodules were not compared: {named}{more}"))
    }
}

/// Collects the paths of submodules from `git ls-files --stage -z`.
#[derive(Default)]
struct SubmoduleList {
    rest: Vec<u8>,
    paths: Vec<Vec<u8>>,
}

impl GitOutputSink for SubmoduleList {
    fn accept_chunk(&mut self, piece: &[u8]) -> bool {
        self.rest.extend_from_slice(piece);
        let end = self
            .rest
            .iter()
            .rposition(|byte| *byte == 0)
            .map_or(0, |at| at + 1);
        for record in self.rest[..end].split(|byte| *byte == 0) {
            if record.starts_with(SUBMODULE_MODE)
                && let Some(tab) = record.iter().position(|byte| *byte == b'\t')
            {
                self.paths.push(record[tab + 1..].to_vec());
            }
        }
        self.rest.drain(..end);
        true
    }
}
