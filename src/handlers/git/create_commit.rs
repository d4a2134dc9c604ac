//! The steps of a commit: the checks before it, the commit, and the explanation of a failure.

use std::time::Duration;

use super::add::format_refusals;
use super::commit_hooks::{CommitHooks, find_commit_hooks};
use super::commit_order::{CommitOrder, refuse_conflicts, require_identity};
use super::commit_recovery::{find_own_commit, message_hash};
use super::commit_report::{CommitReport, clip_hook_output};
use super::git_command::{GitOutput, GitRunOptions};
use super::pending_operation::refuse_if_locked;
use super::repository::GitRepository;
use super::resolve_revision::short_id;
use super::staging::stage_batch;
use super::status::read_status;
use super::submodule_changes::add_submodule_changes;
use punie_host::local::hook_environment::HookEnvironment;
use punie_host::network_proxy::CallNetwork;
use punie_tool::{ErrorCode, ResultMeta, ToolError, ToolReply};

/// The time limit for hooks.
const HOOK_TIMEOUT: Duration = Duration::from_mins(5);

/// Stages the files, makes the commit and reports it.
pub(super) async fn create_commit(
    repository: &GitRepository,
    order: CommitOrder,
) -> Result<ToolReply, ToolError> {
    order.check_message()?;
    refuse_if_locked(repository)?;
    require_identity(repository).await?;
    let hooks = find_allowed_hooks(repository, &order).await?;
    let before = repository.resolve_head().await?;
    if order.amend && before.is_none() {
        return Err(ToolError::invalid_args(
            "GitCommit: `amend` has nothing to replace: there are no commits yet.",
        ));
    }
    if order.only.is_none() {
        refuse_conflicts(&read_status(repository, &["--no-renames"], None).await?)?;
    }
    stage_for_commit(repository, &order, before.as_ref()).await?;
    let mut status = read_status(repository, &["--no-renames"], None).await?;
    add_submodule_changes(repository, &mut status, None).await?;
    refuse_conflicts(&status)?;
    let selected = order.select_paths(repository, &status)?;
    let warnings = commit_warnings(repository, &order).await?;
    let environment = hooks.prepare(repository, order.tool).await?;
    let network = environment.as_ref().and_then(|hooks| hooks.network.clone());
    let hooks = hooks.names;
    let ran = run_commit(repository, &order, selected, environment).await;
    // The commit itself tells the outcome, even when the call has ended.
    let after = repository.outliving_call();
    let made = find_made_commit(&after, &order, before.as_deref()).await?;
    match (ran, made) {
        (Ok(answer), Some(id)) => {
            let report = CommitReport {
                id,
                answer,
                hooks,
                amended: order.amend,
                warnings,
                network,
            };
            report.into_reply(&after).await
        }
        (Ok(answer), None) => {
            let network = network.as_deref();
            Err(explain_commit_failure(
                repository, &answer, &hooks, network,
            )?)
        }
        (Err(stopped), made) => {
            let network = network.as_deref();
            Err(explain_stopped_commit(&stopped, made.as_deref(), network))
        }
    }
}

/// Returns the hooks of the repository. Fails if the tool does not run them.
async fn find_allowed_hooks(
    repository: &GitRepository,
    order: &CommitOrder,
) -> Result<CommitHooks, ToolError> {
    let hooks = find_commit_hooks(repository).await?;
    if order.hooks || hooks.names.is_empty() {
        return Ok(hooks);
    }
    Err(ToolError::new(
        ErrorCode::PolicyDenied,
        format!(
            "The repository has hooks for commits ({}), and {} runs no programs. Nothing was staged or committed. \
             GitCommit runs them and takes the same paths and message.",
            hooks.names.join(", "),
            order.tool
        ),
    ))
}

async fn stage_for_commit(
    repository: &GitRepository,
    order: &CommitOrder,
    before: Option<&String>,
) -> Result<(), ToolError> {
    let Some(batch) = &order.batch else {
        return Ok(());
    };
    if !batch.refused.is_empty() {
        let text = format!(
            "Nothing was committed, and nothing staged.\n{}",
            format_refusals(batch)
        );
        return Err(ToolError::new(ErrorCode::PolicyDenied, text));
    }
    // One intent covers the staging as well: only the commit counts.
    let intent = repository.commit_intent(before, &order.message);
    repository.git.cx.declare_intents(vec![intent]).await?;
    stage_batch(repository, batch).await
}

