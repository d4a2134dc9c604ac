//! The steps of a commit: the checks before it, the commit, and the report. Not here: the arguments of the tools that
//! commit, and the choice of files that may be staged.

use std::fmt::Write as _;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::GitDeps;
use super::add::refusals;
use super::aftermath::{message_hash, ours};
use super::command::{Answer, Manner};
use super::comparison::Comparison;
use super::hooks;
use super::names;
use super::porcelain::{Change, Place, Status};
use super::progress::{Progress, in_progress, refuse_if_locked};
use super::repository::{Part, Repository, complaint};
use super::revision::short;
use super::staging::{Batch, is_within, nul_ended, stage};
use super::status::{QUESTION, counts, head};
use crate::output::Budget;
use crate::output::clip::clip;
use crate::tool::{ErrorCode, Meta, Reply, ToolCx, ToolError};

/// The time limit for hooks.
const HOOK_LIMIT: Duration = Duration::from_mins(5);
const LONGEST_MESSAGE: usize = 64 << 10;
/// The characters of hook output in an answer.
const HOOK_OUTPUT: u64 = 10_000;
/// The characters of the file list in an answer.
const LIST: usize = 4_000;

const BEFORE_THE_END: &str = "the commit was made before the device's runner ended; it was not made twice";

/// A commit that a tool asks for.
pub(super) struct Order {
    pub(super) tool: &'static str,
    pub(super) message: String,
    /// Files to stage first.
    pub(super) batch: Option<Batch>,
    /// Commit only changes below these paths; `None` commits all that is staged.
    pub(super) only: Option<Vec<Part>>,
    pub(super) amend: bool,
    /// Run the repository's hooks.
    pub(super) hooks: bool,
}

/// Stages the files, makes the commit and reports it.
pub(super) async fn commit(
    cx: &ToolCx,
    deps: &GitDeps,
    repository: &Repository,
    order: Order,
) -> Result<Reply, ToolError> {
    let message = checked(order.tool, &order.message)?;
    refuse_if_locked(repository)?;
    prove_identity(cx, repository).await?;
    let hooks = hooks::of_a_commit(cx, repository).await?;
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
    let before = repository.head(cx).await?;
    if order.amend && before.is_none() {
        return Err(ToolError::invalid_args(
            "GitCommit: `amend` has nothing to replace: there are no commits yet.",
        ));
    }
    if order.only.is_none() {
        refuse_conflicts(&status(cx, repository).await?)?;
    }
    if let Some(batch) = &order.batch {
        if !batch.refused.is_empty() {
            let text = format!("Nothing was committed, and nothing staged.\n{}", refusals(batch));
            return Err(ToolError::new(ErrorCode::PolicyDenied, text));
        }
        // One intent covers the staging as well: only the commit counts.
        cx.declare(vec![repository.commit_intent(before.as_ref(), &message)]).await?;
        stage(cx, repository, batch).await?;
    }
    let status = status(cx, repository).await?;
    refuse_conflicts(&status)?;
    let part = what(deps, repository, &order, &status)?;
    let notes = notes(cx, repository, &order).await?;
    let arguments = arguments(&message, &order, part.is_some());
    let input = part.map(|paths| nul_ended(paths.iter().map(Vec::as_slice)));
    let limit = order.hooks.then_some(HOOK_LIMIT);
    let manner = Manner { input, writes: true, hooks: order.hooks, limit, ..Manner::default() };
    let ran = repository.git.run_as(cx, &arguments, manner).await;
    // The commit itself tells the outcome, even when the call has ended.
    let after = ToolCx { cancel: CancellationToken::new(), deadline: None, ..cx.clone() };
    let now = repository.head(&after).await?;
    let moved = now.filter(|now| Some(now) != before.as_ref());
    let made = match moved {
        // A hook may have changed the message, and an amended commit has another parent.
        Some(head) if order.hooks || order.amend => Some(head),
        // Another process may have committed meanwhile.
        Some(_) => ours(&after, repository, before.as_deref(), &message_hash(&message)).await?,
        None => None,
    };
    match (ran, made) {
        (Ok(answer), Some(id)) => {
            let report = Report { id, answer, hooks, amended: order.amend, notes };
            report.reply(&after, repository).await
        }
        (Ok(answer), None) => Err(refused(repository, &answer, &hooks)?),
        (Err(stopped), Some(id)) => Err(ToolError::new(
            stopped.code(),
            format!(
                "{} The commit {} had been made by then; a hook may not have ended.",
                stopped.text(),
                short(&id)
            ),
        )),
        (Err(stopped), None) => Err(ToolError::new(
            stopped.code(),
            match stopped.code() {
                ErrorCode::Cancelled => "The commit was cancelled; nothing was committed.".to_owned(),
                ErrorCode::Timeout => {
                    format!("{} Nothing was committed; a hook takes longer than a call may.", stopped.text())
                }
                _ => format!("{} Nothing was committed.", stopped.text()),
            },
        )),
    }
}

