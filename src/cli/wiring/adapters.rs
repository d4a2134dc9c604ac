//! Adapters between modules that do not depend on each other: each implements a trait of one module with a type of
//! another.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context;

use crate::config::{Config, ProcessEnvironment};
use punie_core::clock::ExpiryClock;
use punie_core::ids::RequestId;
use punie_engine::audit::{AuditLog, AuditPaths, AuditRetention, TextSigner};
use punie_engine::journal::Journal;
use punie_engine::runner::{Clock, InspectedEffects, LeftoverCleanup};
use punie_handlers::file::CommandJudge;
use punie_handlers::git::{self, GitDeps};
use punie_home::{DeviceIdentity, Home, SecretStore};
use punie_host::local::child_log::{ChildLog, ChildLogFuture, NoChildLog};
use punie_host::local::command_environment::WithheldObserver;
use punie_host::local::confinement::Confinement;
use punie_host::local::desktop_apps::has_display;
use punie_host::local::hook_environment::HookWrappers;
use punie_host::local::intent_recovery;
use punie_host::local::local_terminals::LocalTerminals;
use punie_host::local::process_identity::ProcessIdentity;
use punie_host::local::process_kill::{end_request_processes, kill_survivor};
use punie_host::permission::PermissionGate;
use punie_host::terminals::ExitStatus;
use punie_host::terminals::StopSequence;
use punie_host::{ReachableFolders, Workspace};
use punie_policy::PolicyDecision;
use punie_text::redact::{Redactor, Secret};
use punie_tool::{CallIntent, IntentOutcome, ToolRegistry};
use punie_undo::Trash;

/// Judges command lines as those of Bash by the owner's rules. Who wrote them into the settings need not be asked again.
pub(super) fn command_judge(
    gate: &Arc<PermissionGate>,
    registry: &Arc<ToolRegistry>,
) -> CommandJudge {
    // The registry holds the tools that ask.
    let gate = Arc::clone(gate);
    let registry = Arc::downgrade(registry);
    Arc::new(move |line| {
        let gate = Arc::clone(&gate);
        let registry = Weak::clone(&registry);
        Box::pin(async move {
            let unjudged = || Some("the rules cannot be read".to_owned());
            let Some(Ok(entry)) = registry.upgrade().map(|all| all.find("Bash")) else {
                return unjudged();
            };
            let args = serde_json::json!({ "command": line }).to_string();
            let Ok(ready) = entry.decode_call(&args) else {
                return unjudged();
            };
            let input = ready.as_gate_input(&args);
            match gate.policy_verdict(entry.tool_spec(), input).await {
                Ok(verdict) if verdict.decision == PolicyDecision::Deny => {
                    Some(verdict.explain_cause())
                }
                Ok(_) => None,
                Err(error) => Some(error.model_text().to_owned()),
            }
        })
    })
}

/// Creates a callback that adds secrets of the environment to the redactor.
pub(super) fn mask_withheld_values(redactor: &Redactor) -> WithheldObserver {
    let redactor = redactor.clone();
    Arc::new(move |values| redactor.add_secrets(values.into_iter().map(Secret::new)))
}

/// The interval for reading secrets again after a failure: accessing a keychain may open a window.
const SECRETS_RETRY_INTERVAL: Duration = Duration::from_mins(5);

/// Masks secrets that the owner stores while the runner runs, as soon as they are stored.
pub(super) async fn mask_new_secrets(secrets: SecretStore, redactor: Redactor) {
    let Some(mut news) = secrets.watch() else {
        return;
    };
    loop {
        let secrets = secrets.clone();
        let read = tokio::task::spawn_blocking(move || secrets.values()).await;
        let is_read = matches!(read, Ok(Ok(_)));
        match read {
            Ok(Ok(values)) => redactor.add_secrets(values),
            Ok(Err(error)) => {
                tracing::error!(%error, "the owner's secrets cannot be read; they are not masked");
            }
            Err(fault) => tracing::error!(%fault, "reading the owner's secrets broke off"),
        }
        tokio::select! {
            heard = news.changes.changed() => if heard.is_err() { return },
            // No event tells that a keychain was unlocked.
            () = tokio::time::sleep(SECRETS_RETRY_INTERVAL), if !is_read => {}
        }
    }
}

/// Returns what keeps applications from being opened, if anything does.
pub(super) fn find_apps_obstacle(
    confinement: &Confinement,
    environment: &ProcessEnvironment,
) -> Option<&'static str> {
    if confinement.check_app_allowed().is_err() {
        return Some("apps = false under [sandbox]");
    }
    let is_set = |name: &str| environment.get(name).is_some();
    (!has_display(is_set)).then_some("there is no display")
}

/// Installs what gives the hooks of commits the environment of commands. Without it they have that of git.
pub(super) fn install_hook_wrappers(
    home: &Home,
    terminals: &LocalTerminals,
) -> Option<HookWrappers> {
    // The other systems have no environment of commands yet.
    if !cfg!(unix) {
        return None;
    }
    let folder = home.hooks_dir();
    let names = &git::COMMIT_HOOKS;
    let installed = HookWrappers::install(&folder, names, terminals.clone());
    installed
        .inspect_err(|cause| tracing::warn!(%cause, "hooks of commits get the environment of git"))
        .ok()
}

