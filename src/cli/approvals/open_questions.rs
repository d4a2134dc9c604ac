//! Finds the questions that are open now, and the one that a person means.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use super::short_id;
use crate::cli::exit::{CommandError, Exit};
use crate::cli::request_ids;
use punie_core::ids::RequestId;
use punie_engine::journal::{InterruptedQuestion, JournalReader};
use punie_home::{ApprovalQuestions, Home, OpenQuestion, RunnerLock};

/// The time that a runner has to ask again after its start.
const ASK_AGAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval of checks if it has asked.
const ASK_AGAIN_INTERVAL: Duration = Duration::from_millis(100);

/// Lists the open questions. Without a runner these are the ones of a `call`, and those that the next runner asks again
/// and that nobody has answered here.
pub(in crate::cli) fn list_open_questions(home: &Home) -> anyhow::Result<Vec<OpenQuestion>> {
    let questions = ApprovalQuestions::in_home(home);
    let open = questions.open_questions();
    if open.is_empty() || RunnerLock::find_holder(home)?.is_some() {
        return Ok(open);
    }
    let reader = JournalReader::find(&home.journal_file())?;
    let asked = match &reader {
        Some(reader) => reader.requests_asked_about()?,
        None => Vec::new(),
    };
    let mut listed = Vec::new();
    for question in open {
        let is_asked_again = || question.is_asked_again() && asked.contains(&question.request_id);
        if questions.is_waiting(&question.id)
            && (is_asked_again() || !is_of_runner(reader.as_ref(), &question)?)
        {
            listed.push(question);
        }
    }
    Ok(listed)
}

/// Lists the open questions as [`list_open_questions`]; all that are stored where the journal cannot be read now.
pub(super) fn list_open_or_stored(home: &Home) -> Vec<OpenQuestion> {
    list_open_questions(home).unwrap_or_else(|_| ApprovalQuestions::in_home(home).open_questions())
}

/// Returns whether a runner asked this, and not a `call`, whose request is in no journal.
pub(super) fn is_of_runner(
    reader: Option<&JournalReader>,
    question: &OpenQuestion,
) -> anyhow::Result<bool> {
    let is_known = match reader {
        Some(reader) => reader.request_record(&question.request_id)?.is_some(),
        None => false,
    };
    Ok(is_known || question.session_folder.is_some())
}

/// Lists the requests about which a runner asked when it stopped; none while a runner runs, which asks about them
/// again.
pub(in crate::cli) fn list_interrupted_questions(
    home: &Home,
) -> anyhow::Result<Vec<InterruptedQuestion>> {
    if RunnerLock::find_holder(home)?.is_some() {
        return Ok(Vec::new());
    }
    match JournalReader::find(&home.journal_file())? {
        Some(reader) => Ok(reader.read_interrupted_questions()?),
        None => Ok(Vec::new()),
    }
}

/// Finds the wanted question that `typed` means. A runner that has just started gets the time to ask again.
pub(in crate::cli) fn find_question(
    home: &Home,
    typed: &str,
    is_wanted: impl Fn(&OpenQuestion) -> bool,
) -> anyhow::Result<OpenQuestion> {
    let began = Instant::now();
    loop {
        let mut open = list_open_questions(home)?;
        let is_awaited = is_asked_again_soon(home, &open, typed)?;
        open.retain(&is_wanted);
        // `@last` may mean one that is still to come.
        if !(is_awaited && typed == request_ids::LAST)
            && let Some(found) = find_among_open(&open, typed)?
        {
            return Ok(found.clone());
        }
        let why = if !is_awaited {
            "nothing with this id waits; it may have been answered, or its time was up"
        } else if began.elapsed() >= ASK_AGAIN_TIMEOUT {
            "the runner has started and has not asked this again yet. Try again later"
        } else {
            thread::park_timeout(ASK_AGAIN_INTERVAL);
            continue;
        };
        return Err(CommandError::with_exit(Exit::Failed, why));
    }
}

/// Returns whether the running runner still has to ask about a request that `typed` may mean, as the one before it did.
fn is_asked_again_soon(home: &Home, open: &[OpenQuestion], typed: &str) -> anyhow::Result<bool> {
    if RunnerLock::find_holder(home)?.is_none() {
        return Ok(false);
    }
    let Some(reader) = JournalReader::find(&home.journal_file())? else {
        return Ok(false);
    };
    let mut awaited = reader.requests_asked_about()?;
    awaited.retain(|id| open.iter().all(|question| question.request_id != *id));
    Ok(if typed == request_ids::LAST {
        !awaited.is_empty()
    } else {
        request_ids::find_among(&awaited, typed, RequestId::as_str)?.is_some()
    })
}

/// Finds the question by its request's id or its own, an end or a beginning of one of them, or `@last`. Of several about
/// one request the newest is meant. With several questions open `@last` is refused: the one that a person has read need
/// not be the newest.
fn find_among_open<'q>(
    open: &'q [OpenQuestion],
    typed: &str,
) -> anyhow::Result<Option<&'q OpenQuestion>> {
    if typed == request_ids::LAST {
        if open.len() > 1 {
            let ids: Vec<&str> = open.iter().map(short_id).collect();
            let text = format!("several wait; name one of {}", ids.join(", "));
            return Err(CommandError::with_exit(Exit::Usage, text));
        }
        Ok(open.first())
    } else {
        let of_request = |question: &OpenQuestion| question.request_id.clone();
        let mut newest: Vec<&OpenQuestion> = open.iter().rev().collect();
        let mut seen = HashSet::new();
        newest.retain(|question| seen.insert(of_request(question)));
        match request_ids::find_among(&newest, typed, |question| question.request_id.as_str())? {
            Some(question) => Ok(Some(*question)),
            None => request_ids::find_among(open, typed, |question| question.id.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_means_its_newest_question() {
        let question = |id: &str, request: &str| {
            let request = RequestId::parse(request).expect("an id");
            let title = String::new();
            let arguments = String::new();
            OpenQuestion {
                id: RequestId::parse(id).expect("an id"),
                asked_at_ms: 0,
                expires_at_ms: 0,
                ..OpenQuestion::new(&request, "Bash", title, arguments, Duration::ZERO)
            }
        };
        let open = [
            question("q-one", "request-a"),
            question("q-two", "request-a"),
            question("q-three", "request-b"),
        ];
        let find = |typed: &str| {
            let found = find_among_open(&open, typed).ok()??;
            Some(found.id.as_str())
        };
        for (typed, found) in [
            ("request-a", "q-two"),
            ("quest-a", "q-two"),
            ("request-b", "q-three"),
            ("q-one", "q-one"),
        ] {
            assert_eq!(find(typed), Some(found), "{typed}");
        }
        for unclear in ["request-", "@last", "nothing"] {
            assert_eq!(find(unclear), None, "{unclear}");
        }
    }
}
