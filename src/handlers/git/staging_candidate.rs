//! A file that may be staged, and the reasons to refuse it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use super::display_text::escape_line;
use super::porcelain::{ChangeState, GitFileChange};
use super::repository::GitRepository;
use super::secret_scan::{SecretScan, check_file_name};
use punie_text::output::path_text::os_string_from_bytes;
use punie_tool::ToolError;

/// A file that may be staged.
#[derive(Debug)]
pub(super) struct StagingCandidate {
    pub(super) change: GitFileChange,
    /// A remark for the answer.
    pub(super) remark: Option<&'static str>,
}

/// The reason not to stage a file.
#[derive(Debug)]
pub(super) enum StagingRefusal {
    /// It looks like a secret, or holds one.
    Secret(String),
    Other(String),
}

impl StagingRefusal {
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::Secret(why) | Self::Other(why) => why,
        }
    }
}

impl StagingCandidate {
    /// Returns `new`, `modified`, `deleted` or `resolved`.
    pub(super) fn change_word(&self) -> &'static str {
        match (self.change.place, self.change.letters.as_str()) {
            (ChangeState::Untracked, _) => "new",
            (ChangeState::Conflicted, _) => "resolved",
            (_, "D") => "deleted",
            _ => "modified",
        }
    }

    /// Returns the reason not to stage the file, if there is one. `filtered` holds the files with a filter.
    pub(super) async fn find_refusal_reason(
        &mut self,
        repository: &GitRepository,
        filtered: &BTreeMap<Vec<u8>, String>,
    ) -> Result<Option<StagingRefusal>, ToolError> {
        let refuse = |why: String| Ok(Some(StagingRefusal::Other(why)));
        let path = &self.change.path;
        let is_new = self.change.place == ChangeState::Untracked;
        if path.ends_with(b"/") {
            return refuse("it is a repository of its own".to_owned());
        }
        if is_new && let Some(why) = check_file_name(path) {
            return Ok(Some(StagingRefusal::Secret(why)));
        }
        let file = repository.top.join(os_string_from_bytes(path.clone()));
        let Some(meta) = file
            .symlink_metadata()
            .ok()
            .filter(std::fs::Metadata::is_file)
        else {
            return Ok(None);
        };
        if let Some(name) = filtered.get(path) {
            let next = if repository.filters.contains(name) {
                "Bash `git add` runs it."
            } else {
                "No setting here says what it is: its program must be set up first, such as by `git lfs install`."
            };
            return refuse(format!(
                "its attributes ask for the filter {}, a program that is not run here; without it other content would be \
                 committed than the repository expects. {next}",
                escape_line(name)
            ));
        }
        if is_foreign_hard_link(&meta) {
            return refuse("it is a hard link to another user's file".to_owned());
        }
        let content = match scan_file(repository, file).await {
            Ok(content) => content,
            Err(_) if repository.git.cx.is_cancelled() => {
                return Err(ToolError::call_cancelled("Cancelled; nothing was staged."));
            }
            Err(cause) => return refuse(format!("it cannot be read ({})", cause.kind())),
        };
        if self.change.place == ChangeState::Conflicted && content.conflict_mark {
            self.remark = Some("still has conflict marks (<<<<<<<)");
        }
        let Some(why) = content.describe() else {
            return Ok(None);
        };
        // Secrets that the repository has already are not reported.
        let is_known =
            !is_new && !content.has_new_secrets(&scan_index_blob(repository, path).await?);
        Ok((!is_known).then_some(StagingRefusal::Secret(why)))
    }
}

async fn scan_file(repository: &GitRepository, file: PathBuf) -> io::Result<SecretScan> {
    let git = &repository.git;
    let workspace = git.deps.workspace.clone();
    let cancel = git.cx.cancel.clone();
    tokio::task::spawn_blocking(move || {
        SecretScan::scan_reader(&mut workspace.open_found_file(&file)?, || {
            cancel.is_cancelled()
        })
    })
    .await
    .map_err(io::Error::other)?
}

/// Scans a file's content in the index.
async fn scan_index_blob(repository: &GitRepository, path: &[u8]) -> Result<SecretScan, ToolError> {
    let Ok(path) = std::str::from_utf8(path) else {
        return Ok(SecretScan::default());
    };
    let name = format!(":0:{path}");
    let answer = repository.git.run(&["cat-file", "blob", &name]).await?;
    Ok(SecretScan::scan_reader(&mut answer.output.as_slice(), || false).unwrap_or_default())
}

#[cfg(unix)]
fn is_foreign_hard_link(meta: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    meta.nlink() > 1 && meta.uid() != rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_foreign_hard_link(_meta: &std::fs::Metadata) -> bool {
    false
}
