//! The question to people about one host. It is listed in the home, where the terminal, the desktop and `punie-runner
//! approvals` show and answer it; a runner also asks the caller's side.

use std::sync::Arc;
use std::time::Duration;

use super::call_network::NetworkCaller;
use punie_core::approval_answer::ApprovalOption;
use punie_home::{NobodyToAsk, OpenQuestion, PeopleAsker};
use punie_text::output::hidden_characters::{escape_hidden_characters, escape_to_one_line};

/// The most characters of a command in a question's title.
const MAX_TITLE_CHARS: usize = 200;

/// Masks secrets in a text.
pub type MaskText = Arc<dyn Fn(&str) -> String + Send + Sync>;
/// Returns the time for which a question waits.
pub type Patience = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Asks people about hosts.
#[derive(Clone)]
pub struct HostAsker {
    /// Asks them.
    pub people: PeopleAsker,
    /// Masks secrets.
    pub mask: MaskText,
    /// The time for which a question waits.
    pub patience: Patience,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuestionEnd {
    /// A person answered.
    Answered(ApprovalOption),
    /// Nobody can be asked.
    NobodyToAsk,
    /// Too many questions of the call wait already.
    TooMany,
    /// Nobody answered within so many seconds.
    Unanswered(u64),
}

impl HostAsker {
    /// Asks about a host. Dropping the future withdraws the question.
    pub(super) async fn ask(
        &self,
        caller: &NetworkCaller,
        target: &str,
        pattern: Option<String>,
        why: &str,
    ) -> QuestionEnd {
        let patience = (self.patience)();
        let question = self.build_question(caller, target, pattern, why, patience);
        match self.people.ask_question(question, false).await {
            Ok(Some(reply)) => QuestionEnd::Answered(reply.option),
            Ok(None) => QuestionEnd::Unanswered(patience.as_secs()),
            Err(NobodyToAsk) => QuestionEnd::NobodyToAsk,
        }
    }

    fn build_question(
        &self,
        caller: &NetworkCaller,
        target: &str,
        pattern: Option<String>,
        why: &str,
        patience: Duration,
    ) -> OpenQuestion {
        let command = (self.mask)(&caller.command);
        let mut title = escape_to_one_line(&command);
        if let Some((at, _)) = title.char_indices().nth(MAX_TITLE_CHARS) {
            title.truncate(at);
            title.push('…');
        }
        // The host first: what shows only the beginning shows it, and no words of the agent can stand for it.
        let title = format!(
            "{target}: {} wants to reach this host. Its command: \"{}\"",
            caller.tool,
            title.replace('"', "\\\"")
        );
        let arguments = format!(
            "host: {target}\ncommand: {}",
            escape_hidden_characters(&command)
        );
        OpenQuestion {
            why: Some(why.to_owned()),
            host: Some(target.to_owned()),
            allowable_host: pattern,
            ..OpenQuestion::new(&caller.request, &caller.tool, title, arguments, patience)
        }
    }
}
