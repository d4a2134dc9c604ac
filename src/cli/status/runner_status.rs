//! The status of a runner, as `--json` shows it.

use std::path::PathBuf;

use serde::Serialize;

use super::attention::AttentionItem;
use super::protection::CommandLimits;
use super::workspace_status::WorkspaceStatus;
use crate::cli::approvals::call_summary;
use crate::cli::wiring::{PolicyInForce, SandboxOpening, SettingsInForce};
use punie_engine::journal::{
    DamageReport, HealthProblem, InterruptedQuestion, ShellRow, WaitingBackend,
};
use punie_home::{
    AskedConversations, KeyPlace, OpenQuestion, OwnerNotice, StoppedConversation, SwitchState,
};
use punie_host::LinkedRepository;
use punie_host::local::confinement::CachesInUse;

/// The whole status.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunnerStatus {
    pub verdict: Verdict,
    pub running: bool,
    pub pid: Option<u32>,
    pub device_id: String,
    /// The storage of the device's private key: always `file`.
    pub device_key: &'static str,
    /// The number of the owner's secrets; null if their file cannot be read.
    pub secrets: Option<usize>,
    /// The storage of the secrets' key: `file` or `keychain`; null if its file cannot be read.
    pub secrets_key: Option<KeyPlace>,
    pub backend: BackendStatus,
    pub confinement: String,
    /// `signed` if only requests signed with the configured key are run, else `transport`.
    pub request_auth: String,
    /// The network access of commands: `none`, `loopback`, `ask` or `full`.
    pub network: String,
    /// `read_only` or `watched`: the protection of workspace files that run programs later, such as `.git/hooks`.
    pub protected_paths: String,
    /// The resources that are limited for commands.
    pub limits: CommandLimits,
    /// The settings that give commands more than the defaults, and the gaps of a partial level.
    pub openings: Vec<SandboxOpening>,
    /// The requests that wait or run.
    pub in_flight: u32,
    /// The requests that a runner had begun that ended before they were answered. The next start answers them.
    pub cut_off: u32,
    /// The background shells that run.
    pub shells: Vec<RunningShell>,
    pub outbox: OutboxStatus,
    /// The pending work for other backends than the current one, or than the configured one if no runner runs.
    pub other_backends: Vec<OtherBackendStatus>,
    pub can_execute: CanExecute,
    /// The last damage to the journal, and its repair.
    pub salvage: Option<DamageReport>,
    pub version: &'static str,
    /// The number of the current or the last process of the runner.
    pub epoch: Option<u64>,
    pub waiting: WaitingCalls,
    /// The calls that wait for a person.
    pub approvals: Vec<WaitingApproval>,
    /// The agent's questions to a person.
    pub questions: Vec<WaitingApproval>,
    /// The calls about which a runner asked when it stopped.
    #[serde(skip)]
    pub interrupted_questions: Vec<InterruptedQuestion>,
    /// What is wrong with bridges that the owner wants to run.
    #[serde(skip)]
    pub bridge_problems: Vec<String>,
    /// The repositories of workspaces that are hidden from git until the owner decides.
    #[serde(skip)]
    pub hidden_repositories: Vec<LinkedRepository>,
    /// The runner's own attempts that failed, if `canary` is one of the problems.
    #[serde(skip)]
    pub canary: String,
    pub paused: Option<SwitchState>,
    pub safe_mode: Option<SwitchState>,
    /// The conversations that a person stopped in an editor.
    pub stopped_conversations: Vec<StoppedConversation>,
    /// The conversations that are asked about even without an editor, because one was attached to them.
    pub asked_conversations: AskedConversations,
    pub policy: PolicyInForce,
    /// The changes of protected paths that the owner has not acknowledged.
    pub protected_path_changes: Vec<OwnerNotice>,
    /// The losses of the journal that the owner has not acknowledged.
    pub journal_losses: Vec<OwnerNotice>,
    /// The current problems.
    pub degraded: Vec<HealthProblem>,
    /// All that needs the owner's attention.
    pub attention: Vec<AttentionItem>,
    #[serde(flatten)]
    pub workspaces: WorkspaceStatus,
    /// The settings that the running runner published; null if none runs.
    pub in_force: Option<SettingsInForce>,
    #[serde(skip)]
    pub user_home: Option<PathBuf>,
    /// The bytes that the home takes on the disk; only with `-v`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home_size: Option<HomeSize>,
    /// The caches that commands use; of a running runner they are in `inForce`.
    #[serde(skip)]
    pub caches: CachesInUse,
}

