//! Recovery of an interrupted commit or staging: reads the outcome from the repository and removes locks that a killed
//! git of ours left.

use std::time::{Duration, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use super::GitDeps;
use super::commit_report::report_earlier_commit;
use super::repository::GitRepository;
use super::resolve_revision::short_id;
use punie_core::clock::unix_time_ms;
use punie_core::ids::{RequestId, to_hex};
use punie_host::RawPath;
use punie_host::local::other_processes::may_run_in_folder;
#[cfg(unix)]
use punie_host::terminals::StopSequence;
use punie_tool::{CallIntent, IntentOutcome, ToolContext, ToolError};

/// The number of commits to search, because others may have been made since.
const SEARCH_DEPTH: &str = "--max-count=50";

/// Hashes a commit message so that git's whitespace cleanup does not change the hash.
pub(super) fn message_hash(message: &str) -> String {
    let lines: Vec<&str> = message.trim().lines().map(str::trim_end).collect();
    let mut hasher = Sha256::new();
    let mut empty_before = false;
    for line in lines {
        // Several empty lines in a row count as one.
        if !(line.is_empty() && empty_before) {
            hasher.update(line);
            hasher.update(b"\n");
        }
        empty_before = line.is_empty();
    }
    to_hex(&hasher.finalize())
}

/// Returns whether one of the intents concerns a repository.
pub fn has_git_intent(intents: &[CallIntent]) -> bool {
    intents
        .iter()
        .any(|intent| matches!(intent, CallIntent::Stage { .. } | CallIntent::Commit { .. }))
}

/// Finds out whether the declared staging and commits were done. First kills any git of that call that still runs.
pub async fn resolve_git_intents(
    deps: &GitDeps,
    request: &RequestId,
    intents: &[CallIntent],
) -> IntentOutcome {
    kill_leftover_git(request).await;
    let cx = ToolContext::for_detached_call(request.clone());
    for intent in intents {
        let found = match intent {
            CallIntent::Stage {
                repository,
                since_ms,
            } => recover_staging(&cx, deps, repository, *since_ms).await,
            CallIntent::Commit {
                repository,
                head,
                message,
                since_ms,
            } => recover_commit(&cx, deps, repository, (head.as_deref(), message), *since_ms).await,
            _ => Ok(unclear_outcome(
                "What else was declared cannot be told.".to_owned(),
            )),
        };
        match found {
            Ok(IntentOutcome::Untouched) => {}
            Ok(found) => return found,
            Err(fault) => return unclear_outcome(fault.model_text().to_owned()),
        }
    }
    IntentOutcome::Untouched
}

async fn kill_leftover_git(request: &RequestId) {
    #[cfg(unix)]
    {
        let asked = request.clone();
        let ending = tokio::task::spawn_blocking(move || {
            punie_host::local::process_kill::end_request_processes(
                &asked,
                &StopSequence::for_timeout(),
            )
        });
        match ending.await {
            Ok(stopped) if stopped.survivors.is_empty() => {}
            _ => {
                tracing::warn!(request.id = %request, "a git that an earlier life left could not be ended");
            }
        }
    }
    #[cfg(not(unix))]
    let _ = request;
}

fn unclear_outcome(text: String) -> IntentOutcome {
    IntentOutcome::Unclear {
        text,
        meta: Box::default(),
    }
}

async fn recover_staging(
    cx: &ToolContext,
    deps: &GitDeps,
    top: &str,
    since_ms: u64,
) -> Result<IntentOutcome, ToolError> {
    let repository = GitRepository::open(cx, deps, &RawPath::from(top)).await?;
    // Staging the same files twice has the same result as once.
    Ok(remove_own_locks(&repository, None, since_ms)
        .map_or(IntentOutcome::Untouched, unclear_outcome))
}

async fn recover_commit(
    cx: &ToolContext,
    deps: &GitDeps,
    top: &str,
    (before, message): (Option<&str>, &str),
    since_ms: u64,
) -> Result<IntentOutcome, ToolError> {
    let repository = GitRepository::open(cx, deps, &RawPath::from(top)).await?;
    let branch = ["symbolic-ref", "--quiet", "HEAD"];
    let branch = repository.git.run(&branch).await?.first_output_line();
    let left = remove_own_locks(&repository, Some(&branch), since_ms);
    let now = repository.resolve_head().await?;
    if now.as_deref() == before {
        return Ok(left.map_or(IntentOutcome::Untouched, unclear_outcome));
    }
    if let Some(made) = find_own_commit(&repository, before, message).await? {
        let mut reply = report_earlier_commit(&repository, made).await?;
        reply.meta.warnings.extend(left);
        return Ok(IntentOutcome::Done(Box::new(reply)));
    }
    let name =
        |id: Option<&str>| id.map_or_else(|| "no commit".to_owned(), |id| short_id(id).to_owned());
    Ok(unclear_outcome(format!(
        "{top}: HEAD was {} and is {} now, and no commit with this message follows the old one. Look at GitLog.",
        name(before),
        name(now.as_deref())
    )))
}

/// Returns the commit on top of `before` that has this message, if there is one.
pub(super) async fn find_own_commit(
    repository: &GitRepository,
    before: Option<&str>,
    message: &str,
) -> Result<Option<String>, ToolError> {
    let not = before.map(|id| format!("^{id}"));
    let mut arguments = vec!["log", "-z", "--format=%H%n%P%n%B", SEARCH_DEPTH, "HEAD"];
    arguments.extend(not.as_deref());
    arguments.push("--");
    let answer = repository.git.run(&arguments).await?;
    let text = answer.stdout_text();
    let made = text.split('\0').find_map(|commit| {
        let (id, rest) = commit.split_once('\n')?;
        let (parents, body) = rest.split_once('\n')?;
        let follows = parents
            .split(' ')
            .next()
            .filter(|parent| !parent.is_empty())
            == before;
        (follows && message_hash(body) == message).then(|| id.trim().to_owned())
    });
    Ok(made)
}

/// Removes git locks that are newer than the declaration, unless another git that may hold them runs here. Returns a
/// warning about a lock that stays.
fn remove_own_locks(
    repository: &GitRepository,
    branch: Option<&str>,
    since_ms: u64,
) -> Option<String> {
    let since = UNIX_EPOCH + Duration::from_millis(since_ms);
    let branch = branch
        .filter(|branch| branch.starts_with("refs/"))
        .map(|branch| format!("{branch}.lock"));
    let names = ["index.lock", "HEAD.lock"]
        .into_iter()
        .map(str::to_owned)
        .chain(branch);
    let mut left = None;
    for lock in names.map(|name| repository.git_dir.join(name)) {
        let Ok(metadata) = lock.symlink_metadata() else {
            continue;
        };
        let is_ours = metadata.is_file()
            && metadata.modified().is_ok_and(|made| made >= since)
            && !may_run_in_folder("git", &repository.top);
        let gone = is_ours
            && lock
                .to_str()
                .is_some_and(|lock| remove_lock_file(repository, lock));
        if gone {
            tracing::info!(lock = %lock.display(), "a lock that a killed git of ours left was taken away");
        } else {
            left = Some(format!(
                "{} is there and was not removed: it may be another git's. If no git runs and it stays, the user can \
                 delete it.",
                lock.display()
            ));
        }
    }
    left
}

/// Removes a file in the workspace, or in a repository that git uses beside it. Returns whether it was removed.
fn remove_lock_file(repository: &GitRepository, path: &str) -> bool {
    let workspace = repository.git.deps.with_repositories();
    let Ok(found) = workspace.resolve_inside(&RawPath::from(path)) else {
        return false;
    };
    found.absolute_path().to_str() == Some(path)
        && found
            .open_parent_folder(false)
            .and_then(|(folder, name)| folder.remove_file_entry(&name))
            .is_ok()
}

impl GitRepository {
    /// Returns the intent to make a commit on top of this HEAD.
    pub(super) fn commit_intent(&self, head: Option<&String>, message: &str) -> CallIntent {
        self.intent_or_vague("commit", |repository| CallIntent::Commit {
            repository,
            head: head.cloned(),
            message: message_hash(message),
            since_ms: unix_time_ms().unsigned_abs(),
        })
    }

    /// Returns the intent to stage files.
    pub(super) fn stage_intent(&self) -> CallIntent {
        self.intent_or_vague("stage files", |repository| CallIntent::Stage {
            repository,
            since_ms: unix_time_ms().unsigned_abs(),
        })
    }

    /// Returns an intent with the path of the working tree, or a vague one if the path is not valid UTF-8.
    fn intent_or_vague(
        &self,
        action: &str,
        to_intent: impl FnOnce(String) -> CallIntent,
    ) -> CallIntent {
        match self.top.to_str() {
            Some(top) => to_intent(top.to_owned()),
            None => CallIntent::Vague {
                what: format!("{action} in {}", self.top.display()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_known_again_however_git_tidied_it_up() {
        let asked = "  Name the error \n\n\n\nBecause.  \nAnd so on\n\n";
        assert_eq!(
            message_hash(asked),
            message_hash("Name the error\n\nBecause.\nAnd so on\n")
        );
        assert_ne!(
            message_hash(asked),
            message_hash("Name the error\n\nBecause. And so on\n")
        );
    }
}
