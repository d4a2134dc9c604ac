//! What needs the owner's attention, each with the command to type.

use serde::Serialize;

use super::runner_status::{BackendStatus, RunnerStatus, WaitingApproval};
use crate::cli::pause::describe_stopped;
use crate::cli::wiring::{SettingsInForce, config_file_hash};
use crate::cli::{console, display_time};
use crate::config::ChangedSetting;
use punie_engine::journal::{HealthProblem, InterruptedQuestion};
use punie_home::{OwnerNotice, SwitchState, command_to_type};

/// The maximum number of stopped conversations to list.
const MAX_STOPPED_SHOWN: usize = 5;

/// One matter that needs attention.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct AttentionItem {
    /// Its keyword: one of `degraded`, or `approval`, `config`, `backend`, `commands`, `stopped`, `bridges`, `repositories`,
    /// `workspaces`.
    pub about: &'static str,
    pub text: String,
    /// The command that shows or ends it.
    pub command: Option<String>,
}

impl AttentionItem {
    fn new(about: &'static str, text: impl Into<String>) -> Self {
        Self {
            about,
            text: text.into(),
            command: None,
        }
    }

    /// Adds the command with these arguments.
    fn with_command(self, arguments: &str) -> Self {
        Self {
            command: Some(command_to_type(arguments)),
            ..self
        }
    }
}

/// Lists all that needs attention.
pub(super) fn list_attention(status: &RunnerStatus, now_ms: i64) -> Vec<AttentionItem> {
    let mut items: Vec<AttentionItem> = status
        .degraded
        .iter()
        .map(|problem| describe_problem(*problem, status, now_ms))
        .collect();
    items.extend(describe_approvals(&status.approvals, now_ms));
    items.extend(describe_questions(status, now_ms));
    items.extend(describe_interrupted(&status.interrupted_questions));
    if let Some(in_force) = &status.in_force {
        items.extend(describe_config(in_force));
    }
    items.extend(describe_missing_workspaces(status));
    items.extend(describe_backend(&status.backend));
    if !status.can_execute.exec && status.policy.broken.is_none() {
        let text = format!(
            "Commands are refused: the confinement is {} here, and more is required (require under [sandbox] in \
             config.toml, or `{}` asks)",
            status.confinement,
            command_to_type("init")
        );
        items.push(AttentionItem::new("commands", text));
    }
    items.extend(describe_stops(status, now_ms));
    items.extend(describe_bridges(&status.bridge_problems));
    items.extend(status.hidden_repositories.iter().map(|linked| {
        let text = console::cell_text(&linked.describe_place(), 300);
        AttentionItem::new("repositories", text).with_command(&linked.allow_arguments())
    }));
    items
}

fn describe_missing_workspaces(status: &RunnerStatus) -> impl Iterator<Item = AttentionItem> {
    status.workspaces.missing.iter().map(|(path, why)| {
        let path = console::cell_text(path, 200);
        let text = format!("The workspace {path} {why}; it is used again as soon as it is back");
        AttentionItem::new("workspaces", text)
    })
}

/// Describes the bridges that do not run as the owner wants.
fn describe_bridges(problems: &[String]) -> Option<AttentionItem> {
    let first = console::cell_text(problems.first()?, 300);
    let more = match problems.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let item = AttentionItem::new("bridges", format!("{first}{more}"));
    #[cfg(feature = "bridges")]
    let item = item.with_command("bridges list");
    Some(item)
}

fn describe_approvals(approvals: &[WaitingApproval], now_ms: i64) -> Option<AttentionItem> {
    let next = approvals.iter().min_by_key(|call| call.expires_at_ms)?;
    let left = display_time::format_time_left(next.expires_at_ms, now_ms);
    let title = console::cell_text(&next.summary, 60);
    let text = match approvals.len() {
        1 => format!("1 call waits for your approval, {left} left ({title})"),
        count => {
            format!("{count} calls wait for your approval, the next one: {left} left ({title})")
        }
    };
    Some(AttentionItem::new("approval", text).with_command("approvals"))
}

/// Describes the agent's questions.
fn describe_questions(status: &RunnerStatus, now_ms: i64) -> Option<AttentionItem> {
    let questions = &status.questions;
    let next = questions.iter().min_by_key(|asked| asked.expires_at_ms)?;
    let time = if status.running {
        let left = display_time::format_time_left(next.expires_at_ms, now_ms);
        format!("{left} left")
    } else {
        "asked again when the runner starts".to_owned()
    };
    let title = console::cell_text(&next.title, 60);
    let text = match questions.len() {
        1 => format!("the agent asks you: {title} ({time})"),
        count => format!("the agent asks you {count} questions, the next one: {title} ({time})"),
    };
    Some(AttentionItem::new("question", text).with_command("questions"))
}

