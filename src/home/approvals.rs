//! Stores the approval questions to the person at this machine: one file for each open question, and beside it the files
//! that say that it was shown whole, and what was answered. Not here: the content of a question and the effect of an
//! answer (runner), and the backend's side.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::HomeError;
use super::layout::Home;
use super::presence::ApproverPresence;
use super::private_files::{ensure_private_file, replace_private_file};
use super::question_input::{PersonReply, QuestionInput};
use super::runner_lock::lock_exclusively;
use punie_core::approval_answer::{AnswerPlace, ApprovalOption};
use punie_core::clock::{ExpiryClock, unix_time_ms};
use punie_core::durable::allow_missing;
use punie_core::ids::RequestId;

/// The time for which an answer waits for its question to be asked again.
const ANSWERS_KEPT_FOR: Duration = Duration::from_hours(24);

/// The lock file among the questions.
const LOCK_NAME: &str = "lock";

/// An open approval question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenQuestion {
    /// Its own id.
    pub id: RequestId,
    /// The request whose call waits.
    pub request_id: RequestId,
    /// The tool.
    pub tool: String,
    /// True if the call runs a command.
    pub runs_command: bool,
    /// The call's title.
    pub title: String,
    /// True if the title shows only a part of the call.
    pub is_cut: bool,
    /// All arguments of the call, as people read them.
    pub arguments: String,
    /// The reason why a person is asked, if there is more to say than that the owner wants to be asked.
    pub why: Option<String>,
    /// The folder in which the call works, if it is known.
    #[serde(default)]
    pub folder: Option<String>,
    /// The words of the command, if a rule that allows commands beginning with them would allow this call.
    #[serde(default)]
    pub allowable_command: Option<Vec<String>>,
    /// The host that a running command wants to reach, if the question is about that.
    #[serde(default)]
    pub host: Option<String>,
    /// The pattern of a rule that would allow that host from now on.
    #[serde(default)]
    pub allowable_host: Option<String>,
    /// The folder in which a client's session wants to work, if the question is about that. The answer becomes a rule.
    #[serde(default)]
    pub session_folder: Option<String>,
    /// The answer that is wanted, if it is more than yes or no.
    #[serde(default)]
    pub input: Option<QuestionInput>,
    /// The time when it was asked, in milliseconds since 1970.
    pub asked_at_ms: i64,
    /// The time when the call is refused if there is no answer, in milliseconds since 1970.
    pub expires_at_ms: i64,
}

/// The result of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerResult {
    /// It is the first answer here to an open question.
    Accepted,
    /// The question was answered here before, or is closed.
    TooLate,
    /// It allows a call of which the person has seen only a part. It was not stored.
    SeenInPart,
}

/// The open questions of one home.
#[derive(Debug, Clone)]
pub struct ApprovalQuestions {
    folder: PathBuf,
    home: Home,
}

impl ApprovalQuestions {
    /// Returns the questions of this home.
    pub fn in_home(home: &Home) -> Self {
        Self {
            folder: home.approvals_dir(),
            home: home.clone(),
        }
    }

