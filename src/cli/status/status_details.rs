//! The details of the status, which `-v` adds to the summary (status_text).

use std::collections::BTreeMap;

use super::runner_status::{OtherBackendStatus, OutboxStatus, RunnerStatus};
use super::status_text::Rows;
use crate::cli::policy::describe_default;
use crate::cli::{console, display_time};
use punie_home::{KeyPlace, command_to_type};
use punie_host::local::confinement::CachesInUse;
use punie_text::output::number_format::format_size;

/// The maximum number of background shells to list.
const MAX_SHELLS_SHOWN: usize = 10;

/// Returns the details, one string for each line. With a width, long texts are continued on further lines.
pub(super) fn detail_lines(
    status: &RunnerStatus,
    now_ms: i64,
    width: Option<usize>,
) -> Vec<String> {
    let mut rows = Rows::new(width);
    rows.lines.push(String::new());
    let device = format!(
        "{} (its key is kept in a {})",
        status.device_id, status.device_key
    );
    rows.add("Device", &device);
    add_contacts(&mut rows, status, now_ms);
    add_work(&mut rows, status);
    add_shells(&mut rows, status, now_ms);
    add_asked_conversations(&mut rows, status);
    add_protection(&mut rows, status);
    add_settings(&mut rows, status);
    #[cfg(unix)]
    rows.add(
        "Cleanup",
        &format!(
            "a stop ends {}",
            punie_host::local::process_kill::describe_kill_method()
        ),
    );
    rows.add("Version", status.version);
    rows.lines
}

fn add_contacts(rows: &mut Rows, status: &RunnerStatus, now_ms: i64) {
    let backend = &status.backend;
    rows.add("Wire", backend.kind);
    if let Some(link) = &backend.link {
        rows.add("Connection", link);
    }
    let when = |at: Option<i64>| {
        let never = if status.running {
            "not recorded yet"
        } else {
            "never"
        };
        at.map_or_else(
            || never.to_owned(),
            |at| display_time::format_age(at, now_ms),
        )
    };
    rows.add("Last contact", &when(backend.last_contact_ms));
    rows.add("Last poll", &when(backend.last_poll_ms));
}