fn checked(tool: &str, message: &str) -> Result<String, ToolError> {
    let trimmed = message.trim();
    let why = if trimmed.is_empty() {
        "is empty: say what changed and why"
    } else if message.len() > LONGEST_MESSAGE {
        "is longer than 64 KB"
    } else if message.contains('\0') {
        "holds a NUL character"
    } else {
        return Ok(message.to_owned());
    };
    Err(ToolError::invalid_args(format!("{tool}: `message` {why}.")))
}

/// Requires a configured name and address, because git would otherwise guess them from the machine's name.
async fn prove_identity(cx: &ToolCx, repository: &Repository) -> Result<(), ToolError> {
    for role in ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"] {
        if !repository.git.run(cx, &["var", role]).await?.worked() {
            return Err(ToolError::not_found(
                "Nothing was committed: git has no name and e-mail address for commits here. Ask the user to run \
                 `git config --global user.name \"...\"` and `git config --global user.email \"...\"`, or the same \
                 without --global for this repository alone.",
            ));
        }
    }
    Ok(())
}

async fn status(cx: &ToolCx, repository: &Repository) -> Result<Status, ToolError> {
    let mut question = QUESTION.to_vec();
    question.push("--no-renames");
    let answer = repository.ask(cx, &question, None).await?;
    Ok(Status::read(&answer.output))
}

fn refuse_conflicts(status: &Status) -> Result<(), ToolError> {
    let conflicts: Vec<String> =
        status.changes.iter().filter(|change| change.place == Place::Conflicted).map(Change::shown).collect();
    if conflicts.is_empty() {
        return Ok(());
    }
    Err(ToolError::invalid_args(format!(
        "Nothing was committed: {} in conflict: {}. Edit them, then GitAdd them, then commit.",
        if conflicts.len() == 1 { "a file is".to_owned() } else { format!("{} files are", conflicts.len()) },
        names::line(&conflicts.join(", "))
    )))
}

/// Returns the paths to commit, or `None` to commit all that is staged.
fn what(
    deps: &GitDeps,
    repository: &Repository,
    order: &Order,
    status: &Status,
) -> Result<Option<Vec<Vec<u8>>>, ToolError> {
    let staged = status.changes.iter().filter(|change| change.place == Place::Staged);
    let progress = in_progress(repository);
    let concludes = progress.iter().any(|progress| progress.takes_all());
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
                head(deps, repository, status)
            ),
        )
    };
    let Some(parts) = &order.only else {
        return if status.count(Place::Staged) == 0 && !order.amend && !concludes {
            Err(nothing())
        } else {
            Ok(None)
        };
    };
    let (ours, others): (Vec<&Change>, Vec<&Change>) =
        staged.partition(|change| parts.iter().any(|part| is_within(&change.path, part.path.as_bytes())));
    if ours.is_empty() && !order.amend && !concludes {
        return Err(nothing());
    }
    if others.is_empty() {
        return Ok(None);
    }
    if concludes {
        let words = progress.into_iter().find(|progress| progress.takes_all()).map_or("", Progress::words);
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
    Ok(Some(ours.iter().map(|change| [prefix, &change.path].concat()).collect()))
}

fn arguments(message: &str, order: &Order, part: bool) -> Vec<String> {
    let mut arguments =
        ["commit", "--quiet", "--no-gpg-sign", "--cleanup=whitespace"].map(str::to_owned).to_vec();
    arguments.push(format!("--message={message}"));
    if order.amend {
        arguments.push("--amend".to_owned());
    }
    if part {
        arguments.extend(["--only", "--pathspec-from-file=-", "--pathspec-file-nul"].map(str::to_owned));
    }
    arguments
}

/// Returns warnings about signing and about a published commit.
async fn notes(cx: &ToolCx, repository: &Repository, order: &Order) -> Result<Vec<String>, ToolError> {
    let mut notes = repository.notes.clone();
    let signing = repository.git.run(cx, &["config", "--type=bool", "--get-all", "commit.gpgSign"]).await?;
    // The last value is our own override.
    if signing.text().lines().rev().nth(1) == Some("true") {
        notes.push("commit.gpgSign is set, but the commit is not signed: signing needs the user".to_owned());
    }
    if order.amend {
        let published = ["merge-base", "--is-ancestor", "HEAD", "@{upstream}"];
        if repository.git.run(cx, &published).await?.exit_code == Some(0) {
            notes.push(
                "the replaced commit is on the upstream branch already; a push would need force".to_owned(),
            );
        }
    }
    Ok(notes)
}

