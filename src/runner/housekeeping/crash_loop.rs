//! The lives of the runner that ended without a stop. Several within a few minutes lead to safe mode: the next life
//! accepts, delivers and reports, and begins nothing until it has been quiet for a while or the owner resumes.
//!
//! One request that crashes every life is not a reason for it: recovery gives that request up after some attempts, and
//! the others go on. So crashes during which the same call ran count as one. Not here: that giving up (recovery).

use serde::{Deserialize, Serialize};

use super::Housekeeping;
use crate::audit::{Event, Who};
use crate::home::SwitchedOn;
use crate::runner::error::RunnerError;

/// Whether a life goes on: set at its beginning, taken back at its end.
const ALIVE: &str = "alive";
/// The recent crashes.
const CRASHES: &str = "crashes";

/// A life that ended without a stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Crash {
    /// When the next life found it, in milliseconds since 1970.
    at_ms: i64,
    /// What ran then.
    ran: Vec<String>,
}

/// Counts the life that begins, and enters safe mode where the last ones ended badly. To be called before recovery
/// changes what ran.
pub(in crate::runner) async fn record_start(keeper: &Housekeeping) -> Result<(), RunnerError> {
    keeper.audit.record_event(Event::Started, Who::Runner, env!("CARGO_PKG_VERSION"));
    let reader = keeper.journal.reader()?;
    let now_ms = keeper.clock.now_ms();
    let mut crashes: Vec<Crash> =
        reader.recall(CRASHES)?.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    if reader.recall(ALIVE)?.as_deref() == Some("yes") {
        let ran = reader.begun()?.iter().map(ToString::to_string).collect();
        crashes.push(Crash { at_ms: now_ms, ran });
        tracing::warn!(recent = crashes.len(), "the last life of the runner ended without a stop");
    }
    let window = i64::try_from(keeper.settings.crash_loop.crash_window.as_millis()).unwrap_or(i64::MAX);
    // However the clock was moved: what it says is long ago or to come is not recent.
    crashes.retain(|crash| (now_ms - crash.at_ms).abs() <= window);
    let limit = keeper.settings.crash_loop.crash_limit;
    if limit > 0 && causes(&crashes) >= limit {
        let reason = format!("{} crashes within {} min", crashes.len(), window.max(60_000) / 60_000);
        tracing::error!(reason, "safe mode: requests are accepted and nothing is begun");
        match keeper.pause.enter_safe_mode(&SwitchedOn { since_ms: now_ms, reason: Some(reason) }) {
            // Counted, so that the next crash does not count these again.
            Ok(()) => crashes.clear(),
            Err(error) => tracing::error!(%error, "safe mode could not be entered"),
        }
    }
    if keeper.pause.is_active() {
        keeper.record_pause();
    }
    let crashes = serde_json::to_string(&crashes).expect("numbers and texts are JSON");
    keeper.journal.remember(CRASHES, crashes).await?;
    keeper.journal.remember(ALIVE, "yes".to_owned()).await?;
    Ok(())
}

/// This life ends by a stop.
pub(in crate::runner) async fn record_stop(keeper: &Housekeeping) {
    if let Err(error) = keeper.journal.remember(ALIVE, "no".to_owned()).await {
        tracing::warn!(%error, "the next life will take this one for crashed");
    }
    keeper.audit.record_event(Event::Stopped, Who::Runner, "");
    keeper.audit.audit.rest().await;
}

/// How many causes these crashes have at least: those on end during which the same call ran have one.
fn causes(crashes: &[Crash]) -> usize {
    let shared = |pair: &[Crash]| pair[1].ran.iter().any(|id| pair[0].ran.contains(id));
    crashes.len() - crashes.windows(2).filter(|pair| shared(pair)).count()
}

impl Housekeeping {
    /// Trusts itself again after a quiet time.
    pub(in crate::runner) fn end_safe_mode_when_quiet(&self) {
        if !self.pause.is_safe_mode() || self.started_at.elapsed() < self.settings.crash_loop.safe_mode_for {
            return;
        }
        match self.pause.leave_safe_mode() {
            Ok(()) => tracing::info!("it has been quiet for long enough: safe mode ends"),
            Err(error) => tracing::error!(%error, "safe mode cannot be left"),
        }
        self.apply_switches();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crashes(ran: &[&[&str]]) -> usize {
        let crash = |ran: &&[&str]| Crash { at_ms: 0, ran: ran.iter().map(|id| (*id).to_owned()).collect() };
        causes(&ran.iter().map(crash).collect::<Vec<_>>())
    }

    #[test]
    fn one_poisonous_request_is_one_cause_and_many_are_many() {
        assert_eq!(crashes(&[]), 0);
        assert_eq!(crashes(&[&[], &[], &[]]), 3, "nothing ran: it is the runner");
        assert_eq!(crashes(&[&["a"], &["a"], &["a"]]), 1);
        assert_eq!(crashes(&[&["a", "b"], &["b"], &["b", "c"]]), 1);
        assert_eq!(crashes(&[&["a"], &["a"], &["b"], &["b"], &["c"]]), 3, "too many poisons are none");
        assert_eq!(crashes(&[&["a"], &[], &["a"]]), 3);
    }
}
