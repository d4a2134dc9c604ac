//! Reads user signals, and makes the text that may leave the device: without secrets, with aliases for people. Not here: the
//! sources (signals), and whether the owner agrees (collect_signals, cli).

use std::borrow::Cow;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use serde::Serialize;

use punie_home::{HomeError, IdentityMapStore, NamedPerson};
use punie_signals::{
    Budget, Category, SignalPlaces, SourceReport, SourceState, collect_category, format_report,
    sweep,
};
use punie_text::redact::{Redactor, mask_log_line};

const SOURCE_TIME: Duration = Duration::from_secs(10);
/// The most rows, lines and files of one source.
const SOURCE_ENTRIES: u64 = 2_000_000;

/// Reads user signals of one device.
#[derive(Debug, Clone)]
pub struct SignalReader {
    /// The aliases of people.
    pub people: Arc<IdentityMapStore>,
    /// Masks known secrets.
    pub redactor: Redactor,
}

/// Removes the private copies of databases that a killed process left behind.
pub fn remove_signal_leftovers(places: &SignalPlaces) {
    if let Err(error) = sweep(&places.scratch) {
        tracing::warn!(%error, "copies of databases cannot be removed");
    }
}

/// The text that leaves the device, and the end of each source.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalText {
    /// The sections, and a last one about the sources.
    pub text: String,
    /// The sources.
    pub sources: Vec<SignalSource>,
}

/// The end of one source.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalSource {
    pub category: Category,
    /// Its name.
    pub source: &'static str,
    /// `read`, `absent` or `failed`, with the reason of a failure.
    #[serde(flatten)]
    pub state: SourceState,
    /// What could not be read of it, or was left out.
    pub problems: Vec<String>,
}

impl SignalReader {
    /// Reads these categories at these places on a thread of its own. Returns `None` if `stop` ended first; then no copy of a
    /// database is left.
    ///
    /// # Errors
    /// The identity map cannot be used; then nothing may leave.
    pub async fn read_until(
        &self,
        places: SignalPlaces,
        categories: Vec<Category>,
        stop: impl Future<Output = ()>,
    ) -> Option<Result<SignalText, HomeError>> {
        let reader = self.clone();
        let cancelled = Arc::<AtomicBool>::default();
        let is_cancelled = Arc::clone(&cancelled);
        let mut reading = tokio::task::spawn_blocking(move || {
            reader.read_categories(&places, &categories, &is_cancelled)
        });
        tokio::select! {
            biased;
            read = &mut reading => {
                Some(read.unwrap_or_else(|fault| resume_unwind(fault.into_panic())))
            }
            () = stop => {
                cancelled.store(true, Ordering::Relaxed);
                let _ = reading.await;
                None
            }
        }
    }

    /// Reads these categories at these places. It blocks, for seconds where there is much to read. Cancelled, the rest is left
    /// out.
    fn read_categories(
        &self,
        places: &SignalPlaces,
        categories: &[Category],
        cancelled: &Arc<AtomicBool>,
    ) -> Result<SignalText, HomeError> {
        let places = SignalPlaces {
            now: SystemTime::now(),
            ..places.clone()
        };
        remove_signal_leftovers(&places);
        let begin = || Budget::begin(SOURCE_TIME, SOURCE_ENTRIES, Arc::clone(cancelled));
        let reports: Vec<(Category, SourceReport)> = categories
            .iter()
            .flat_map(|&category| {
                let reports = collect_category(category, &places, begin);
                reports.into_iter().map(move |report| (category, report))
            })
            .collect();
        let people = reports.iter().flat_map(|(_, report)| &report.people);
        let people: Vec<NamedPerson> = people
            .map(|person| NamedPerson {
                name: person.name.clone(),
                identifiers: person.identifiers.clone(),
            })
            .collect();
        let aliases = self.people.prepare_text_aliases(&people)?;
        let clean = |text: &str| {
            let masked = self.redactor.mask(text).0;
            let lines: Vec<Cow<'_, str>> = masked.split('\n').map(mask_log_line).collect();
            aliases.replace_people(&lines.join("\n"))
        };
        let sources: Vec<SignalSource> = reports
            .iter()
            .map(|(category, report)| SignalSource {
                category: *category,
                source: report.source,
                state: match &report.state {
                    SourceState::Failed(reason) => SourceState::Failed(clean(reason)),
                    state => state.clone(),
                },
                problems: report.problems.iter().map(|text| clean(text)).collect(),
            })
            .collect();
        let reports: Vec<SourceReport> = reports.into_iter().map(|(_, report)| report).collect();
        let mut text = clean(&format_report(&reports));
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str("# Sources\n");
        for source in &sources {
            text.push_str(&format_source(source));
        }
        text.push('\n');
        Ok(SignalText { text, sources })
    }
}

fn format_source(source: &SignalSource) -> String {
    let end = match &source.state {
        SourceState::Read => "read",
        SourceState::Absent => "not on this device",
        SourceState::Failed(_) => "could not be read",
    };
    let mut lines = format!("\n- {} ({}): {end}", source.source, source.category);
    let reason = match &source.state {
        SourceState::Failed(reason) => Some(reason),
        SourceState::Read | SourceState::Absent => None,
    };
    for problem in reason.into_iter().chain(&source.problems) {
        lines.push_str("\n  - ");
        lines.push_str(&problem.replace('\n', " "));
    }
    lines
}
