//! The steps of a commit: the checks before it, the commit, and the report. Not here: the arguments of the tools that
//! commit, and the choice of files that may be staged.

use std::fmt::Write as _;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::GitDeps;
use super::add::format_refusals;
use super::commit_hooks;
use super::commit_recovery::{find_own_commit, message_hash};
use super::diff_output::DiffQuery;
use super::display_text;
use super::git_command::{GitOutput, GitRunOptions};
use super::pending_operation::{PendingOperation, find_pending_operations, refuse_if_locked};
use super::porcelain::{ChangeState, GitFileChange, RepoStatus};
use super::repository::{GitRepository, RepoPath, git_error};
use super::resolve_revision::short_id;
use super::staging::{StagingBatch, is_within, join_nul_ended, stage_batch};
use super::status::{STATUS_ARGUMENTS, format_state_counts, status_header};
use crate::output::TextBudget;
use crate::output::text_budget::clip_to_budget;
use crate::tool::{ErrorCode, ResultMeta, ToolContext, ToolError, ToolReply};

/// The time limit for hooks.
const HOOK_TIMEOUT: Duration = Duration::from_mins(5);
const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// The characters of hook output in an answer.
const MAX_HOOK_OUTPUT: u64 = 10_000;
/// The characters of the file list in an answer.
const FILE_LIST_CHARS: usize = 4_000;

const RECOVERED_WARNING: &str =
    "the commit was made before the device's runner ended; it was not made twice";

/// A commit that a tool asks for.
pub(super) struct CommitOrder {
    pub(super) tool: &'static str,
    pub(super) message: String,
    /// Files to stage first.
    pub(super) batch: Option<StagingBatch>,
    /// Commit only changes below these paths; `None` commits all that is staged.
    pub(super) only: Option<Vec<RepoPath>>,
    pub(super) amend: bool,
    /// Run the repository's hooks.
    pub(super) hooks: bool,
}

/// Stages the files, makes the commit and reports it.
pub(super) async fn create_commit(
    cx: &ToolContext,
    deps: &GitDeps,
    repository: &GitRepository,
    order: CommitOrder,
) -> Result<ToolReply, ToolError> {
    let message = check_message(order.tool, &order.message)?;
    refuse_if_locked(repository)?;
    require_identity(cx, repository).await?;
    let hooks = commit_hooks::find_commit_hooks(cx, repository).await?;
    if !order.hooks && !hooks.is_empty() {
        return Err(ToolError::new(
            ErrorCode::PolicyDenied,
            format!(
                "The repository has hooks for commits ({}), and {} runs no programs. Nothing was staged or committed. \
                 GitCommit runs them and takes the same paths and message.",
                hooks.join(", "),
                order.tool
            ),
        ));
    }
    let before = repository.resolve_head(cx).await?;
    if order.amend && before.is_none() {
        return Err(ToolError::invalid_args(
            "GitCommit: `amend` has nothing to replace: there are no commits yet.",
        ));
    }
    if order.only.is_none() {
        refuse_conflicts(&status_without_renames(cx, repository).await?)?;
    }
    if let Some(batch) = &order.batch {
        if !batch.refused.is_empty() {
            let text = format!(
                "Nothing was committed, and nothing staged.\n{}",
                format_refusals(batch)
            );
            return Err(ToolError::new(ErrorCode::PolicyDenied, text));
        }
        // One intent covers the staging as well: only the commit counts.
        cx.declare_intents(vec![repository.commit_intent(before.as_ref(), &message)])
            .await?;
        stage_batch(cx, repository, batch).await?;
    }
    let status = status_without_renames(cx, repository).await?;
    refuse_conflicts(&status)?;
    let part = select_commit_paths(deps, repository, &order, &status)?;
    let notes = commit_warnings(cx, repository, &order).await?;
    let arguments = commit_arguments(&message, &order, part.is_some());
    let input = part.map(|paths| join_nul_ended(paths.iter().map(Vec::as_slice)));
    let limit = order.hooks.then_some(HOOK_TIMEOUT);
    let manner = GitRunOptions {
        input,
        writes: true,
        hooks: order.hooks,
        limit,
        ..GitRunOptions::default()
    };
    let ran = repository
        .git
        .run_with_options(cx, &arguments, manner)
        .await;
    // The commit itself tells the outcome, even when the call has ended.
    let after = ToolContext {
        cancel: CancellationToken::new(),
        deadline: None,
        ..cx.clone()
    };
    let now = repository.resolve_head(&after).await?;
    let moved = now.filter(|now| Some(now) != before.as_ref());
    let made = match moved {
        // A hook may have changed the message, and an amended commit has another parent.
        Some(head) if order.hooks || order.amend => Some(head),
        // Another process may have committed meanwhile.
        Some(_) => {
            find_own_commit(
                &after,
                repository,
                before.as_deref(),
                &message_hash(&message),
            )
            .await?
        }
        None => None,
    };
    match (ran, made) {
        (Ok(answer), Some(id)) => {
            let report = CommitReport {
                id,
                answer,
                hooks,
                amended: order.amend,
                notes,
            };
            report.into_reply(&after, repository).await
        }
        (Ok(answer), None) => Err(explain_commit_failure(repository, &answer, &hooks)?),
        (Err(stopped), Some(id)) => Err(ToolError::new(
            stopped.stable_code(),
            format!(
                "{} The commit {} had been made by then; a hook may not have ended.",
                stopped.model_text(),
                short_id(&id)
            ),
        )),
        (Err(stopped), None) => Err(ToolError::new(
            stopped.stable_code(),
            match stopped.stable_code() {
                ErrorCode::Cancelled => {
                    "The commit was cancelled; nothing was committed.".to_owned()
                }
                ErrorCode::Timeout => {
                    format!(
                        "{} Nothing was committed; a hook takes longer than a call may.",
                        stopped.model_text()
                    )
                }
                _ => format!("{} Nothing was committed.", stopped.model_text()),
            },
        )),
    }
}

