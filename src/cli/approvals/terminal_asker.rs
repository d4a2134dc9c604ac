//! Asks the person at a terminal about the calls that wait, one at a time: for `approvals --watch`, and on the terminal
//! of `dev` and `run`.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::given_answer::GivenAnswer;
use super::open_questions::list_open_or_stored;
use super::question_view::{self, prompt_view, question_text};
use super::terminal_input::{TerminalInput, TypedInput};
use crate::cli::console;
use crate::cli::exit::{CommandError, Exit};
use crate::cli::prompt_line::ShownPrompt;
use punie_core::approval_answer::{AnswerPlace, ApprovalOption};
use punie_engine::runner::{Clock, ShutdownSignal};
use punie_home::{
    AnswerResult, ApprovalQuestions, ApproverPresence, Home, OpenQuestion, PersonReply,
    command_to_type,
};
use punie_host::active_rules::ActiveRules;
use punie_policy::{AddedPolicyRule, PolicyDecision};

/// The interval of checks for new questions.
const NEW_QUESTION_INTERVAL: Duration = Duration::from_millis(500);
/// The interval of checks if a question at the prompt still waits.
const PROMPT_INTERVAL: Duration = Duration::from_millis(200);

/// What a person types at the prompt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TypedChoice {
    AllowOnce,
    AllowConversation,
    AllowAlways,
    Deny,
    Show,
}

/// The end of a question at the prompt.
pub(super) enum PromptEnd {
    /// It was answered, is over, or may be asked again.
    Done,
    /// The terminal is gone, or the process stops.
    Stop,
}

/// A terminal whose person is asked about calls.
pub(in crate::cli) struct TerminalAsker {
    pub(super) home: Home,
    workspaces: Vec<PathBuf>,
    questions: ApprovalQuestions,
    pub(super) input: TerminalInput,
    stop: ShutdownSignal,
}

impl TerminalAsker {
    /// Returns the terminal of this process, if it has one. Asking ends with `stop`.
    pub fn from_process(
        home: &Home,
        workspaces: &[PathBuf],
        stop: &ShutdownSignal,
    ) -> Option<Self> {
        Some(Self {
            home: home.clone(),
            workspaces: workspaces.to_owned(),
            questions: ApprovalQuestions::in_home(home),
            input: TerminalInput::from_process()?,
            stop: stop.clone(),
        })
    }

    /// Asks on a thread of its own, beside a runner. From here on the runner knows that somebody can be asked.
    pub fn ask_beside_runner(self) {
        let is_in_foreground = self.input.is_in_foreground();
        let presence = is_in_foreground.then(|| announce(&self.home)).flatten();
        let asking = move || self.ask_until_stopped(presence);
        if let Err(error) = thread::Builder::new()
            .name("approvals".to_owned())
            .spawn(asking)
        {
            tracing::warn!(%error, "nobody is asked on this terminal; use `{}`", command_to_type("approvals"));
        }
    }

    /// Asks until the process stops or the terminal is gone. The runner knows meanwhile that somebody can be asked.
    pub fn ask_until_stopped(&self, mut presence: Option<ApproverPresence>) {
        while !self.stop.is_requested() {
            if !self.input.is_in_foreground() {
                presence = None;
            } else if presence.is_none() {
                presence = announce(&self.home);
            }
            let first = presence.as_ref().and_then(|_| self.first_waiting());
            match first.map(|question| self.ask_about(&question)) {
                Some(PromptEnd::Stop) => return,
                Some(PromptEnd::Done) => {}
                None => thread::park_timeout(NEW_QUESTION_INTERVAL),
            }
        }
    }

    fn first_waiting(&self) -> Option<OpenQuestion> {
        list_open_or_stored(&self.home)
            .into_iter()
            .find(|question| self.questions.is_waiting(&question.id))
    }

    /// Asks about one call until it is answered here or elsewhere.
    fn ask_about(&self, question: &OpenQuestion) -> PromptEnd {
        let mut view = prompt_view(question, console::terminal_width().unwrap_or(80));
        if question.input.is_some() && !view.is_whole {
            // There is no command that shows more of it.
            view.text = format!("\n{}", question.arguments);
        }
        // The bell.
        if console::try_print_line(&format!("\u{7}{}", view.text)).is_err() {
            return PromptEnd::Stop;
        }
        if let Some(input) = &question.input {
            return self.ask_for_input(question, input);
        }
        let mut may_allow = view.is_whole;
        if may_allow {
            self.record_shown(question);
        }
        self.input.discard_typed();
        loop {
            let prompt = ShownPrompt::show(&prompt_text(question, may_allow));
            let typed = match self.wait_for_line(question, may_allow, prompt) {
                Ok(typed) => typed,
                Err(end) => return end,
            };
            match parse_choice(&typed, question, may_allow) {
                Some(TypedChoice::Show) => {
                    if console::try_print_line(&format!("\n{}\n", question_text(question))).is_err()
                    {
                        return PromptEnd::Stop;
                    }
                    self.record_shown(question);
                    may_allow = true;
                }
                Some(choice) => match self.give_answer(question, choice) {
                    Ok(()) => return PromptEnd::Done,
                    Err(error) => console::print_line(&format!("That did not work: {error:#}")),
                },
                None => console::print_line(&format!(
                    "Type {}, then Enter.",
                    offered_letters(question, may_allow)
                )),
            }
        }
    }