/// Explains why git made no commit.
fn refused(repository: &Repository, answer: &Answer, hooks: &[&str]) -> Result<ToolError, ToolError> {
    refuse_if_locked(repository)?;
    if hooks.is_empty() {
        let why = complaint(answer);
        return Ok(ToolError::new(why.code(), format!("{}\nNothing was committed.", why.text())));
    }
    let code = answer.exit_code.map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}"));
    let printed =
        if answer.complaint.is_empty() { "(nothing was printed)".to_owned() } else { printed(answer) };
    let meta = Meta { exit_code: answer.exit_code, ..Meta::default() };
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

fn printed(answer: &Answer) -> String {
    clip(&answer.complaint, Budget::chars(Some(HOOK_OUTPUT)), None).text
}

/// Reports a commit that an earlier process of the runner made.
pub(super) async fn made_before(
    cx: &ToolCx,
    repository: &Repository,
    id: String,
) -> Result<Reply, ToolError> {
    let answer = Answer {
        exit_code: Some(0),
        output: Vec::new(),
        complaint: String::new(),
        cut: false,
        left_open: false,
    };
    let notes = repository.notes.clone();
    let report = Report { id, answer, hooks: Vec::new(), amended: false, notes };
    let mut reply = report.reply(cx, repository).await?;
    reply.meta.recovered = true;
    reply.meta.warnings.push(BEFORE_THE_END.to_owned());
    Ok(reply)
}

/// Returns the names of the processes that the call started and that still run.
async fn left_running(cx: &ToolCx) -> Vec<String> {
    #[cfg(unix)]
    {
        let request = cx.request.clone();
        let left = tokio::task::spawn_blocking(move || crate::acp::local::kill::left_of(&request)).await;
        left.unwrap_or_default().iter().map(ToString::to_string).collect()
    }
    #[cfg(not(unix))]
    {
        let _ = cx;
        Vec::new()
    }
}

/// A finished commit to report.
struct Report {
    id: String,
    answer: Answer,
    hooks: Vec<&'static str>,
    amended: bool,
    notes: Vec<String>,
}

impl Report {
    async fn reply(mut self, cx: &ToolCx, repository: &Repository) -> Result<Reply, ToolError> {
        let comparison = Comparison {
            command: ["show", "--format=", "--diff-merges=first-parent", &self.id]
                .map(str::to_owned)
                .to_vec(),
            path: None,
            context: 0,
            ignore_whitespace: false,
            again: None,
            number: 0,
        };
        let stat = comparison.stat(cx, repository).await?;
        let subject = repository.git.run(cx, &["log", "-1", "--format=%s", &self.id, "--"]).await?.line();
        let status = status(cx, repository).await?;
        let place = status.branch.name.as_deref().map_or_else(
            || "on no branch (detached HEAD)".to_owned(),
            |name| format!("on {}", names::line(name)),
        );
        let verb = if self.amended { "Replaced the last commit by" } else { "Committed" };
        let mut text = format!(
            "{verb} {} {place}: {}\n{}\n{}",
            short(&self.id),
            names::line(&subject),
            stat.summary(),
            stat.list(LIST)
        );
        let _ = writeln!(text, "Left: {}", counts(&status, None));
        for progress in in_progress(repository) {
            let _ = writeln!(text, "{}", progress.words());
        }
        if !self.answer.complaint.is_empty() {
            let who = if self.hooks.is_empty() { "git" } else { "The hooks" };
            let _ = writeln!(text, "{who} printed:\n{}", printed(&self.answer));
        } else if !self.hooks.is_empty() {
            let _ = writeln!(text, "The hooks ({}) printed nothing.", self.hooks.join(", "));
        }
        if self.answer.exit_code != Some(0) {
            self.notes.push("git made the commit and ended with an error all the same".to_owned());
        }
        let left = if self.hooks.is_empty() { Vec::new() } else { left_running(cx).await };
        if !left.is_empty() {
            self.notes.push(format!(
                "a hook left running: {}; what it prints from now on is not shown, and nothing ends it but a signal",
                left.join(", ")
            ));
        } else if self.answer.left_open {
            self.notes
                .push("a hook left a program running; what it prints from now on is not shown".to_owned());
        }
        text.truncate(text.trim_end().len());
        let meta = Meta { exit_code: self.answer.exit_code, warnings: self.notes, ..Meta::default() };
        Ok(Reply::text(text).with_meta(meta).with_budget(Budget::default()))
    }
}