    fn file(&self, id: &RequestId) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }

    fn answer_file(&self, id: &RequestId) -> PathBuf {
        self.folder.join(format!("{id}.answer"))
    }

    /// Takes the lock under which a question is answered or closed: an answer is stored before that, or comes too late.
    fn lock_answers(&self) -> Result<File, HomeError> {
        lock_exclusively(&self.folder.join(LOCK_NAME))
    }

    fn shown_file(&self, id: &RequestId) -> PathBuf {
        self.folder.join(format!("{id}.shown"))
    }

    /// Returns whether a process asks a person on this machine now.
    pub fn has_approver(&self) -> bool {
        ApproverPresence::is_announced(&self.home)
    }

    /// Returns whether a question still waits: it is neither closed nor answered here.
    pub fn is_waiting(&self, id: &RequestId) -> bool {
        self.file(id).exists() && !self.answer_file(id).exists()
    }

    /// Returns whether the person here was shown all of a question's call.
    pub fn was_shown(&self, id: &RequestId) -> bool {
        self.shown_file(id).exists()
    }

    /// Stores a question.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    ///
    /// # Panics
    /// Never: texts and numbers are always JSON.
    pub fn open_question(&self, question: &OpenQuestion) -> Result<(), HomeError> {
        let path = self.file(&question.id);
        let text = serde_json::to_vec(question).expect("texts and numbers are JSON");
        replace_private_file(&path, &text)
    }

    /// Stores a question until the returned value is dropped.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    pub fn list_question(&self, question: &OpenQuestion) -> Result<ListedQuestion, HomeError> {
        self.open_question(question)?;
        Ok(ListedQuestion {
            questions: self.clone(),
            question: question.clone(),
        })
    }

    /// Returns the answer of the person here, if any.
    pub fn given_reply(&self, id: &RequestId) -> Option<PersonReply> {
        let stored = fs::read_to_string(self.answer_file(id)).ok()?;
        let (choice, text) = match stored.split_once('\n') {
            Some((choice, text)) => (choice, Some(text.to_owned())),
            None => (stored.as_str(), None),
        };
        let (option, place) = choice.split_once(' ').unwrap_or((choice, ""));
        let is_terminal = place == AnswerPlace::Terminal.as_str();
        let place = if is_terminal {
            AnswerPlace::Terminal
        } else {
            AnswerPlace::Command
        };
        Some(PersonReply {
            option: ApprovalOption::from_name(option),
            place,
            text,
        })
    }

    /// Returns whether the runner still works on a question, answered or not.
    pub fn is_open(&self, id: &RequestId) -> bool {
        self.file(id).exists()
    }

    /// Removes an answer and its question.
    pub fn close(&self, id: &RequestId) {
        let _lock = self
            .lock_answers()
            .inspect_err(|error| tracing::warn!(%error, "a question is closed without the lock"));
        for path in [self.answer_file(id), self.file(id), self.shown_file(id)] {
            if let Err(error) = allow_missing(fs::remove_file(&path)) {
                tracing::warn!(path = %path.display(), %error, "a question stays on the list though it is closed");
            }
        }
    }

    /// Removes the questions of an earlier run of the runner. Answers stay for a day by this clock: a question that is asked
    /// again has the same id.
    pub fn close_earlier(&self, clock: &ExpiryClock) {
        let _lock = self
            .lock_answers()
            .inspect_err(|error| tracing::warn!(%error, "questions are closed without the lock"));
        for file in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = file.path();
            let is_answer = path.extension().is_some_and(|ending| ending == "answer");
            let written = file.metadata().and_then(|meta| meta.modified());
            let is_old = || written.is_ok_and(|at| clock.is_file_older(at, ANSWERS_KEPT_FOR));
            if file.file_name() == LOCK_NAME || (is_answer && !is_old()) {
                continue;
            }
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "something stays among the open questions");
            }
        }
    }

    /// Returns the open questions, oldest first.
    pub fn open_questions(&self) -> Vec<OpenQuestion> {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let read = |path: PathBuf| serde_json::from_slice(&fs::read(path).ok()?).ok();
        let mut questions: Vec<OpenQuestion> = files
            .map(|file| file.path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
            .filter_map(read)
            .collect();
        questions.sort_by(|a, b| (a.asked_at_ms, &a.id).cmp(&(b.asked_at_ms, &b.id)));
        questions
    }

    /// Returns the question about this request that waits, if one does.
    pub fn find_about(&self, request: &RequestId) -> Option<OpenQuestion> {
        let mut open = self.open_questions();
        open.retain(|question| question.request_id == *request && self.is_waiting(&question.id));
        open.pop()
    }

    /// Records that the person here was shown all of a question's call.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    pub fn record_shown(&self, id: &RequestId) -> Result<(), HomeError> {
        ensure_private_file(&self.shown_file(id), b"")?;
        // It may have been closed meanwhile.
        if !self.is_open(id) {
            self.close(id);
        }
        Ok(())
    }

    /// Answers a question for the person here.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    pub fn answer_question(
        &self,
        question: &OpenQuestion,
        reply: &PersonReply,
    ) -> Result<AnswerResult, HomeError> {
        let id = &question.id;
        let _lock = self.lock_answers()?;
        if !self.is_open(id) {
            return Ok(AnswerResult::TooLate);
        }
        if reply.option.is_allowed() && question.is_cut && !self.shown_file(id).exists() {
            return Ok(AnswerResult::SeenInPart);
        }
        let mut text = format!("{} {}", reply.option.as_str(), reply.place.as_str());
        if let Some(words) = &reply.text {
            text = format!("{text}\n{words}");
        }
        Ok(
            if ensure_private_file(&self.answer_file(id), text.as_bytes())? {
                AnswerResult::Accepted
            } else {
                AnswerResult::TooLate
            },
        )
    }
}

impl OpenQuestion {
    /// Creates a question that is asked now under a new id, and waits for so long. It is about no command, folder or
    /// host, and wants a yes or no.
    pub fn new(
        request: &RequestId,
        tool: &str,
        title: String,
        arguments: String,
        patience: Duration,
    ) -> Self {
        let asked_at_ms = unix_time_ms();
        let patience_ms = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
        Self {
            id: RequestId::new(),
            request_id: request.clone(),
            tool: tool.to_owned(),
            runs_command: false,
            title,
            is_cut: false,
            arguments,
            why: None,
            folder: None,
            allowable_command: None,
            host: None,
            allowable_host: None,
            session_folder: None,
            input: None,
            asked_at_ms,
            expires_at_ms: asked_at_ms.saturating_add(patience_ms),
        }
    }

    /// Returns whether the next runner asks it again, under the same id. Questions about hosts and folders belong to a
    /// running process.
    pub fn is_asked_again(&self) -> bool {
        self.host.is_none() && self.session_folder.is_none()
    }
}

/// A listed question. Dropping it removes the question and its answer.
#[derive(Debug)]
pub struct ListedQuestion {
    questions: ApprovalQuestions,
    question: OpenQuestion,
}

