//! CollectSignals: gives an agent what the owner lets this device tell about them.

use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::RwLock;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;

use super::UserDeps;
use super::ask_user_question::nobody_to_ask_error;
use super::person_question::{PersonQuestion, QuestionEnd, cancelled_error};
use super::signal_consent_text::consent_text;
use super::signal_reader::SignalReader;
use punie_core::clock::unix_time_ms;
use punie_home::{ConsentAct, ConsentRecord, HomeError, QuestionInput, SignalConsents};
use punie_signals::{Category, SignalPlaces};
use punie_tool::{DeclaredAccess, ErrorCode, Tool, ToolContext, ToolEffect, ToolError, ToolReply};

/// What CollectSignals needs, beside asking the owner.
#[derive(Debug, Clone)]
pub struct SignalDeps {
    /// Reads the categories.
    pub reader: SignalReader,
    /// The owner's consents.
    pub consents: SignalConsents,
    /// What the owner has set.
    pub settings: LiveSignalSettings,
}

/// What the owner has set about user signals.
#[derive(Debug, Clone)]
pub struct SignalSettings {
    /// The categories that are on.
    pub switched_on: Vec<Category>,
    /// The folders in which sources look.
    pub places: SignalPlaces,
}

/// The settings while the configuration can change. Clones share them.
#[derive(Debug, Clone)]
pub struct LiveSignalSettings(Arc<RwLock<SignalSettings>>);

impl LiveSignalSettings {
    /// Begins with these.
    pub fn new(settings: SignalSettings) -> Self {
        Self(Arc::new(RwLock::new(settings)))
    }

    /// Replaces the settings.
    pub fn replace(&self, settings: SignalSettings) {
        *self.0.write() = settings;
    }

    /// Returns the settings of this moment.
    pub fn current(&self) -> SignalSettings {
        self.0.read().clone()
    }
}

/// Read what the owner lets this device tell about them, as Markdown; asks them first, once for each category.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CollectSignals {
    /// None for all that are on: browsing_bookmarks, dev_environment, apps_system, messages_notes.
    #[serde(default)]
    categories: Vec<String>,
    /// Seconds to wait for them.
    timeout: Option<u32>,
}

impl Tool for CollectSignals {
    const NAME: &'static str = "CollectSignals";
    const EFFECT: ToolEffect = ToolEffect::AsksUser;
    const ALIASES: &'static [(&'static str, &'static str)] = &[("category", "categories")];
    const EXAMPLES: &'static [&'static str] = &[r#"{"categories":["dev_environment"]}"#, "{}"];
    const LIMITS: &'static [&'static str] = &[
        "10 s and 2,000,000 entries for each source; what is left out is named",
        "waits 3,000 s at most for the owner",
    ];
    type Deps = UserDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess {
            unnamed: Some("the owner's browsers, shells, projects, programs and notes"),
            ..DeclaredAccess::none()
        }
    }

    async fn run(self, cx: &ToolContext, deps: &UserDeps) -> Result<ToolReply, ToolError> {
        let wanted = self.wanted_categories(&deps.signals.settings.current().switched_on)?;
        let _turn = tokio::select! {
            biased;
            () = cx.wait_for_cancel() => return Err(cancelled_error()),
            turn = deps.turns.wait_for_turn(&cx.conversation) => turn,
        };
        let until = deps.end_of_wait(cx, self.timeout);
        let mut agreed = Vec::new();
        let mut notes = Vec::new();
        for category in wanted {
            match deps.ask_consent(cx, category, until).await? {
                None => agreed.push(category),
                Some(why) => notes.push(format!("{category}: {why}")),
            }
        }
        // The owner may have turned one off or withdrawn a consent while another was asked about.
        let settings = deps.signals.settings.current();
        let mut readable = Vec::new();
        for category in agreed {
            if settings.switched_on.contains(&category) && deps.has_consent(category).await? {
                readable.push(category);
            } else {
                notes.push(format!("{category}: the owner has just closed it"));
            }
        }
        if readable.is_empty() {
            let text = format!("Nothing was read. {}.", notes.join(". "));
            return Err(ToolError::new(ErrorCode::PolicyDenied, text));
        }
        let reader = &deps.signals.reader;
        let read = reader.read_until(settings.places, readable, cx.wait_for_cancel());
        let read = read
            .await
            .ok_or_else(|| ToolError::call_cancelled("Nothing was sent."))?;
        let mut text = read.map_err(|error| people_error(&error))?.text;
        for note in notes {
            let _ = writeln!(text, "- {note}");
        }
        Ok(ToolReply::from_text(text))
    }
}