/// Removes expired items from the trash and commands' temporary files, now and every hour.
pub(super) async fn remove_expired_hourly(
    trash: Trash,
    terminals: LocalTerminals,
    clock: ExpiryClock,
) {
    loop {
        let now_ms = clock.now_ms().and_then(|now| u64::try_from(now).ok());
        if let Some(now_ms) = now_ms {
            let now = UNIX_EPOCH + Duration::from_millis(now_ms);
            terminals.remove_old_temp_files(now).await;
        }
        let this = trash.clone();
        match tokio::task::spawn_blocking(move || this.apply_limits()).await {
            Ok(Err(cause)) => tracing::warn!(%cause, "the trash could not be looked through"),
            Err(fault) => tracing::warn!(%fault, "looking through the trash broke off"),
            Ok(Ok(())) => {}
        }
        tokio::time::sleep(Duration::from_hours(1)).await;
    }
}

/// Creates a log of child processes in the journal.
pub(super) fn open_child_log(journal: Option<&Journal>) -> Arc<dyn ChildLog> {
    match journal {
        Some(journal) => Arc::new(JournalChildLog {
            journal: journal.clone(),
            clock: Clock::system(),
        }),
        None => Arc::new(NoChildLog),
    }
}

struct JournalChildLog {
    journal: Journal,
    clock: Clock,
}

impl ChildLog for JournalChildLog {
    fn record_child_start<'a>(
        &'a self,
        request: &'a RequestId,
        identity: &'a ProcessIdentity,
        command: &'a str,
    ) -> ChildLogFuture<'a> {
        let shown: String = command.chars().take(200).collect();
        Box::pin(async move {
            let now_ms = self.clock.now_ms();
            if let Err(error) = self
                .journal
                .record_child_start(request, identity.to_string(), shown, now_ms)
                .await
            {
                tracing::warn!(request.id = %request, %error, "a process could not be noted; after a crash it would be left running");
            }
        })
    }

    fn record_child_exit(&self, identity: &ProcessIdentity, status: &ExitStatus) {
        self.journal.record_shell_exit(
            identity.to_string(),
            super::shell_records::journal_exit(status),
            self.clock.now_ms(),
        );
    }

    fn record_child_end(&self, identity: &ProcessIdentity) {
        self.journal.record_child_end(identity.to_string());
    }
}

/// Cleanup after a crash: ends processes that an earlier run left, except adopted shells, and determines the outcome
/// of intended effects.
pub(super) struct CrashCleanup {
    /// The identities of the adopted shells.
    adopted: HashSet<String>,
    /// The folders in which files are checked.
    workspace: Workspace,
    /// The dependencies for checking repositories.
    git: GitDeps,
}

impl CrashCleanup {
    /// Creates the cleanup for calls of all sessions.
    pub fn new(adopted: HashSet<String>, reachable: &ReachableFolders, git: GitDeps) -> Self {
        let workspace = reachable.current();
        let git = GitDeps {
            workspace: workspace.clone(),
            ..git
        };
        Self {
            adopted,
            workspace,
            git,
        }
    }
}

impl LeftoverCleanup for CrashCleanup {
    fn inspect_effects<'a>(
        &'a self,
        request: &'a RequestId,
        intents: Vec<CallIntent>,
    ) -> InspectedEffects<'a> {
        let workspace = self.workspace.clone();
        Box::pin(async move {
            if git::has_git_intent(&intents) {
                return git::resolve_git_intents(&self.git, request, &intents).await;
            }
            let looking = tokio::task::spawn_blocking(move || {
                intent_recovery::recover_changes(&workspace, &intents)
            });
            looking.await.unwrap_or_else(|cause| {
                tracing::error!(request.id = %request, %cause, "looking what became of a call failed");
                let text = "It could not be looked at: the looking failed inside the runner.".to_owned();
                IntentOutcome::Unclear { text, meta: Box::default() }
            })
        })
    }

    fn end_leftover(&self, request: &RequestId, identity: &str) -> bool {
        if self.adopted.contains(identity) {
            return false;
        }
        match identity.parse::<ProcessIdentity>() {
            Ok(identity) => {
                let stopped = kill_survivor(&identity, request);
                tracing::info!(request.id = %request, pid = identity.pid(), ?stopped, "a process of an earlier life was looked for");
                stopped.survivors.is_empty()
            }
            Err(error) => {
                tracing::warn!(request.id = %request, %error, "a process of an earlier life cannot be identified");
                true
            }
        }
    }

    fn end_unrecorded(&self, request: &RequestId) {
        end_request_processes(request, &StopSequence::kill_at_once());
    }
}

/// Opens the audit of this home, with its head signed by this device.
pub(super) fn open_audit(
    config: &Config,
    home: &Home,
    identity: DeviceIdentity,
    clock: &ExpiryClock,
) -> anyhow::Result<AuditLog> {
    let keep = AuditRetention {
        age: Duration::from_hours(24 * config.audit.keep_days as u64),
        bytes: (config.audit.max_mb as u64) << 20,
        clock: clock.clone(),
    };
    let sign: TextSigner = Box::new(move |text| identity.sign_base64(text));
    AuditLog::open(
        AuditPaths::within_folder(&home.audit_dir()),
        keep,
        Some(sign),
    )
    .context("no thread for the audit")
}