fn check_message(tool: &str, message: &str) -> Result<String, ToolError> {
    let trimmed = message.trim();
    let why = if trimmed.is_empty() {
        "is empty: say what changed and why"
    } else if message.len() > MAX_MESSAGE_BYTES {
        "is longer than 64 KB"
    } else if message.contains('\0') {
        "holds a NUL character"
    } else {
        return Ok(message.to_owned());
    };
    Err(ToolError::invalid_args(format!("{tool}: `message` {why}.")))
}

/// Requires a configured name and address, because git would otherwise guess them from the machine's name.
async fn require_identity(cx: &ToolContext, repository: &GitRepository) -> Result<(), ToolError> {
    for role in ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"] {
        if !repository.git.run(cx, &["var", role]).await?.is_success() {
            return Err(ToolError::not_found(
                "Nothing was committed: git has no name and e-mail address for commits here. Ask the user to run \
                 `git config --global user.name \"...\"` and `git config --global user.email \"...\"`, or the same \
                 without --global for this repository alone.",
            ));
        }
    }
    Ok(())
}

async fn status_without_renames(
    cx: &ToolContext,
    repository: &GitRepository,
) -> Result<RepoStatus, ToolError> {
    let mut question = STATUS_ARGUMENTS.to_vec();
    question.push("--no-renames");
    let answer = repository.run_on_path(cx, &question, None).await?;
    Ok(RepoStatus::parse_porcelain(&answer.output))
}

fn refuse_conflicts(status: &RepoStatus) -> Result<(), ToolError> {
    let conflicts: Vec<String> = status
        .changes
        .iter()
        .filter(|change| change.place == ChangeState::Conflicted)
        .map(GitFileChange::display_path)
        .collect();
    if conflicts.is_empty() {
        return Ok(());
    }
    Err(ToolError::invalid_args(format!(
        "Nothing was committed: {} in conflict: {}. Edit them, then GitAdd them, then commit.",
        if conflicts.len() == 1 {
            "a file is".to_owned()
        } else {
            format!("{} files are", conflicts.len())
        },
        display_text::escape_line(&conflicts.join(", "))
    )))
}