impl ListedQuestion {
    /// Leaves the question for the next runner, if that asks it again. It can be answered until then.
    pub fn leave_listed(self) {
        if self.question.is_asked_again() {
            std::mem::forget(self);
        }
    }
}

impl Drop for ListedQuestion {
    fn drop(&mut self) {
        self.questions.close(&self.question.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(n: i64) -> OpenQuestion {
        let request = RequestId::parse("r").expect("an id");
        let title = "rm -rf build".to_owned();
        let arguments = "command: rm -rf build".to_owned();
        OpenQuestion {
            id: RequestId::parse(format!("q{n}")).expect("an id"),
            runs_command: true,
            is_cut: n == 2,
            asked_at_ms: 10 - n,
            expires_at_ms: 20,
            ..OpenQuestion::new(&request, "Bash", title, arguments, Duration::ZERO)
        }
    }

    #[test]
    fn an_answer_that_the_runner_took_at_once_is_not_too_late() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = Home::open_home(&folder.path().join("home")).expect("a home");
        let approvals = ApprovalQuestions::in_home(&home);
        let reply = PersonReply::without_text(ApprovalOption::AllowOnce, AnswerPlace::Command);
        for n in 10..60 {
            let question = question(n);
            approvals.open_question(&question).expect("written");
            let answered = std::thread::scope(|scope| {
                scope.spawn(|| {
                    while approvals.given_reply(&question.id).is_none() {}
                    approvals.close(&question.id);
                });
                approvals.answer_question(&question, &reply)
            });
            assert_eq!(answered.expect("written"), AnswerResult::Accepted);
        }
    }

    #[test]
    fn of_two_answers_at_once_one_is_accepted_also_when_the_question_is_closed_meanwhile() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = Home::open_home(&folder.path().join("home")).expect("a home");
        let approvals = ApprovalQuestions::in_home(&home);
        let reply = PersonReply::without_text(ApprovalOption::AllowOnce, AnswerPlace::Command);
        for n in 10..110 {
            let question = question(n);
            approvals.open_question(&question).expect("written");
            let answer = || {
                let result = approvals.answer_question(&question, &reply);
                u32::from(result.expect("written") == AnswerResult::Accepted)
            };
            let accepted = std::thread::scope(|scope| {
                let others = [scope.spawn(answer), scope.spawn(answer)];
                while approvals.given_reply(&question.id).is_none() {}
                approvals.close(&question.id);
                others
                    .map(|other| other.join().expect("answered"))
                    .iter()
                    .sum::<u32>()
            });
            assert_eq!(accepted, 1);
        }
    }

    #[test]
    fn the_first_answer_stands_until_the_question_is_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = Home::open_home(&folder.path().join("home")).expect("a home");
        let approvals = ApprovalQuestions::in_home(&home);
        let folder = home.approvals_dir();
        let [first, second] = [question(1), question(2)];
        for question in [&first, &second] {
            approvals.open_question(question).expect("written");
        }
        std::fs::write(folder.join("torn.json"), "{").expect("written");
        assert_eq!(approvals.open_questions(), [second.clone(), first.clone()]);
        assert_eq!(approvals.given_reply(&first.id), None);
        let answer = |question: &OpenQuestion, option| {
            approvals
                .answer_question(
                    question,
                    &PersonReply::without_text(option, AnswerPlace::Terminal),
                )
                .expect("written")
        };
        assert_eq!(
            answer(&first, ApprovalOption::AllowOnce),
            AnswerResult::Accepted
        );
        assert_eq!(
            answer(&first, ApprovalOption::RejectOnce),
            AnswerResult::TooLate
        );
        assert_eq!(
            approvals.given_reply(&first.id),
            Some(PersonReply::without_text(
                ApprovalOption::AllowOnce,
                AnswerPlace::Terminal
            ))
        );
        approvals.close(&first.id);
        assert_eq!(
            (approvals.open_questions(), approvals.given_reply(&first.id)),
            (vec![second.clone()], None)
        );
        assert_eq!(
            answer(&first, ApprovalOption::AllowOnce),
            AnswerResult::TooLate,
            "it is over"
        );
        // Of the second one only a part was seen.
        assert_eq!(
            answer(&second, ApprovalOption::AllowAlways),
            AnswerResult::SeenInPart
        );
        assert_eq!(approvals.given_reply(&second.id), None);
        approvals.record_shown(&second.id).expect("written");
        assert_eq!(
            answer(&second, ApprovalOption::AllowOnce),
            AnswerResult::Accepted
        );
        approvals.close(&second.id);
        approvals.record_shown(&second.id).expect("written");
        assert!(!approvals.shown_file(&second.id).exists(), "it is over");
        approvals.close_earlier(&ExpiryClock::default());
        let left = std::fs::read_dir(&folder).expect("a folder").flatten();
        let left: Vec<_> = left.map(|file| file.file_name()).collect();
        assert_eq!(left, [LOCK_NAME]);
    }
}