    /// Waits for a typed line, until the question no longer waits.
    pub(super) fn wait_for_line(
        &self,
        question: &OpenQuestion,
        may_allow: bool,
        mut prompt: ShownPrompt,
    ) -> Result<String, PromptEnd> {
        loop {
            match self.input.read_line_within(PROMPT_INTERVAL) {
                TypedInput::Line(line) => return Ok(line),
                TypedInput::Closed => return Err(PromptEnd::Stop),
                TypedInput::Nothing => {}
            }
            if self.stop.is_requested() {
                prompt.erase();
                return Err(PromptEnd::Stop);
            }
            if !self.questions.is_waiting(&question.id) {
                prompt.erase();
                let is_late = Clock::system().now_ms() >= question.expires_at_ms;
                console::print_line(match (is_late, &question.input) {
                    (true, None) => "The time is up: the call was refused.",
                    (true, Some(_)) => "The time is up: the question was not answered.",
                    (false, None) => {
                        "This call no longer waits: it was answered elsewhere, or cancelled."
                    }
                    (false, Some(_)) => {
                        "This question no longer waits: it was answered elsewhere, or cancelled."
                    }
                });
                return Err(PromptEnd::Done);
            }
            if !self.input.is_in_foreground() {
                prompt.erase();
                return Err(PromptEnd::Done);
            }
            prompt.change_text(&prompt_text(question, may_allow));
        }
    }

    fn give_answer(&self, question: &OpenQuestion, choice: TypedChoice) -> anyhow::Result<()> {
        let option = match choice {
            TypedChoice::AllowConversation => ApprovalOption::AllowAlways,
            TypedChoice::Deny => ApprovalOption::RejectOnce,
            _ => ApprovalOption::AllowOnce,
        };
        if choice == TypedChoice::AllowAlways {
            self.add_rule(question)?;
        }
        self.store_reply(
            question,
            PersonReply::without_text(option, AnswerPlace::Terminal),
        )
    }

    /// Stores the answer for the runner, and says what came of it.
    pub(super) fn store_reply(
        &self,
        question: &OpenQuestion,
        reply: PersonReply,
    ) -> anyhow::Result<()> {
        let answer = GivenAnswer(reply);
        let text = match answer.store(&self.home, &self.questions, question)? {
            AnswerResult::Accepted => {
                let effect = answer.wait_for_effect(&self.home, &self.questions, question);
                answer.confirm(question, &effect)
            }
            AnswerResult::TooLate => "It was answered elsewhere before.".to_owned(),
            AnswerResult::SeenInPart => {
                "Type s first: only a part of the call was shown.".to_owned()
            }
        };
        console::print_line(&text);
        Ok(())
    }

    /// Adds the rule that allows this command from now on.
    fn add_rule(&self, question: &OpenQuestion) -> anyhow::Result<()> {
        let (command, hosts) = match (&question.allowable_command, &question.allowable_host) {
            (Some(command), _) => (command.clone(), Vec::new()),
            (None, Some(host)) => (Vec::new(), vec![host.clone()]),
            (None, None) => return Ok(()),
        };
        // The runner has checked the names of tools in this file, and the new rule has none.
        let is_tool = Arc::new(|_: &str| true);
        let rules = ActiveRules::load_from_home(&self.home, self.workspaces.clone(), is_tool)?;
        let rule = AddedPolicyRule {
            command,
            hosts,
            ..AddedPolicyRule::default()
        };
        let name = rules
            .append(&rule, PolicyDecision::Allow)?
            .map_err(|broken| CommandError::with_exit(Exit::Config, broken.to_string()))?;
        console::print_line(&format!("The rule {name} was added to policy.toml."));
        Ok(())
    }

    fn record_shown(&self, question: &OpenQuestion) {
        if let Err(error) = self.questions.record_shown(&question.id) {
            tracing::warn!(%error, "the call can only be allowed after `{}`", command_to_type("approvals show"));
        }
    }
}

/// Announces that a person can be asked here.
pub(super) fn announce(home: &Home) -> Option<ApproverPresence> {
    ApproverPresence::announce(home)
        .inspect_err(|error| tracing::warn!(%error, "nobody can be asked here"))
        .ok()
}

pub(super) fn prompt_text(question: &OpenQuestion, may_allow: bool) -> String {
    question_view::prompt_line(question, may_allow, Clock::system().now_ms())
}

/// Returns the letters that are offered at the prompt.
fn offered_letters(question: &OpenQuestion, may_allow: bool) -> &'static str {
    match (may_allow, question_view::offers_always(question)) {
        (false, _) => "s or d",
        _ if question.session_folder.is_some() => "a, d or s",
        (true, false) => "a, c, d or s",
        (true, true) => "a, c, l, d or s",
    }
}

/// Returns the choice of a typed line, if the prompt offers it.
fn parse_choice(typed: &str, question: &OpenQuestion, may_allow: bool) -> Option<TypedChoice> {
    let choice = match typed.trim().to_ascii_lowercase().as_str() {
        "a" | "allow" => TypedChoice::AllowOnce,
        "c" | "conversation" => TypedChoice::AllowConversation,
        "l" | "always" => TypedChoice::AllowAlways,
        "d" | "deny" | "n" | "no" => TypedChoice::Deny,
        "s" | "show" => TypedChoice::Show,
        _ => return None,
    };
    let is_offered = match choice {
        TypedChoice::Deny | TypedChoice::Show => true,
        TypedChoice::AllowAlways => may_allow && question_view::offers_always(question),
        TypedChoice::AllowOnce => may_allow,
        TypedChoice::AllowConversation => may_allow && question.session_folder.is_none(),
    };
    is_offered.then_some(choice)
}