/// Adds the answers that are not delivered, and what waits for other backends.
fn add_work(rows: &mut Rows, status: &RunnerStatus) {
    rows.add("Undelivered", &describe_outbox(&status.outbox));
    for other in &status.other_backends {
        rows.add("Elsewhere", &describe_other_backend(other));
    }
    if status.outbox.undeliverable > 0 {
        let refused = format!(
            "{} answers that the backend will never take (`{}`)",
            status.outbox.undeliverable,
            command_to_type("history --failed")
        );
        rows.add("Refused", &refused);
    }
    if let Some(salvage) = &status.salvage {
        let lost = salvage
            .lost
            .map_or_else(|| "an unknown number".to_owned(), |lost| lost.to_string());
        let damage = format!(
            "was damaged and is kept as {}: {} requests were carried over, {lost} could not be read",
            salvage.file, salvage.kept
        );
        rows.add("Journal", &damage);
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

/// Formats the number of pending answers, their size, and the part being sent.
fn describe_outbox(outbox: &OutboxStatus) -> String {
    let bytes = if outbox.pending > 0 {
        format!(" ({})", format_size(outbox.bytes))
    } else {
        String::new()
    };
    let sending = match outbox.sending_bytes {
        0 => String::new(),
        bytes => format!("; sending {}", format_size(bytes)),
    };
    format!("{}{bytes}{sending}", outbox.pending)
}

/// Adds the background shells that run.
fn add_shells(rows: &mut Rows, status: &RunnerStatus, now_ms: i64) {
    for shell in status.shells.iter().take(MAX_SHELLS_SHOWN) {
        let end = if status.running {
            format!(
                "`{}` ends it",
                command_to_type(&format!("stop {}", shell.id))
            )
        } else {
            format!(
                "it may still run; `{}` ends it",
                command_to_type("pause --now")
            )
        };
        let text = format!(
            "{}, started {}: {} ({end})",
            shell.id,
            display_time::format_age(shell.started_at_ms, now_ms),
            console::cell_text(&shell.command, 60)
        );
        rows.add("Shell", &text);
    }
    if let Some(more @ 1..) = status.shells.len().checked_sub(MAX_SHELLS_SHOWN) {
        rows.add("Shell", &format!("{more} more"));
    }
}

/// Adds the conversations that a person wants to be asked about.
fn add_asked_conversations(rows: &mut Rows, status: &RunnerStatus) {
    let asked = &status.asked_conversations;
    let which = match asked.conversations.len() {
        _ if asked.all => "all conversations".to_owned(),
        0 => return,
        count => format!("{count} conversations"),
    };
    let text = format!(
        "calls that write or run, as an editor was attached to {which}; without one they wait for \
         `{}`. `{}` ends that",
        command_to_type("approvals"),
        command_to_type("resume --without-editor")
    );
    rows.add("Asked about", &text);
}

/// Adds the limits on commands, requests and secrets.
fn add_protection(rows: &mut Rows, status: &RunnerStatus) {
    rows.add("Confinement", &status.confinement);
    let network = match status.network.as_str() {
        "full" => "the internet, your network and all ports of this machine",
        "ask" => "between commands; other hosts by rules or your yes, through the runner's proxy",
        "loopback" => "only between commands, no internet",
        _ => "none",
    };
    rows.add("Network", network);
    for opening in &status.openings {
        let value = console::cell_text(&opening.value, 200);
        let text = format!("{} {value}: {}", opening.setting, opening.meaning);
        rows.add("Opening", &text);
    }
    let protected = match status.protected_paths.as_str() {
        "read_only" => "are read-only to commands",
        _ => "can be written by commands; a result says so when they were",
    };
    rows.add(
        "Protected",
        &format!(".git/hooks, .git/config and the like {protected}"),
    );
    add_caches(rows, status);
    rows.add("Limits", &status.limits.describe());
    let signatures = match status.request_auth.as_str() {
        "signed" => "required: only requests signed with backend.request_key are run",
        _ => "not required (set backend.request_key to require them)",
    };
    rows.add("Signatures", signatures);
    if let Some(count @ 1..) = status.secrets {
        let key = match status.secrets_key {
            Some(KeyPlace::Keychain) => "; its key is in the system's keychain",
            _ => "",
        };
        rows.add("Secrets", &format!("{count}, in a sealed file{key}"));
    }
    let policy = &status.policy;
    let ask = status
        .in_force
        .as_ref()
        .map_or(&[][..], |settings| &settings.ask);
    if policy.rules > 0 || policy.default != "allow" || !ask.is_empty() {
        let rules = if policy.rules == 1 { "rule" } else { "rules" };
        let otherwise = describe_default(&policy.default, ask);
        let text = format!(
            "{} {rules}; {otherwise} (`{}`)",
            policy.rules,
            command_to_type("policy")
        );
        rows.add("Policy", &text);
    }
}

/// Adds the caches of commands, and the space that the home takes.
fn add_caches(rows: &mut Rows, status: &RunnerStatus) {
    match &status.caches {
        CachesInUse::Unknown => rows.add("Caches", "chosen when a runner starts"),
        CachesInUse::OfUser if status.confinement == "none" => {
            rows.add("Caches", "yours: commands read and write them");
        }
        CachesInUse::OfUser => {
            rows.add("Caches", "yours: commands read them and cannot write there");
        }
        CachesInUse::OfCommands { shared, empty } => {
            let text = match (shared.join(", "), empty.is_empty()) {
                (none, true) if none.is_empty() => {
                    "of commands alone: you have none to share".to_owned()
                }
                (none, false) if none.is_empty() => "none is shared with commands".to_owned(),
                (paths, _) => {
                    format!("shared with commands, which write to a layer of their own: {paths}")
                }
            };
            rows.add("Caches", &text);
            let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for cache in empty {
                reasons.entry(&cache.why).or_default().push(&cache.path);
            }
            for (why, paths) in reasons {
                let text = format!("empty at first for commands: {} ({why})", paths.join(", "));
                rows.add("Caches", &text);
            }
        }
    }
    if let Some(size) = status.home_size {
        let text = format!(
            "{} on the disk, {} of it caches and other files of commands",
            format_size(size.total),
            format_size(size.commands)
        );
        rows.add("Home", &text);
    }
}

/// Adds the settings in force that are not the defaults, with the place where each is set.
fn add_settings(rows: &mut Rows, status: &RunnerStatus) {
    let Some(in_force) = &status.in_force else {
        return;
    };
    rows.add("Config", &in_force.config.file);
    let places = ["home", "config", "color"];
    let set = in_force
        .settings
        .iter()
        .filter(|setting| setting.origin != "default" && !places.contains(&setting.key.as_str()));
    for setting in set {
        let text = format!(
            "{} = {} ({})",
            setting.key,
            console::cell_text(&setting.value, 200),
            setting.origin
        );
        rows.add("Setting", &text);
    }
}
