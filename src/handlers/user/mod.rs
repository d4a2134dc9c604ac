//! Questions to a person, and what the device can tell about its owner: AskUserQuestion, RequestCredential,
//! CollectSignals.

mod ask_user_question;
#[cfg(feature = "signals")]
mod collect_signals;
mod person_question;
mod question_turns;
mod request_credential;
#[cfg(feature = "signals")]
mod signal_consent_text;
#[cfg(feature = "signals")]
mod signal_reader;

use std::time::Duration;

#[cfg(feature = "signals")]
pub use collect_signals::{LiveSignalSettings, SignalDeps, SignalSettings};
use punie_home::{PeopleAsker, SecretStore};
use punie_text::redact::Redactor;
use punie_tool::{ToolDeps, ToolEntry, ToolSet};
pub use question_turns::QuestionTurns;
#[cfg(feature = "signals")]
pub use signal_consent_text::consent_text;
#[cfg(feature = "signals")]
pub use signal_reader::{SignalReader, SignalText, remove_signal_leftovers};

/// The dependencies of the tools that ask a person.
#[derive(Debug, Clone)]
pub struct UserDeps {
    /// Asks the person.
    pub people: PeopleAsker,
    /// Masks secrets in questions.
    pub redactor: Redactor,
    /// The owner's secrets.
    pub secrets: SecretStore,
    /// The time for which a question waits, unless the call names one.
    pub patience: Duration,
    /// The owner's answer where there is none.
    pub default_answer: Option<String>,
    /// The order of the questions of a conversation.
    pub turns: QuestionTurns,
    /// What the device can tell about its owner.
    #[cfg(feature = "signals")]
    pub signals: SignalDeps,
}

impl ToolDeps for UserDeps {}

/// Returns the tools that ask a person.
pub fn tools(deps: UserDeps) -> Vec<ToolEntry> {
    #[cfg(feature = "signals")]
    let signals_off = deps.signals.settings.current().switched_on.is_empty();
    #[cfg(feature = "signals")]
    let signals_off = signals_off.then_some("no category under [signals] is on");
    let tools = ToolSet::new("user", deps)
        .with_tool::<ask_user_question::AskUserQuestion>()
        .with_tool::<request_credential::RequestCredential>();
    #[cfg(feature = "signals")]
    let tools = tools.with_tool_unless::<collect_signals::CollectSignals>(signals_off);
    tools.into_entries()
}
