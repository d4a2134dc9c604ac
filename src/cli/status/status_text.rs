//! The status as text for people. Not here: collecting it.

use super::super::pause::describe_stopped;
use super::super::{console, display_time};
use super::runner_status::{BackendStatus, OtherBackendStatus, OutboxStatus, RunnerStatus};
use crate::home::{KeyPlace, SwitchState};
use crate::output::number_format::format_size;
use crate::runner::Clock;

/// The maximum number of stopped conversations to list.
const MAX_STOPPED_SHOWN: usize = 5;
/// The maximum number of background shells to list.
const MAX_SHELLS_SHOWN: usize = 10;

/// Prints the whole status.
pub(super) fn show_status(status: &RunnerStatus) {
    let now_ms = Clock::system_clock().now_ms();
    let running = match (status.running, status.pid) {
        (true, Some(pid)) => format!("running (pid {pid})"),
        (true, None) => "running".to_owned(),
        (false, _) => "not running".to_owned(),
    };
    console::print_row("Runner", &running);
    for problem in describe_problems(status, now_ms) {
        console::print_row("Attention", &problem);
    }
    show_stopped_conversations(status, now_ms);
    let device = format!(
        "{} (its key is kept in a {})",
        status.device_id, status.device_key
    );
    console::print_row("Device", &device);
    show_backend(&status.backend, now_ms);
    show_work(status);
    show_shells(status, now_ms);
    show_protection(status);
    #[cfg(unix)]
    console::print_row(
        "A stop ends",
        crate::acp::local::process_kill::describe_kill_method(),
    );
    console::print_row("Version", status.version);
}

fn show_backend(backend: &BackendStatus, now_ms: i64) {
    let address = match (&backend.url, backend.trouble.as_deref()) {
        (None, _) => "none is set".to_owned(),
        (Some(url), None) => format!("{url} (answers)"),
        (Some(url), Some(trouble)) => format!("{url} ({})", describe_trouble(trouble)),
    };
    console::print_row("Backend", &format!("{address}, {}", backend.kind));
    if let Some(link) = &backend.link {
        console::print_row("Connection", link);
    }
    let when = |at: Option<i64>| {
        at.map_or_else(
            || "never".to_owned(),
            |at| display_time::format_age(at, now_ms),
        )
    };
    console::print_row("Last contact", &when(backend.last_contact_ms));
    console::print_row("Last poll", &when(backend.last_poll_ms));
}

/// Prints the calls that wait or run, and the answers that are not delivered.
fn show_work(status: &RunnerStatus) {
    let oldest = |age: Option<i64>| {
        age.map_or_else(String::new, |age| {
            format!(", the oldest for {}", display_time::format_coarse(age))
        })
    };
    let waiting = &status.waiting;
    console::print_row(
        "Waiting",
        &format!("{}{}", waiting.count, oldest(waiting.oldest_ms)),
    );
    let running = status.in_flight.saturating_sub(waiting.count);
    console::print_row("Running", &running.to_string());
    let oldest_answer = oldest(status.outbox.oldest_ms);
    console::print_row(
        "Undelivered",
        &describe_outbox(&status.outbox, &oldest_answer),
    );
    for other in &status.other_backends {
        console::print_row("Elsewhere", &describe_other_backend(other));
    }
    if status.outbox.undeliverable > 0 {
        let refused = format!(
            "{} answers that the backend will never take (`punie-runner history --failed`)",
            status.outbox.undeliverable
        );
        console::print_row("Refused", &refused);
    }
    if let Some(salvage) = &status.salvage {
        let lost = salvage
            .lost
            .map_or_else(|| "an unknown number".to_owned(), |lost| lost.to_string());
        let damage = format!(
            "was damaged and is kept as {}: {} requests were carried over, {lost} could not be read",
            salvage.file, salvage.kept
        );
        console::print_row("Journal", &damage);
    }
}

/// Prints the background shells that run.
fn show_shells(status: &RunnerStatus, now_ms: i64) {
    for shell in status.shells.iter().take(MAX_SHELLS_SHOWN) {
        let end = if status.running {
            format!("`punie-runner stop {}` ends it", shell.id)
        } else {
            "it may still run; `punie-runner pause --now` ends it".to_owned()
        };
        let text = format!(
            "{}, started {}: {} ({end})",
            shell.id,
            display_time::format_age(shell.started_at_ms, now_ms),
            console::cell_text(&shell.command, 60)
        );
        console::print_row("Shell", &text);
    }
    if let Some(more @ 1..) = status.shells.len().checked_sub(MAX_SHELLS_SHOWN) {
        console::print_row("Shell", &format!("{more} more"));
    }
}

/// Describes the pending work for another backend.
fn describe_other_backend(other: &OtherBackendStatus) -> String {
    let wait = match other.requests + other.results {
        1 => "waits",
        _ => "wait",
    };
    let backend = match &other.url {
        Some(url) => format!("for {url}"),
        None => "until a runner starts with the backend that they are from configured".to_owned(),
    };
    format!("{} {wait} {backend}", other.describe_counts())
}

