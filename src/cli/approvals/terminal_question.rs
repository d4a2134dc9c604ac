//! Asks the person at a terminal for an answer that is more than yes or no: an option, own words, a secret.

use super::terminal_asker::{PromptEnd, TerminalAsker, prompt_text};
use crate::cli::asked_secret;
use crate::cli::console;
use crate::cli::hidden_input::HiddenInput;
use crate::cli::prompt_line::ShownPrompt;
use punie_core::approval_answer::{AnswerPlace, ApprovalOption};
use punie_home::{OpenQuestion, PersonReply, QuestionInput};
use punie_text::redact::Secret;

impl TerminalAsker {
    /// Asks until the question is answered here or elsewhere.
    pub(super) fn ask_for_input(
        &self,
        question: &OpenQuestion,
        input: &QuestionInput,
    ) -> PromptEnd {
        self.input.discard_typed();
        let is_secret = matches!(input, QuestionInput::Secret { .. });
        loop {
            let hidden = is_secret.then(HiddenInput::begin);
            if let Some(Err(error)) = &hidden {
                console::print_line(&format!("The terminal would show it: {error}"));
                return PromptEnd::Stop;
            }
            let prompt = ShownPrompt::show(&prompt_text(question, true));
            let typed = match self.wait_for_line(question, true, prompt) {
                Ok(typed) => Secret::new(typed),
                Err(end) => return end,
            };
            drop(hidden);
            match self.give_typed_answer(question, input, &typed) {
                Ok(()) => return PromptEnd::Done,
                Err(error) => console::print_line(&format!("That did not work: {error:#}.")),
            }
        }
    }

    fn give_typed_answer(
        &self,
        question: &OpenQuestion,
        input: &QuestionInput,
        typed: &Secret<String>,
    ) -> anyhow::Result<()> {
        let line = typed.expose().trim_end_matches(['\r', '\n']);
        let word = line.trim().to_lowercase();
        let is_refusal = match input {
            QuestionInput::Secret { .. } => line.is_empty(),
            _ => ["r", "refuse"].contains(&word.as_str()),
        };
        let place = AnswerPlace::Terminal;
        let refusal = PersonReply::without_text(ApprovalOption::RejectOnce, place);
        let yes = PersonReply::without_text(ApprovalOption::AllowOnce, place);
        let reply = match input {
            _ if is_refusal => refusal,
            QuestionInput::Secret { name } => {
                let value = Secret::new(line.to_owned());
                asked_secret::store_for_question(&self.home, question, name, &value)?;
                yes
            }
            QuestionInput::Choice { .. } => PersonReply {
                text: Some(input.read_typed_answer(line).map_err(anyhow::Error::msg)?),
                ..yes
            },
            QuestionInput::Confirmation if ["d", "done"].contains(&word.as_str()) => yes,
            QuestionInput::Confirmation => anyhow::bail!("type d or r, then Enter"),
            QuestionInput::Consent { .. } if word == "yes" => yes,
            QuestionInput::Consent { .. } => anyhow::bail!("type yes or r, then Enter"),
        };
        self.store_reply(question, reply)
    }
}