/// Runs `git commit` for these paths, or for all that is staged.
async fn run_commit(
    repository: &GitRepository,
    order: &CommitOrder,
    paths: Option<Vec<Vec<u8>>>,
    hook_environment: Option<HookEnvironment>,
) -> Result<GitOutput, ToolError> {
    let message = format!("--message={}", order.message);
    let mut arguments = vec!["commit", "--quiet", "--no-gpg-sign", "--cleanup=whitespace"];
    arguments.push(&message);
    if order.amend {
        arguments.push("--amend");
    }
    let mut options = GitRunOptions::default();
    if let Some(paths) = paths {
        arguments.extend(["--only", "--pathspec-from-file=-", "--pathspec-file-nul"]);
        options = GitRunOptions::with_paths(paths.iter().map(Vec::as_slice));
    }
    options.writes = true;
    options.hooks = order.hooks;
    options.hook_environment = hook_environment;
    options.limit = order.hooks.then_some(HOOK_TIMEOUT);
    repository.git.run_with_options(&arguments, options).await
}

/// Returns the id of the commit, if it was made.
async fn find_made_commit(
    repository: &GitRepository,
    order: &CommitOrder,
    before: Option<&str>,
) -> Result<Option<String>, ToolError> {
    let head = repository.resolve_head().await?;
    // A hook may have changed the message, and an amended commit has another parent.
    if head.as_deref() == before || order.hooks || order.amend {
        return Ok(head.filter(|head| Some(head.as_str()) != before));
    }
    // Another process may have committed meanwhile.
    find_own_commit(repository, before, &message_hash(&order.message)).await
}

/// Returns warnings about the repository and about a published commit.
async fn commit_warnings(
    repository: &GitRepository,
    order: &CommitOrder,
) -> Result<Vec<String>, ToolError> {
    let mut warnings = repository.comparison_warnings();
    let published = ["merge-base", "--is-ancestor", "HEAD", "@{upstream}"];
    if order.amend && repository.git.run(&published).await?.exit_code == Some(0) {
        warnings.push(
            "the replaced commit is on the upstream branch already; a push would need force"
                .to_owned(),
        );
    }
    Ok(warnings)
}

/// Explains why git made no commit.
fn explain_commit_failure(
    repository: &GitRepository,
    answer: &GitOutput,
    hooks: &[&str],
    network: Option<&CallNetwork>,
) -> Result<ToolError, ToolError> {
    refuse_if_locked(repository)?;
    if hooks.is_empty() {
        let why = answer.git_error();
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
    let refused = network.and_then(CallNetwork::failure_text);
    let confinement = &repository.git.deps.confinement;
    let hint = refused.or_else(|| confinement.output_hint(&answer.stderr_text, true));
    let meta = ResultMeta {
        exit_code: answer.exit_code,
        network: network.map_or_else(Vec::new, CallNetwork::traffic),
        ..ResultMeta::default()
    };
    Ok(ToolError::new(
        ErrorCode::Io,
        format!(
            "Nothing was committed: git ended with {code}. The repository has the hooks {}, and one of them refused, or git \
             did. What was staged stays staged. What they printed:\n{printed}{}",
            hooks.join(", "),
            hint.map_or_else(String::new, |hint| format!("\n{hint}"))
        ),
    )
    .with_meta(meta))
}

/// Explains a run that the call's end stopped, by the commit that it made, if any.
fn explain_stopped_commit(
    stopped: &ToolError,
    made: Option<&str>,
    network: Option<&CallNetwork>,
) -> ToolError {
    let why = stopped.model_text();
    let text = match (made, stopped.stable_code()) {
        (Some(id), _) => format!(
            "{why} The commit {} had been made by then; a hook may not have ended.",
            short_id(id)
        ),
        (None, ErrorCode::Cancelled) => {
            "The commit was cancelled; nothing was committed.".to_owned()
        }
        (None, ErrorCode::Timeout) => {
            format!("{why} Nothing was committed; a hook takes longer than a call may.")
        }
        (None, _) => format!("{why} Nothing was committed."),
    };
    let refused = network.and_then(CallNetwork::failure_text);
    let refused = refused.map_or_else(String::new, |refused| format!("\n{refused}"));
    let meta = ResultMeta {
        network: network.map_or_else(Vec::new, CallNetwork::traffic),
        ..ResultMeta::default()
    };
    ToolError::new(stopped.stable_code(), text + &refused).with_meta(meta)
}