/// Returns the paths to commit, or `None` to commit all that is staged.
fn select_commit_paths(
    deps: &GitDeps,
    repository: &GitRepository,
    order: &CommitOrder,
    status: &RepoStatus,
) -> Result<Option<Vec<Vec<u8>>>, ToolError> {
    let staged = status
        .changes
        .iter()
        .filter(|change| change.place == ChangeState::Staged);
    let progress = find_pending_operations(repository);
    let concludes = progress
        .iter()
        .any(|progress| progress.commits_whole_index());
    let nothing = || {
        ToolError::new(
            ErrorCode::NoMatch,
            format!(
                "Nothing to commit: {}. Nothing was committed.\n{}Stage with GitAdd, or name `paths`.",
                if order.only.is_some() {
                    "nothing below these paths is changed"
                } else {
                    "nothing is staged"
                },
                status_header(deps, repository, status)
            ),
        )
    };
    let Some(parts) = &order.only else {
        return if status.count_in_state(ChangeState::Staged) == 0 && !order.amend && !concludes {
            Err(nothing())
        } else {
            Ok(None)
        };
    };
    let (ours, others): (Vec<&GitFileChange>, Vec<&GitFileChange>) = staged.partition(|change| {
        parts
            .iter()
            .any(|part| is_within(&change.path, part.path.as_bytes()))
    });
    if ours.is_empty() && !order.amend && !concludes {
        return Err(nothing());
    }
    if others.is_empty() {
        return Ok(None);
    }
    if concludes {
        let words = progress
            .into_iter()
            .find(|progress| progress.commits_whole_index())
            .map_or("", PendingOperation::describe_next_step);
        return Err(ToolError::invalid_args(format!(
            "{}: {words} Its commit takes all that is staged: leave out `paths`. Nothing was committed.",
            order.tool
        )));
    }
    if ours.is_empty() {
        return Err(nothing());
    }
    // Takes the path literally, even in a run with hooks, where pathspecs are patterns.
    let prefix: &[u8] = if order.hooks { b":(top,literal)" } else { b"" };
    Ok(Some(
        ours.iter()
            .map(|change| [prefix, &change.path].concat())
            .collect(),
    ))
}

fn commit_arguments(message: &str, order: &CommitOrder, part: bool) -> Vec<String> {
    let mut arguments = ["commit", "--quiet", "--no-gpg-sign", "--cleanup=whitespace"]
        .map(str::to_owned)
        .to_vec();
    arguments.push(format!("--message={message}"));
    if order.amend {
        arguments.push("--amend".to_owned());
    }
    if part {
        arguments
            .extend(["--only", "--pathspec-from-file=-", "--pathspec-file-nul"].map(str::to_owned));
    }
    arguments
}

/// Returns warnings about signing and about a published commit.
async fn commit_warnings(
    cx: &ToolContext,
    repository: &GitRepository,
    order: &CommitOrder,
) -> Result<Vec<String>, ToolError> {
    let mut notes = repository.notes.clone();
    let signing = repository
        .git
        .run(
            cx,
            &["config", "--type=bool", "--get-all", "commit.gpgSign"],
        )
        .await?;
    // The last value is our own override.
    if signing.stdout_text().lines().rev().nth(1) == Some("true") {
        notes.push(
            "commit.gpgSign is set, but the commit is not signed: signing needs the user"
                .to_owned(),
        );
    }
    if order.amend {
        let published = ["merge-base", "--is-ancestor", "HEAD", "@{upstream}"];
        if repository.git.run(cx, &published).await?.exit_code == Some(0) {
            notes.push(
                "the replaced commit is on the upstream branch already; a push would need force"
                    .to_owned(),
            );
        }
    }
    Ok(notes)
}

/// Explains why git made no commit.
fn explain_commit_failure(
    repository: &GitRepository,
    answer: &GitOutput,
    hooks: &[&str],
) -> Result<ToolError, ToolError> {
    refuse_if_locked(repository)?;
    if hooks.is_empty() {
        let why = git_error(answer);
        return Ok(ToolError::new(
            why.stable_code(),
            format!("{}\nNothing was committed.", why.model_text()),
        ));
    }
    let code = answer
        .exit_code
        .map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}"));
    let printed = if answer.stderr_text.is_empty() {
        "(nothing was printed)".to_owned()
    } else {
        clip_hook_output(answer)
    };
    let meta = ResultMeta {
        exit_code: answer.exit_code,
        ..ResultMeta::default()
    };
    Ok(ToolError::new(
        ErrorCode::Io,
        format!(
            "Nothing was committed: git ended with {code}. The repository has the hooks {}, and one of them refused, or git \
             did. What was staged stays staged. What they printed:\n{printed}",
            hooks.join(", ")
        ),
    )
    .with_meta(meta))
}

fn clip_hook_output(answer: &GitOutput) -> String {
    clip_to_budget(
        &answer.stderr_text,
        TextBudget::from_requested(Some(MAX_HOOK_OUTPUT)),
        None,
    )
    .text
}