impl CollectSignals {
    fn wanted_categories(&self, switched_on: &[Category]) -> Result<Vec<Category>, ToolError> {
        if self.categories.is_empty() {
            if switched_on.is_empty() {
                return Err(closed_error("No category of user signals is", "CATEGORY"));
            }
            return Ok(switched_on.to_vec());
        }
        let mut wanted = Vec::new();
        for name in &self.categories {
            let category: Category = name
                .trim()
                .parse()
                .map_err(|why| ToolError::invalid_args(format!("CollectSignals: {why}.")))?;
            if !switched_on.contains(&category) {
                let which = format!("{category} is not");
                return Err(closed_error(&which, category.name()));
            }
            if !wanted.contains(&category) {
                wanted.push(category);
            }
        }
        Ok(wanted)
    }
}

fn closed_error(which: &str, name: &str) -> ToolError {
    let text = format!(
        "{which} on in this runner, so nothing was read. The owner of the device decides: punie-runner config set \
         signals.{name} on, and a restart of the runner"
    );
    ToolError::new(ErrorCode::PolicyDenied, text)
}

impl UserDeps {
    async fn has_consent(&self, category: Category) -> Result<bool, ToolError> {
        let consents = self.signals.consents.clone();
        use_consents(move || consents.has_consent(category.name(), &consent_text(category))).await
    }

    /// Asks the owner for the consent to a category, unless it was given. Returns the reason if there is none.
    async fn ask_consent(
        &self,
        cx: &ToolContext,
        category: Category,
        until: Instant,
    ) -> Result<Option<String>, ToolError> {
        if self.has_consent(category).await? {
            return Ok(None);
        }
        let text = consent_text(category);
        let question = PersonQuestion {
            tool: CollectSignals::NAME,
            number: Category::ALL
                .iter()
                .position(|one| *one == category)
                .unwrap_or_default(),
            title: format!("Let agents read {category}?"),
            details: text.clone(),
            input: QuestionInput::Consent {
                subject: category.name().to_owned(),
            },
        };
        match self.ask_person(cx, question, until).await? {
            QuestionEnd::Answered(_) => {
                let record = ConsentRecord {
                    at_ms: unix_time_ms(),
                    category: category.name().to_owned(),
                    act: ConsentAct::Given,
                    text,
                    place: cx.request.to_string(),
                };
                let consents = self.signals.consents.clone();
                use_consents(move || consents.add_record(&record)).await?;
                Ok(None)
            }
            QuestionEnd::Refused => Ok(Some("the owner refused".to_owned())),
            QuestionEnd::Unanswered => Ok(Some("the owner did not answer in time".to_owned())),
            QuestionEnd::NobodyToAsk => Err(nobody_to_ask_error()),
        }
    }
}

/// Reads or changes the consents on a blocking thread.
async fn use_consents<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HomeError> + Send + 'static,
) -> Result<T, ToolError> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|panicked| ToolError::internal(panicked.to_string()))?;
    done.map_err(|error| {
        tracing::error!(%error, "the owner's consents cannot be used");
        let text = "The owner's consents cannot be read or written just now, so nothing was read. The owner sees why with \
                    `punie-runner signals`.";
        ToolError::new(ErrorCode::Io, text)
    })
}

fn people_error(error: &HomeError) -> ToolError {
    tracing::error!(%error, "the names of people in user signals cannot be replaced");
    let text = "The names of people cannot be replaced just now, so nothing was sent. The owner sees why with \
                `punie-runner people`.";
    ToolError::new(ErrorCode::Io, text)
}