/// Describes the calls about which a runner asked when it stopped.
fn describe_interrupted(interrupted: &[InterruptedQuestion]) -> Option<AttentionItem> {
    let first = interrupted.first()?;
    let title = console::cell_text(&format!("{} {}", first.tool, first.title), 60);
    let text = match interrupted.len() {
        1 => format!("1 call needs your approval ({title}); the runner asks again when it starts"),
        count => {
            format!("{count} calls need your approval; the runner asks again when it starts")
        }
    };
    Some(AttentionItem::new("approval", text).with_command("approvals"))
}

/// Describes what of the configuration file is not in force.
pub(in crate::cli) fn describe_config(in_force: &SettingsInForce) -> Option<AttentionItem> {
    let file = &in_force.config;
    let text = if config_file_hash(file.file.as_ref()) != file.hash {
        "config.toml changed just now; the runner reads it in a moment".to_owned()
    } else if let Some(error) = &file.error {
        let error = console::cell_text(error, 300);
        let end = if error.ends_with(['.', '?']) { "" } else { "." };
        format!(
            "config.toml changed, not in force: {error}{end} The settings read before stay in force"
        )
    } else if file.waiting.is_empty() {
        return None;
    } else {
        let changes: Vec<String> = file.waiting.iter().map(describe_waiting).collect();
        format!(
            "config.toml changed, not in force: {}; restart the runner",
            changes.join(", ")
        )
    };
    Some(AttentionItem::new("config", text))
}

/// Describes a setting that needs a restart: `backend.url https://a -> https://b`.
fn describe_waiting(setting: &ChangedSetting) -> String {
    let plain = |value: &str| {
        let value = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .unwrap_or(value);
        console::cell_text(value, 100)
    };
    format!(
        "{} {} -> {}",
        setting.key,
        plain(&setting.in_force),
        plain(&setting.in_file)
    )
}

pub(in crate::cli) fn describe_backend(backend: &BackendStatus) -> Option<AttentionItem> {
    let url = backend.url.as_deref()?;
    let trouble = backend.trouble.as_deref()?;
    let item = |text: String| AttentionItem::new("backend", text);
    match trouble {
        // It is among the problems already.
        "intercepted" => None,
        "refused" if backend.paired == Some(false) => Some(
            item(format!(
                "This device is not paired with {url}. Get a code there, then run"
            ))
            .with_command("pair CODE"),
        ),
        "refused" => Some(
            item(format!(
                "The backend {url} refuses this device. If it was revoked there, get a code and run `{}`. If it was \
                 never paired there, get a code, then run",
                command_to_type("pair --new-device CODE")
            ))
            .with_command("pair CODE"),
        ),
        other => Some(item(format!("The backend {url} {}", describe_trouble(other)))),
    }
}

/// Describes a keyword of the backend's trouble.
pub(in crate::cli) fn describe_trouble(trouble: &str) -> &str {
    match trouble {
        "unreachable" => "does not answer",
        "intercepted" => {
            "intercepted: something else answers in its place, perhaps this network's login page"
        }
        "no_backend" => "has no event backend (it answers 404): check the address",
        "refused" => "refuses this device",
        "busy" => "asks the runner to wait",
        "failing" => "fails: it answers with errors of its own",
        other => other,
    }
}

fn describe_stops(status: &RunnerStatus, now_ms: i64) -> Vec<AttentionItem> {
    let stops = &status.stopped_conversations;
    let mut items: Vec<AttentionItem> = stops
        .iter()
        .take(MAX_STOPPED_SHOWN)
        .map(|stop| AttentionItem::new("stopped", describe_stopped(stop, now_ms)))
        .collect();
    if let Some(more @ 1..) = stops.len().checked_sub(MAX_STOPPED_SHOWN) {
        let text = format!("{more} more conversations are stopped");
        items.push(AttentionItem::new("stopped", text).with_command("resume"));
    }
    items
}