/// Reports a commit that an earlier process of the runner made.
pub(super) async fn report_earlier_commit(
    cx: &ToolContext,
    repository: &GitRepository,
    id: String,
) -> Result<ToolReply, ToolError> {
    let answer = GitOutput {
        exit_code: Some(0),
        output: Vec::new(),
        stderr_text: String::new(),
        cut: false,
        left_open: false,
    };
    let notes = repository.notes.clone();
    let report = CommitReport {
        id,
        answer,
        hooks: Vec::new(),
        amended: false,
        notes,
    };
    let mut reply = report.into_reply(cx, repository).await?;
    reply.meta.recovered = true;
    reply.meta.warnings.push(RECOVERED_WARNING.to_owned());
    Ok(reply)
}

/// Returns the names of the processes that the call started and that still run.
async fn find_leftover_processes(cx: &ToolContext) -> Vec<String> {
    #[cfg(unix)]
    {
        let request = cx.request.clone();
        let left = tokio::task::spawn_blocking(move || {
            crate::acp::local::process_kill::find_request_processes(&request)
        })
        .await;
        left.unwrap_or_default()
            .iter()
            .map(ToString::to_string)
            .collect()
    }
    #[cfg(not(unix))]
    {
        let _ = cx;
        Vec::new()
    }
}

/// A finished commit to report.
struct CommitReport {
    id: String,
    answer: GitOutput,
    hooks: Vec<&'static str>,
    amended: bool,
    notes: Vec<String>,
}

impl CommitReport {
    async fn into_reply(
        mut self,
        cx: &ToolContext,
        repository: &GitRepository,
    ) -> Result<ToolReply, ToolError> {
        let comparison = DiffQuery {
            command: ["show", "--format=", "--diff-merges=first-parent", &self.id]
                .map(str::to_owned)
                .to_vec(),
            path: None,
            context: 0,
            ignore_whitespace: false,
            again: None,
            number: 0,
        };
        let stat = comparison.read_stat(cx, repository).await?;
        let subject = repository
            .git
            .run(cx, &["log", "-1", "--format=%s", &self.id, "--"])
            .await?
            .first_output_line();
        let status = status_without_renames(cx, repository).await?;
        let place = status.branch.name.as_deref().map_or_else(
            || "on no branch (detached HEAD)".to_owned(),
            |name| format!("on {}", display_text::escape_line(name)),
        );
        let verb = if self.amended {
            "Replaced the last commit by"
        } else {
            "Committed"
        };
        let mut text = format!(
            "{verb} {} {place}: {}\n{}\n{}",
            short_id(&self.id),
            display_text::escape_line(&subject),
            stat.format_summary(),
            stat.format_list(FILE_LIST_CHARS)
        );
        let _ = writeln!(text, "Left: {}", format_state_counts(&status, None));
        for progress in find_pending_operations(repository) {
            let _ = writeln!(text, "{}", progress.describe_next_step());
        }
        if !self.answer.stderr_text.is_empty() {
            let who = if self.hooks.is_empty() {
                "git"
            } else {
                "The hooks"
            };
            let _ = writeln!(text, "{who} printed:\n{}", clip_hook_output(&self.answer));
        } else if !self.hooks.is_empty() {
            let _ = writeln!(
                text,
                "The hooks ({}) printed nothing.",
                self.hooks.join(", ")
            );
        }
        if self.answer.exit_code != Some(0) {
            self.notes
                .push("git made the commit and ended with an error all the same".to_owned());
        }
        let left = if self.hooks.is_empty() {
            Vec::new()
        } else {
            find_leftover_processes(cx).await
        };
        if !left.is_empty() {
            self.notes.push(format!(
                "a hook left running: {}; what it prints from now on is not shown, and nothing ends it but a signal",
                left.join(", ")
            ));
        } else if self.answer.left_open {
            self.notes.push(
                "a hook left a program running; what it prints from now on is not shown".to_owned(),
            );
        }
        text.truncate(text.trim_end().len());
        let meta = ResultMeta {
            exit_code: self.answer.exit_code,
            warnings: self.notes,
            ..ResultMeta::default()
        };
        Ok(ToolReply::from_text(text)
            .with_meta(meta)
            .with_budget(TextBudget::default()))
    }
}
