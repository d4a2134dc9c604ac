//! Shows each call that waits as a desktop notification, beside a runner. Linux only, by systemd's `busctl`. Where no
//! notification service answers, nothing is shown, and nobody counts as asked. The calls are those of
//! <https://specifications.freedesktop.org/notification-spec/latest/protocol.html>.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::terminal_asker::announce;
use crate::cli::console;
use punie_core::ids::RequestId;
use punie_engine::runner::ShutdownSignal;
use punie_home::{ApprovalQuestions, Home, OpenQuestion, command_to_type};

/// The interval of checks for new questions.
const NEW_QUESTION_INTERVAL: Duration = Duration::from_secs(1);
/// The interval in which the notification service is asked whether it is still there.
const SERVICE_INTERVAL: Duration = Duration::from_mins(1);
/// The interval of attempts to reach one: on a server nobody ever answers.
const ATTEMPT_INTERVAL: Duration = Duration::from_mins(5);
/// The program that calls a method of a service.
const BUS_PROGRAM: &str = "/usr/bin/busctl";
/// The seconds that it waits for an answer.
const BUS_TIMEOUT: &str = "--timeout=10";
const SERVICE: &str = "org.freedesktop.Notifications";
/// The most characters of a call in a notification.
const MAX_CALL_CHARS: usize = 300;

/// Shows the calls that wait until the process stops.
pub(super) fn notify_beside_runner(home: &Home, stop: &ShutdownSignal) {
    let home = home.clone();
    let stop = stop.clone();
    let notifying = move || notify_until_stopped(&home, &stop);
    let thread = thread::Builder::new().name("notifications".to_owned());
    if let Err(error) = thread.spawn(notifying) {
        tracing::warn!(%error, "no desktop notifications are shown");
    }
}

fn notify_until_stopped(home: &Home, stop: &ShutdownSignal) {
    let questions = ApprovalQuestions::in_home(home);
    let mut shown: HashMap<RequestId, String> = HashMap::new();
    let mut presence = None;
    while !stop.is_requested() {
        // The service may begin and end with the desktop's session, so it is asked again now and then.
        if call_service("GetServerInformation", &[]).is_none() {
            presence = None;
            thread::park_timeout(ATTEMPT_INTERVAL);
            continue;
        }
        presence = presence.or_else(|| announce(home));
        let began = Instant::now();
        while presence.is_some() && began.elapsed() < SERVICE_INTERVAL && !stop.is_requested() {
            if !update_notifications(&questions.open_questions(), &mut shown) {
                break;
            }
            thread::park_timeout(NEW_QUESTION_INTERVAL);
        }
        thread::park_timeout(NEW_QUESTION_INTERVAL);
    }
}

/// Shows new questions, and closes the notifications of those that are over. Returns whether the service answers.
fn update_notifications(open: &[OpenQuestion], shown: &mut HashMap<RequestId, String>) -> bool {
    let is_over = |id: &RequestId| open.iter().all(|question| question.id != *id);
    let over: Vec<RequestId> = shown.keys().filter(|id| is_over(id)).cloned().collect();
    for notification in over.iter().filter_map(|id| shown.remove(id)) {
        call_service("CloseNotification", &["u", &notification]);
    }
    for question in open {
        if shown.contains_key(&question.id) {
            continue;
        }
        let Some(notification) = show_notification(question) else {
            tracing::debug!("the notification service no longer answers");
            return false;
        };
        shown.insert(question.id.clone(), notification);
    }
    true
}

/// Calls a method of the notification service, and returns the words of its answer.
fn call_service(method: &str, args: &[&str]) -> Option<String> {
    let path = "/org/freedesktop/Notifications";
    let output = Command::new(BUS_PROGRAM)
        .args([
            "--user",
            BUS_TIMEOUT,
            "--",
            "call",
            SERVICE,
            path,
            SERVICE,
            method,
        ])
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let output = output.ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

/// Shows a notification that stays until it is closed. Returns its number.
fn show_notification(question: &OpenQuestion) -> Option<String> {
    let call = console::cell_text(&question.title, MAX_CALL_CHARS);
    // The body of a notification is markup.
    let call = call
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let (summary, command) = match question.input {
        Some(_) => ("The agent asks you something".to_owned(), "questions"),
        None => (
            format!("{} waits for your approval", question.tool),
            "approvals",
        ),
    };
    let body = format!("{call}\nAnswer in a terminal: {}", command_to_type(command));
    // The name of the program, nothing that is replaced, no icon, the texts, no actions, no hints, and no end.
    let args = ["punie-runner", "0", "", &summary, &body, "0", "0", "0"];
    let answer = call_service("Notify", &[&["susssasa{sv}i"], &args[..]].concat())?;
    Some(answer.strip_prefix("u ")?.trim().to_owned())
}
