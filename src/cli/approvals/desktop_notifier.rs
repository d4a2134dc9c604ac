//! Shows each call that waits as a desktop notification, beside a runner. Linux and D-Bus only. Where no notification
//! service answers, nothing is shown, and nobody counts as asked.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use notify_rust::{Notification, NotificationHandle, Timeout};

use super::terminal_asker::announce;
use crate::cli::console;
use punie_core::ids::RequestId;
use punie_engine::runner::ShutdownSignal;
use punie_home::{ApprovalQuestions, Home, OpenQuestion, command_to_type};

/// The interval of checks for new questions.
const NEW_QUESTION_INTERVAL: Duration = Duration::from_secs(1);
/// The interval in which the notification service is asked whether it is still there.
const SERVICE_INTERVAL: Duration = Duration::from_mins(1);
/// The interval of attempts to reach one. Each is a connection to the session's bus: on a server nobody ever answers.
const ATTEMPT_INTERVAL: Duration = Duration::from_mins(5);
/// The most characters of a call in a notification.
const MAX_CALL_CHARS: usize = 300;

/// Shows the calls that wait until the process stops.
pub(super) fn notify_beside_runner(home: &Home, stop: &ShutdownSignal) {
    let (home, stop) = (home.clone(), stop.clone());
    let notifying = move || notify_until_stopped(&home, &stop);
    let thread = thread::Builder::new().name("notifications".to_owned());
    if let Err(error) = thread.spawn(notifying) {
        tracing::warn!(%error, "no desktop notifications are shown");
    }
}

fn notify_until_stopped(home: &Home, stop: &ShutdownSignal) {
    let questions = ApprovalQuestions::in_home(home);
    let mut shown: HashMap<RequestId, NotificationHandle> = HashMap::new();
    let mut presence = None;
    while !stop.is_requested() {
        // The service may begin and end with the desktop's session, so it is asked again now and then.
        if notify_rust::get_server_information().is_err() {
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
fn update_notifications(
    open: &[OpenQuestion],
    shown: &mut HashMap<RequestId, NotificationHandle>,
) -> bool {
    let is_over = |id: &RequestId| open.iter().all(|question| question.id != *id);
    let over: Vec<RequestId> = shown.keys().filter(|id| is_over(id)).cloned().collect();
    for notification in over.iter().filter_map(|id| shown.remove(id)) {
        notification.close();
    }
    for question in open {
        if shown.contains_key(&question.id) {
            continue;
        }
        match notification_for(question).show() {
            Ok(notification) => drop(shown.insert(question.id.clone(), notification)),
            Err(error) => {
                tracing::debug!(%error, "the notification service no longer answers");
                return false;
            }
        }
    }
    true
}

fn notification_for(question: &OpenQuestion) -> Notification {
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
    let mut notification = Notification::new();
    notification
        .appname("punie-runner")
        .summary(&summary)
        .body(&format!(
            "{call}\nAnswer in a terminal: {}",
            command_to_type(command)
        ))
        .timeout(Timeout::Never);
    notification
}
