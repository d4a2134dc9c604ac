//! Questions of running calls: about hosts that a command wants to reach, and those of the agent. They go to the person
//! at this device and to the caller's side.

use std::fmt::Write as _;

use super::ApprovalService;
use super::open_question::DeviceQuestion;
use super::verdicts::{ApprovalReply, PersonAnswer};
use crate::backend::{Backend as _, RemoteAnswer, RemoteAnswerKind, RemoteQuestion};
use crate::journal::{ALLOWED, ANSWERED, ASKED, DENIED};
use punie_core::approval_answer::{AnswerPlace, AnsweredBy, ApprovalOption};
use punie_home::{
    AskPeople, NobodyToAsk, OpenQuestion, PeopleAnswer, PersonReply, QuestionInput, command_to_type,
};

/// The most bytes of a title on the wire.
const MAX_TITLE_BYTES: usize = 4_000;
/// The most characters of a text from the caller's side.
const MAX_TEXT_CHARS: usize = 4_000;

impl AskPeople for ApprovalService {
    fn ask_people(&self, question: OpenQuestion, is_in_editor: bool) -> PeopleAnswer<'_> {
        Box::pin(self.ask_for_running_call(question, is_in_editor))
    }
}

impl ApprovalService {
    async fn ask_for_running_call(
        &self,
        open: OpenQuestion,
        is_in_editor: bool,
    ) -> Result<Option<PersonReply>, NobodyToAsk> {
        // The backend refuses a question of a request that it does not know, or that is over.
        let asks_caller = self.backend.remote_approvals().is_some();
        let can_ask_here = is_in_editor || self.has_approver().await;
        if !asks_caller && !can_ask_here {
            return Err(NobodyToAsk);
        }
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of some minutes")]
        let patience_ms = (open.expires_at_ms - open.asked_at_ms) as f64;
        let now_ms = self.server_clock.now_ms();
        let question = RemoteQuestion {
            id: open.id.clone(),
            request: open.request_id.clone(),
            title: remote_title(&open),
            is_cut: open.is_cut,
            host: open.host.clone(),
            answers: remote_answers(&open),
            expires_at_ms: now_ms + patience_ms,
        };
        let request = open.request_id.clone();
        let input = open.input.clone();
        if input.is_some() {
            self.record_step(&request, ASKED, open.title.clone()).await;
        }
        let about_host = open.host.as_ref().map(|host| format!(" ({host})"));
        let stopping = self.phases.stopping.clone();
        let listed = DeviceQuestion::list_question(self.memory.open.clone(), open, stopping);
        let reply = tokio::select! {
            biased;
            // A call that is nothing but a question is left for the next process, which asks again.
            () = self.phases.stopping.cancelled(), if input.is_none() => ApprovalReply::NobodyToAsk,
            reply = self.wait_for_listed_answer(&question, asks_caller, can_ask_here) => reply,
        };
        let here = self.memory.open.given_reply(&question.id);
        let waited_ms = self.server_clock.now_ms() - now_ms;
        let reply = match reply {
            ApprovalReply::Answer(Some(answer)) => {
                let place = PersonAnswer::from_remote(&answer, here.as_ref());
                let mut reply = read_remote_answer(answer, place.place, input.as_ref());
                // A backend may say anything.
                let is_own_yes = here.is_some_and(|here| here.option.is_allowed());
                if input.as_ref().is_some_and(QuestionInput::wants_this_device) && !is_own_yes {
                    reply.option = ApprovalOption::RejectOnce;
                }
                let kind = match (reply.option.is_allowed(), &input) {
                    (true, None) => ALLOWED,
                    (true, Some(_)) => ANSWERED,
                    (false, _) => DENIED,
                };
                let how =
                    place.describe_after(waited_ms) + about_host.as_deref().unwrap_or_default();
                self.record_step(&request, kind, how).await;
                Ok(Some(reply))
            }
            ApprovalReply::Answer(None) => Ok(None),
            ApprovalReply::InEditor(_) | ApprovalReply::NobodyToAsk => Err(NobodyToAsk),
        };
        // After the record: the person who answered reads it then.
        listed.unlist().await;
        reply
    }
}

