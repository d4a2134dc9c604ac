//! Stores the approval questions to the person at this machine: one file for each open question, and beside it the file
//! of its answer. Not here: the content of a question and the effect of an answer (runner), and the backend's side.
#![expect(clippy::disallowed_methods, reason = "this file owns the open questions of the home")]

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::HomeError;
use super::layout::Home;
use crate::approval_answer::ApprovalOption;
use crate::durable::{self, Readers};
use crate::ids::RequestId;

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
    /// The call's title.
    pub title: String,
    /// The time when it was asked, in milliseconds since 1970.
    pub asked_at_ms: i64,
    /// The time when the call is refused if there is no answer, in milliseconds since 1970.
    pub expires_at_ms: i64,
}

/// The open questions of one home.
#[derive(Debug, Clone)]
pub struct Approvals {
    folder: PathBuf,
}

impl Approvals {
    /// Returns the questions of this home.
    pub fn of(home: &Home) -> Self {
        Self { folder: home.approvals_dir() }
    }

    fn question(&self, id: &RequestId) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }

    fn answer(&self, id: &RequestId) -> PathBuf {
        self.folder.join(format!("{id}.answer"))
    }

    /// Stores a question.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    ///
    /// # Panics
    /// Never: texts and numbers are always JSON.
    pub fn open(&self, question: &OpenQuestion) -> Result<(), HomeError> {
        let path = self.question(&question.id);
        let text = serde_json::to_vec(question).expect("texts and numbers are JSON");
        durable::replace_file(&path, &text, Readers::OwnerOnly).map_err(HomeError::unwritable(&path))
    }

    /// Returns the option that the person here has chosen, if any.
    pub fn answered(&self, id: &RequestId) -> Option<ApprovalOption> {
        fs::read_to_string(self.answer(id)).ok().map(|text| ApprovalOption::from_text(&text))
    }

    /// Removes a question and its answer.
    pub fn close(&self, id: &RequestId) {
        for path in [self.question(id), self.answer(id)] {
            if let Err(error) = fs::remove_file(&path)
                && error.kind() != ErrorKind::NotFound
            {
                tracing::warn!(path = %path.display(), %error, "a question stays on the list though it is closed");
            }
        }
    }

    /// Removes the questions and answers of an earlier run of the runner.
    pub fn close_all(&self) {
        for file in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if let Err(error) = fs::remove_file(file.path()) {
                tracing::warn!(path = %file.path().display(), %error, "something stays among the open questions");
            }
        }
    }

    /// Returns the open questions, oldest first.
    pub fn list(&self) -> Vec<OpenQuestion> {
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

    /// Answers a question for the person here. Returns whether this is the first such answer to a question that is
    /// still open.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    pub fn choose(&self, id: &RequestId, option: ApprovalOption) -> Result<bool, HomeError> {
        let path = self.answer(id);
        match durable::create_file(&path, option.as_str().as_bytes(), Readers::OwnerOnly) {
            // The question was closed at this moment, so the answer will not be read.
            Ok(()) if !self.question(id).exists() => {
                self.close(id);
                Ok(false)
            }
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(HomeError::unwritable(&path)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_stands_until_the_question_is_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let approvals = Approvals { folder: folder.path().to_owned() };
        let question = |n: i64| OpenQuestion {
            id: RequestId::parse(format!("q{n}")).expect("an id"),
            request_id: RequestId::parse("r").expect("an id"),
            tool: "Bash".to_owned(),
            title: "rm -rf build".to_owned(),
            asked_at_ms: 10 - n,
            expires_at_ms: 20,
        };
        let [first, second] = [question(1), question(2)];
        for question in [&first, &second] {
            approvals.open(question).expect("written");
        }
        std::fs::write(folder.path().join("torn.json"), "{").expect("written");
        assert_eq!(approvals.list(), [second.clone(), first.clone()]);
        assert_eq!(approvals.answered(&first.id), None);
        assert!(approvals.choose(&first.id, ApprovalOption::AllowOnce).expect("written"));
        assert!(!approvals.choose(&first.id, ApprovalOption::RejectOnce).expect("it is answered"));
        assert_eq!(approvals.answered(&first.id), Some(ApprovalOption::AllowOnce));
        approvals.close(&first.id);
        assert_eq!((approvals.list(), approvals.answered(&first.id)), (vec![second], None));
        assert!(!approvals.choose(&first.id, ApprovalOption::AllowOnce).expect("written"), "it is over");
        approvals.close_all();
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }
}