/// Prints the limits on commands, requests and secrets.
fn show_protection(status: &RunnerStatus) {
    let confinement = format!(
        "{} (commands reach by network: {})",
        status.confinement, status.network
    );
    console::print_row("Confinement", &confinement);
    for opening in &status.openings {
        let value = console::cell_text(&opening.value, 200);
        let text = format!("{} {value}: {}", opening.setting, opening.meaning);
        console::print_row("Opening", &text);
    }
    let protected = match status.protected_paths {
        "read_only" => "are read-only to commands",
        _ => "can be written by commands; a result says so when they were",
    };
    console::print_row(
        "Protected",
        &format!(".git/hooks, .git/config and the like {protected}"),
    );
    console::print_row("Limits", &status.limits.describe_limits());
    let requests = match status.request_auth {
        "signed" => "run only when signed with the key that is pinned here",
        _ => "run as the backend hands them on (request_auth = transport)",
    };
    console::print_row("Requests", requests);
    if let Some(count @ 1..) = status.secrets {
        let key = match status.secrets_key {
            Some(KeyPlace::Keychain) => "; its key is in the system's keychain",
            _ => "",
        };
        console::print_row("Secrets", &format!("{count}, in a sealed file{key}"));
    }
    let policy = &status.policy;
    if policy.rules > 0 || policy.default != "allow" {
        let rules = format!(
            "{} rules; {} what none names (`punie-runner policy`)",
            policy.rules, policy.default
        );
        console::print_row("Policy", &rules);
    }
}

/// Prints the conversations that a person stopped, or wants to be asked about.
fn show_stopped_conversations(status: &RunnerStatus, now_ms: i64) {
    let asked = &status.asked_conversations;
    let which = match asked.conversations.len() {
        _ if asked.all => "all conversations".to_owned(),
        0 => String::new(),
        count => format!("{count} conversations"),
    };
    if !which.is_empty() {
        let asked = format!(
            "calls that write or run, as an editor was attached to {which}; without one they wait for \
             `punie-runner approvals`. `punie-runner resume --without-editor` ends that"
        );
        console::print_row("Asked about", &asked);
    }
    for stop in status.stopped_conversations.iter().take(MAX_STOPPED_SHOWN) {
        console::print_row("Attention", &describe_stopped(stop, now_ms));
    }
    if let Some(more @ 1..) = status
        .stopped_conversations
        .len()
        .checked_sub(MAX_STOPPED_SHOWN)
    {
        let text =
            format!("{more} more conversations are stopped: `punie-runner resume` lists them.");
        console::print_row("Attention", &text);
    }
}

/// Formats the number of pending answers, their size, and the part being sent.
fn describe_outbox(outbox: &OutboxStatus, oldest: &str) -> String {
    let bytes = if outbox.pending > 0 {
        format!(" ({})", format_size(outbox.bytes))
    } else {
        String::new()
    };
    let sending = match outbox.sending_bytes {
        0 => String::new(),
        bytes => format!("; sending {}", format_size(bytes)),
    };
    format!("{}{bytes}{oldest}{sending}", outbox.pending)
}

/// Describes the current problems in sentences.
fn describe_problems(status: &RunnerStatus, now_ms: i64) -> Vec<String> {
    let since = |on: &Option<SwitchState>| {
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
    };
    let sentence = |word: &&'static str| {
        match *word {
        "disk" => "The disk is nearly full: nothing new is begun until there is room.".to_owned(),
        "intercepted" => {
            "Something else answers at the backend's address: a login page of the network, or a proxy."
                .to_owned()
        }
        "clock_skew" => {
            let skew = status.backend.clock_skew_ms.unwrap_or_default();
            let which = if skew > 0 { "behind" } else { "ahead of" };
            let apart = display_time::format_coarse(skew.saturating_abs());
            format!("This machine's clock is {apart} {which} the backend's; deadlines go by the backend's.")
        }
        "secrets" => "The owner's secrets cannot be read; `punie-runner secrets list` says why.".to_owned(),
        "policy" => {
            let why = status.policy.broken.as_deref().unwrap_or_default();
            format!("{}: until that is mended, nothing that changes anything begins.", console::cell_text(why, 300))
        }
        "paused" => {
            format!("Paused{}: nothing new begins until `punie-runner resume`.", since(&status.paused))
        }
        "safe_mode" => format!(
            "Safe mode{}: the runner crashed several times and begins nothing until it has been quiet for a while, or \
             `punie-runner resume`.",
            since(&status.safe_mode)
        ),
        "audit" => {
            "The audit cannot be written; calls go on, and its rows wait (the log says why).".to_owned()
        }
        "other_process" => {
            "Another process with this device's identity is running (a copied home?): both answer the same requests. \
             Stop one; `punie-runner pair --new-device` makes the copy a device of its own."
                .to_owned()
        }
        "protected_paths" => {
            let changes = &status.protected_path_changes;
            let first = changes.first().map(|change| console::cell_text(&change.text, 600)).unwrap_or_default();
            let more = match changes.len() {
                0 | 1 => String::new(),
                count => format!(" And {} more.", count - 1),
            };
            format!("{first}{more} `punie-runner ack` lists and acknowledges this.")
        }
        other => other.to_owned(),
    }
    };
    status.degraded.iter().map(sentence).collect()
}

fn describe_trouble(trouble: &str) -> &str {
    match trouble {
        "unreachable" => "does not answer",
        "intercepted" => {
            "intercepted: something else answers in its place, perhaps this network's login page"
        }
        "no_backend" => "no event backend answers there (404): check the address",
        "refused" => "refuses this device",
        "busy" => "asks for patience",
        "failing" => "fails",
        other => other,
    }
}