/// Describes a problem.
fn describe_problem(problem: HealthProblem, status: &RunnerStatus, now_ms: i64) -> AttentionItem {
    let item = |text: &str| AttentionItem::new(problem.word(), text);
    match problem {
        HealthProblem::Disk => item(
            "The disk is nearly full: no new call starts until there is room (least_free_mb under [limits])",
        ),
        HealthProblem::Intercepted => item(
            "Something else answers at the backend's address: a login page of the network, or a proxy",
        ),
        HealthProblem::ClockSkew => {
            describe_clock_skew(status.backend.clock_skew_ms.unwrap_or_default())
        }
        HealthProblem::Secrets => item("Your secrets cannot be read").with_command("secrets list"),
        HealthProblem::People => describe_people(),
        HealthProblem::Policy => {
            let why = status.policy.broken.as_deref().unwrap_or_default();
            let why = console::cell_text(why, 300);
            item(&format!(
                "{why}. Until you correct that, only calls that read are run"
            ))
        }
        HealthProblem::Paused => describe_pause(status.paused.as_ref(), now_ms),
        HealthProblem::SafeMode => describe_safe_mode(status.safe_mode.as_ref(), now_ms),
        HealthProblem::Audit => describe_audit(),
        HealthProblem::OtherProcess => describe_other_process(),
        HealthProblem::Canary => item(&describe_canary(&status.canary)).with_command("doctor"),
        HealthProblem::ProtectedPaths => {
            item(&describe_notices(&status.protected_path_changes)).with_command("ack")
        }
        HealthProblem::Journal => {
            item(&describe_notices(&status.journal_losses)).with_command("ack")
        }
    }
}

/// Describes a list of people that cannot be read.
#[cfg(feature = "people")]
fn describe_people() -> AttentionItem {
    let text = "The list of people whose names are replaced cannot be read, so no call is run";
    AttentionItem::new(HealthProblem::People.word(), text).with_command("people list")
}

/// Describes a list of people that this build cannot read.
#[cfg(not(feature = "people"))]
fn describe_people() -> AttentionItem {
    let text = format!(
        "This home may replace names of people, so no call is run: {}",
        crate::config::optional_parts::left_out_text("people")
    );
    AttentionItem::new(HealthProblem::People.word(), text)
}

/// Describes an audit log that cannot be written.
pub(in crate::cli) fn describe_audit() -> AttentionItem {
    let text = "The audit log cannot be written. Calls go on, and its rows wait in memory";
    AttentionItem::new(HealthProblem::Audit.word(), text).with_command("logs")
}

/// Describes a second process with this device's identity.
pub(in crate::cli) fn describe_other_process() -> AttentionItem {
    let text = "Another process with this device's identity is running (a copied home?): both answer the same requests. \
                Stop one, or make the copy a device of its own";
    AttentionItem::new(HealthProblem::OtherProcess.word(), text)
        .with_command("pair --new-device CODE")
}

/// Describes the first notice that the owner has not acknowledged, and counts the others.
fn describe_notices(notices: &[OwnerNotice]) -> String {
    let first = notices
        .first()
        .map(|notice| console::cell_text(&notice.text, 600));
    let more = match notices.len() {
        0 | 1 => String::new(),
        count => format!(" And {} more.", count - 1),
    };
    format!(
        "{}{more} To list and acknowledge it",
        first.unwrap_or_default()
    )
}

/// Describes the runner's own attempts that failed.
pub(in crate::cli) fn describe_canary(failures: &str) -> String {
    format!(
        "The runner tries now and then to read, to write and to run a command; the last time this failed: {}",
        console::cell_text(failures, 600)
    )
}

/// Describes the backend's clock minus this machine's, in milliseconds.
pub(in crate::cli) fn describe_clock_skew(skew_ms: i64) -> AttentionItem {
    let which = if skew_ms > 0 { "behind" } else { "ahead of" };
    let apart = display_time::format_coarse(skew_ms.saturating_abs());
    let text = format!(
        "This machine's clock is {apart} {which} the backend's; deadlines go by the backend's"
    );
    AttentionItem::new(HealthProblem::ClockSkew.word(), text)
}

/// Describes the owner's pause.
pub(in crate::cli) fn describe_pause(paused: Option<&SwitchState>, now_ms: i64) -> AttentionItem {
    let text = format!(
        "Paused{}: no new call starts",
        describe_switch(paused, now_ms)
    );
    AttentionItem::new(HealthProblem::Paused.word(), text).with_command("resume")
}

pub(in crate::cli) fn describe_safe_mode(
    safe_mode: Option<&SwitchState>,
    now_ms: i64,
) -> AttentionItem {
    let text = format!(
        "Safe mode{}: the runner crashed several times, and starts no call until it has run for a while without a \
         crash. To end it now",
        describe_switch(safe_mode, now_ms)
    );
    AttentionItem::new(HealthProblem::SafeMode.word(), text).with_command("resume")
}

/// Formats the time and the reason of a switch: ` for 3 min (lunch)`.
fn describe_switch(on: Option<&SwitchState>, now_ms: i64) -> String {
    let Some(on) = on else { return String::new() };
    let reason = on
        .reason
        .as_ref()
        .map(|reason| format!(" ({})", console::cell_text(reason, 100)));
    let since = if on.since_ms > 0 {
        format!(" for {}", display_time::format_coarse(now_ms - on.since_ms))
    } else {
        String::new()
    };
    format!("{since}{}", reason.unwrap_or_default())
}
