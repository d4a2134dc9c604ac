//! The answer of the person at this device: given to the runner, and whether it counts.

use std::thread;
use std::time::{Duration, Instant};

use super::open_questions::is_of_runner;
use super::short_id;
use crate::cli::audit;
use crate::cli::exit::Exit;
use punie_core::approval_answer::ApprovalOption;
use punie_engine::audit::{AuditEntry, AuditEvent};
use punie_engine::journal::{ALLOWED, ANSWERED, DENIED, HistoryEntry, JournalReader};
use punie_home::{
    AnswerResult, ApprovalQuestions, Home, OpenQuestion, PersonReply, RunnerLock, command_to_type,
};

/// The longest wait for the runner, which asks the backend for 5 s whose answer is the first. A busy machine takes longer.
const VERDICT_TIMEOUT: Duration = Duration::from_mins(1);
/// The interval of checks for its verdict.
const VERDICT_INTERVAL: Duration = Duration::from_millis(250);

/// An answer of the person at this device.
#[derive(Clone)]
pub(in crate::cli) struct GivenAnswer(pub PersonReply);

/// The effect of an answer that was the first on this device.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) enum AnswerEffect {
    Counts,
    /// Another answer was earlier, or the call is over, as this describes it.
    TooLate(String),
    /// No runner runs: the answer counts when the next one asks again.
    AtNextStart,
    /// The runner has not said so yet.
    Unknown,
}

impl AnswerEffect {
    /// Returns whether an answer counts: false if another was earlier, `None` if that is not known yet. One without an
    /// effect came too late.
    pub fn counts(effect: Option<&Self>) -> Option<bool> {
        match effect {
            None | Some(Self::TooLate(_)) => Some(false),
            Some(Self::Counts) => Some(true),
            Some(Self::Unknown | Self::AtNextStart) => None,
        }
    }

    /// Returns the exit code of a command that gave an answer.
    pub fn exit(effect: Option<&Self>) -> Exit {
        match Self::counts(effect) {
            Some(false) => Exit::Failed,
            _ => Exit::Done,
        }
    }
}

impl GivenAnswer {
    /// Stores the answer for the runner. If it is the first here, the audit gets its row.
    pub fn store(
        &self,
        home: &Home,
        approvals: &ApprovalQuestions,
        question: &OpenQuestion,
    ) -> anyhow::Result<AnswerResult> {
        let result = approvals.answer_question(question, &self.0)?;
        if result == AnswerResult::Accepted {
            let row = audit::owner_entry(AuditEvent::Approval)
                .with_request(&question.request_id)
                .with_detail(self.0.option.as_str());
            let tool_name = Some(question.tool.clone());
            audit::record_owner_action(home, AuditEntry { tool_name, ..row });
        }
        Ok(result)
    }

    /// Waits until the runner has recorded which answer counts.
    pub fn wait_for_effect(
        &self,
        home: &Home,
        approvals: &ApprovalQuestions,
        question: &OpenQuestion,
    ) -> AnswerEffect {
        if question.session_folder.is_some() {
            // Nobody else is asked.
            return AnswerEffect::Counts;
        }
        let began = Instant::now();
        loop {
            match RunnerLock::find_holder(home) {
                Ok(Some(_)) => {}
                Ok(None) => return effect_without_runner(home, question),
                Err(_) => return AnswerEffect::Unknown,
            }
            if !approvals.is_open(&question.id) {
                let effect = self.read_effect(home, question);
                return effect.unwrap_or(AnswerEffect::Unknown);
            }
            if began.elapsed() >= VERDICT_TIMEOUT {
                return AnswerEffect::Unknown;
            }
            thread::park_timeout(VERDICT_INTERVAL);
        }
    }

    /// Reads the verdict from the journal.
    fn read_effect(&self, home: &Home, question: &OpenQuestion) -> Option<AnswerEffect> {
        let reader = JournalReader::find(&home.journal_file()).ok()??;
        let history = reader.read_full_history(question.request_id.as_str());
        let history = history.ok()??;
        let verdict = history.incidents.iter().rev().find(|incident| {
            let at_ms = incident.last_at_ms.unwrap_or(incident.at_ms);
            [ALLOWED, ANSWERED, DENIED].contains(&&*incident.kind) && at_ms >= question.asked_at_ms
        });
        let Some(verdict) = verdict else {
            let is_over = |entry: &HistoryEntry| entry.cancel_requested || entry.outcome.is_some();
            return history
                .entry
                .filter(is_over)
                .map(|_| AnswerEffect::TooLate("the call was cancelled, or it ended".to_owned()));
        };
        let own = match (self.0.option.is_allowed(), &question.input) {
            (true, None) => ALLOWED,
            (true, Some(_)) => ANSWERED,
            (false, _) => DENIED,
        };
        let detail = verdict.detail.as_deref().unwrap_or_default();
        let counts = verdict.kind == own && detail.starts_with(self.0.place.describe_answerer());
        Some(if counts {
            AnswerEffect::Counts
        } else {
            AnswerEffect::TooLate(format!("{} {detail}", verdict.kind))
        })
    }

    /// Returns the confirmation for the person.
    pub fn confirm(&self, question: &OpenQuestion, effect: &AnswerEffect) -> String {
        let is_question = question.input.is_some();
        let given = match self.0.option {
            ApprovalOption::AllowOnce if is_question => "Answered.",
            ApprovalOption::RejectOnce if is_question => "Refused.",
            ApprovalOption::AllowOnce => "Allowed.",
            ApprovalOption::AllowAlways => "Allowed for this conversation.",
            ApprovalOption::RejectOnce => "Denied.",
            ApprovalOption::RejectAlways => "Denied for this conversation.",
        };
        match effect {
            AnswerEffect::Counts => given.to_owned(),
            AnswerEffect::TooLate(how) => {
                let what = if is_question { "question" } else { "call" };
                format!("Too late, the {what} no longer waits:\n  {how}")
            }
            AnswerEffect::AtNextStart => format!(
                "{given}\nNo runner runs: this counts when the next one asks again, unless the caller's\nside answers before."
            ),
            AnswerEffect::Unknown => {
                let history = command_to_type(&format!("history {}", short_id(question)));
                format!(
                    "The runner has not taken your answer yet. To see whether it counts:\n  {history}"
                )
            }
        }
    }
}

/// Returns the effect of an answer while no runner runs.
fn effect_without_runner(home: &Home, question: &OpenQuestion) -> AnswerEffect {
    let reader = JournalReader::find(&home.journal_file());
    let is_of_runner = reader
        .map_err(Into::into)
        .and_then(|reader| is_of_runner(reader.as_ref(), question));
    match is_of_runner {
        Ok(true) if question.is_asked_again() => AnswerEffect::AtNextStart,
        // A `call` asks only here.
        Ok(false) => AnswerEffect::Counts,
        _ => AnswerEffect::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::approvals::question_view;
    use punie_core::approval_answer::AnswerPlace;

    #[test]
    fn a_confirmation_fits_a_terminal() {
        let question = question_view::tests::question("command: true");
        for option in ApprovalOption::ALL {
            let reply = PersonReply::without_text(option, AnswerPlace::Terminal);
            let answer = GivenAnswer(reply);
            let too_late =
                AnswerEffect::TooLate("denied by the caller's side, after 3 s".to_owned());
            for effect in [
                AnswerEffect::Counts,
                AnswerEffect::AtNextStart,
                AnswerEffect::Unknown,
                too_late,
            ] {
                let text = answer.confirm(&question, &effect);
                assert!(text.lines().all(|line| line.len() < 80), "{text}");
            }
        }
    }
}
