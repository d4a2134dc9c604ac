//! The status as text for people. Not here: collecting it.

use super::super::pause::describe_stopped;
use super::super::{console, display_time};
use super::{OutboxStatus, RunnerStatus};
use crate::home::{KeyPlace, SwitchState};
use crate::output::number_format::format_size;
use crate::runner::Clock;

/// The maximum number of stopped conversations to list.
const MAX_STOPPED_SHOWN: usize = 5;
/// Prints the pending work for other backends.
fn show_other_backends(status: &RunnerStatus) {
    for other in &status.other_backends {
        let wait = if other.requests + other.results == 1 {
            "waits"
        } else {
            "wait"
        };
        let backend = match &other.url {
            Some(url) => format!("for {url}"),
            None => {
                "until a runner starts with the backend that they are from configured".to_owned()
            }
        };
        console::print_line(&format!(
            "Elsewhere     {} {wait} {backend}",
            other.describe_counts()
        ));
    }
}

pub(super) fn show_status(status: &RunnerStatus) {
    let running = match (status.running, status.pid) {
        (true, Some(pid)) => format!("running (pid {pid})"),
        (true, None) => "running".to_owned(),
        (false, _) => "not running".to_owned(),
    };
    let backend = match (&status.backend.url, status.backend.trouble.as_deref()) {
        (None, _) => "none is set".to_owned(),
        (Some(url), None) => format!("{url} (answers)"),
        (Some(url), Some(trouble)) => format!("{url} ({})", describe_trouble(trouble)),
    };
    let now_ms = Clock::system_clock().now_ms();
    let when = |at: Option<i64>| {
        at.map_or_else(
            || "never".to_owned(),
            |at| display_time::format_age(at, now_ms),
        )
    };
    let oldest = |age: Option<i64>| {
        age.map_or_else(String::new, |age| {
            format!(", the oldest for {}", display_time::format_coarse(age))
        })
    };
    console::print_line(&format!("Runner        {running}"));
    for hindrance in describe_problems(status, now_ms) {
        console::print_line(&format!("Attention     {hindrance}"));
    }
    show_stopped_conversations(status, now_ms);
    console::print_line(&format!(
        "Device        {} (its key is kept in a {})",
        status.device_id, status.device_key
    ));
    console::print_line(&format!("Backend       {backend}, {}", status.backend.kind));
    if let Some(link) = &status.backend.link {
        console::print_line(&format!("Connection    {link}"));
    }
    console::print_line(&format!(
        "Last contact  {}",
        when(status.backend.last_contact_ms)
    ));
    console::print_line(&format!(
        "Last poll     {}",
        when(status.backend.last_poll_ms)
    ));
    console::print_line(&format!(
        "Waiting       {}{}",
        status.waiting.count,
        oldest(status.waiting.oldest_ms)
    ));
    console::print_line(&format!(
        "Running       {}",
        status.in_flight - status.waiting.count.min(status.in_flight)
    ));
    let oldest_answer = oldest(status.outbox.oldest_ms);
    console::print_line(&format!(
        "Undelivered   {}",
        describe_outbox(&status.outbox, &oldest_answer)
    ));
    show_other_backends(status);
    if status.outbox.undeliverable > 0 {
        console::print_line(&format!(
            "Refused       {} answers that the backend will never take (`punie-runner history --failed`)",
            status.outbox.undeliverable
        ));
    }
    if let Some(salvage) = &status.salvage {
        let lost = salvage
            .lost
            .map_or_else(|| "an unknown number".to_owned(), |lost| lost.to_string());
        console::print_line(&format!(
            "Journal       was damaged and is kept as {}: {} requests were carried over, {lost} could not be read",
            salvage.file, salvage.kept
        ));
    }
    console::print_line(&format!(
        "Confinement   {} (commands reach by network: {})",
        status.confinement, status.network
    ));
    console::print_line(&format!(
        "Protected     .git/hooks, .git/config and the like {}",
        if status.protected_paths == "read_only" {
            "are read-only to commands"
        } else {
            "can be written by commands; a result says so when they were"
        }
    ));
    console::print_line(&format!(
        "Limits        {}",
        status.limits.describe_limits()
    ));
    console::print_line(&format!(
        "Requests      {}",
        match status.request_auth {
            "signed" => "run only when signed with the key that is pinned here",
            _ => "run as the backend hands them on (request_auth = transport)",
        }
    ));
    if let Some(count @ 1..) = status.secrets {
        let in_keychain = status.secrets_key == Some(KeyPlace::Keychain);
        let key = if in_keychain {
            "; its key is in the system's keychain"
        } else {
            ""
        };
        console::print_line(&format!("Secrets       {count}, in a sealed file{key}"));
    }
    if status.policy.rules > 0 || status.policy.default != "allow" {
        console::print_line(&format!(
            "Policy        {} rules; {} what none names (`punie-runner policy`)",
            status.policy.rules, status.policy.default
        ));
    }
    #[cfg(unix)]
    console::print_line(&format!(
        "A stop ends   {}",
        crate::acp::local::process_kill::describe_kill_method()
    ));
    console::print_line(&format!("Version       {}", status.version));
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
        console::print_line(&format!(
            "Asked about   calls that write or run, as an editor was attached to {which}; without one they wait for \
             `punie-runner approvals`. `punie-runner resume --without-editor` ends that"
        ));
    }
    for stop in status.stopped_conversations.iter().take(MAX_STOPPED_SHOWN) {
        console::print_line(&format!("Attention     {}", describe_stopped(stop, now_ms)));
    }
    if let Some(more @ 1..) = status
        .stopped_conversations
        .len()
        .checked_sub(MAX_STOPPED_SHOWN)
    {
        console::print_line(&format!(
            "Attention     {more} more conversations are stopped: `punie-runner resume` lists them."
        ));
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