/// The bytes that the home takes on the disk.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct HomeSize {
    pub total: u64,
    /// The part of commands: their caches and the like.
    pub commands: u64,
}

/// The state of the runner in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Healthy,
    Attention,
    NotRunning,
}

/// A call that waits for a person.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitingApproval {
    pub id: String,
    pub request_id: String,
    pub tool: String,
    pub title: String,
    /// The tool and the call, as `approvals` shows them.
    #[serde(skip)]
    pub summary: String,
    /// The time when the call is refused if there is no answer, in milliseconds since 1970.
    pub expires_at_ms: i64,
}

impl From<OpenQuestion> for WaitingApproval {
    fn from(question: OpenQuestion) -> Self {
        Self {
            // The title of a question about a host says the tool behind the host.
            summary: match question.host {
                Some(_) => call_summary(&question),
                None => format!("{} {}", question.tool, call_summary(&question)),
            },
            id: question.id.to_string(),
            request_id: question.request_id.to_string(),
            tool: question.tool,
            title: question.title,
            expires_at_ms: question.expires_at_ms,
        }
    }
}

/// A background shell that runs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunningShell {
    /// Its id, such as `sh_1`.
    pub id: String,
    pub pid: Option<u32>,
    pub command: String,
    pub started_at_ms: i64,
}

impl From<ShellRow> for RunningShell {
    fn from(row: ShellRow) -> Self {
        Self {
            id: format!("sh_{}", row.number),
            pid: row.pid,
            command: row.command,
            started_at_ms: row.started_at_ms,
        }
    }
}

/// A backend with work that is pending until the runner works for it again.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OtherBackendStatus {
    /// Its address; null for requests from before the backend was recorded, if no start has named one since.
    pub url: Option<String>,
    /// The id of the deployment, if it has one.
    pub backend_id: Option<String>,
    pub requests: u32,
    pub results: u32,
    pub oldest_ms: Option<i64>,
}

/// The requests that are accepted and not started.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitingCalls {
    pub count: u32,
    pub oldest_ms: Option<i64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct BackendStatus {
    /// `convex` or `websocket`.
    pub kind: &'static str,
    pub url: Option<String>,
    /// It is the embedded backend that serves in this home.
    pub embedded: bool,
    /// It accepted this device once; null for a websocket backend, or if none is known.
    pub paired: Option<bool>,
    /// `up` or `down` for a lasting connection; null if there is none or no runner runs.
    pub link: Option<String>,
    pub reachable: bool,
    /// The reason why the backend cannot be used: `unreachable`, `intercepted`, `no_backend` (404), `refused`, `busy`,
    /// `failing`; null if it can.
    pub trouble: Option<String>,
    pub last_contact_ms: Option<i64>,
    pub last_poll_ms: Option<i64>,
    pub clock_skew_ms: Option<i64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutboxStatus {
    pub pending: u32,
    /// The size of the pending answers.
    pub bytes: u64,
    /// The number of their bytes being sent, if that takes longer than a moment.
    pub sending_bytes: u64,
    pub oldest_ms: Option<i64>,
    /// Answers of the last 30 days that the backend will never accept.
    pub undeliverable: u32,
}

#[derive(Debug, Serialize)]
pub(super) struct CanExecute {
    pub read: bool,
    pub write: bool,
    pub exec: bool,
}

impl OtherBackendStatus {
    pub fn from_waiting(waiting: WaitingBackend, since: impl Fn(i64) -> i64) -> Self {
        Self {
            url: waiting.address,
            backend_id: waiting.id,
            requests: waiting.requests,
            results: waiting.results,
            oldest_ms: waiting.oldest_ms.map(since),
        }
    }

    /// Formats the counts: `2 requests and 3 results`.
    pub fn describe_counts(&self) -> String {
        let count = |n: u32, word: &str| match n {
            0 => None,
            1 => Some(format!("1 {word}")),
            n => Some(format!("{n} {word}s")),
        };
        let counts = [
            count(self.requests, "request"),
            count(self.results, "result"),
        ];
        let counts: Vec<String> = counts.into_iter().flatten().collect();
        counts.join(" and ")
    }
}