/// Returns the title for the caller's side. It has all that a person there needs to answer.
fn remote_title(open: &OpenQuestion) -> String {
    let mut title = open.title.clone();
    match &open.input {
        Some(QuestionInput::Choice {
            options,
            is_multiple,
        }) => {
            for (at, option) in options.iter().enumerate() {
                let _ = write!(title, "\n{}", option.numbered_line(at + 1));
            }
            if *is_multiple {
                title.push_str("\nSeveral may be chosen: their numbers, as in 1, 2.");
            }
        }
        Some(QuestionInput::Secret { name }) => {
            let command = command_to_type(&format!("secrets set {name}"));
            let _ = write!(title, "\nType it on the device: {command}");
        }
        Some(QuestionInput::Consent { .. }) => {
            let command = command_to_type("questions");
            let _ = write!(title, "\nAgree to it on the device: {command}");
        }
        Some(QuestionInput::Confirmation) | None => {}
    }
    title.truncate(title.floor_char_boundary(MAX_TITLE_BYTES));
    title
}

fn remote_answers(open: &OpenQuestion) -> RemoteAnswerKind {
    match &open.input {
        None => RemoteAnswerKind::Approval,
        Some(QuestionInput::Choice { options, .. }) => {
            RemoteAnswerKind::Text(options.iter().map(|option| option.label.clone()).collect())
        }
        Some(QuestionInput::Secret { .. } | QuestionInput::Consent { .. }) => {
            RemoteAnswerKind::RefusalOnly
        }
        Some(QuestionInput::Confirmation) => RemoteAnswerKind::Confirmation,
    }
}

/// Reads an answer. A text of the caller's side may be the number of an option.
fn read_remote_answer(
    answer: RemoteAnswer,
    place: AnswerPlace,
    input: Option<&QuestionInput>,
) -> PersonReply {
    let Some(input @ QuestionInput::Choice { .. }) = input else {
        return PersonReply::without_text(answer.option, place);
    };
    let text = answer.text.and_then(|text| match answer.by {
        AnsweredBy::Device => Some(text),
        AnsweredBy::Caller => {
            let own: String = text.trim().chars().take(MAX_TEXT_CHARS).collect();
            let meant = input.read_typed_answer(&own).unwrap_or(own);
            Some(meant).filter(|text| !text.is_empty())
        }
    });
    PersonReply {
        option: ApprovalOption::new(text.is_some(), false),
        place,
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punie_home::ChoiceOption;

    #[test]
    fn a_text_of_the_caller_s_side_is_an_option_a_text_or_a_refusal() {
        let option = |label: &str| ChoiceOption {
            label: label.to_owned(),
            description: String::new(),
        };
        let input = QuestionInput::Choice {
            options: ["Red", "Blue"].map(option).into(),
            is_multiple: false,
        };
        let read = |text: Option<&str>| {
            let answer = RemoteAnswer {
                option: ApprovalOption::RejectOnce,
                text: text.map(str::to_owned),
                by: AnsweredBy::Caller,
            };
            let reply = read_remote_answer(answer, AnswerPlace::Caller, Some(&input));
            assert_eq!(reply.option.is_allowed(), reply.text.is_some());
            reply.text
        };
        assert_eq!(read(Some("2")).as_deref(), Some("Blue"));
        assert_eq!(read(Some("7")).as_deref(), Some("7"));
        let own_words = "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}";
        assert_eq!(read(Some(own_words)).as_deref(), Some(own_words));
        assert_eq!(read(Some(" \n")), None);
        assert_eq!(read(None), None);
        let yes = RemoteAnswer {
            option: ApprovalOption::AllowOnce,
            text: None,
            by: AnsweredBy::Caller,
        };
        let reply = read_remote_answer(yes, AnswerPlace::Caller, Some(&input));
        assert!(!reply.option.is_allowed(), "a yes is no answer to a choice");
    }
}
