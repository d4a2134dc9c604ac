//! The detection of crash loops. Several processes that end without a stop within a few minutes lead to safe mode. In
//! safe mode the runner accepts, delivers and reports, and starts no call until it has been quiet for a while or the
//! owner resumes.
//!
//! One request that crashes every process is no reason for safe mode: recovery gives up that request after some
//! attempts. So crashes during which the same call ran count as one.

use serde::{Deserialize, Serialize};

use super::Housekeeping;
use crate::audit::{AuditActor, AuditEvent};
use crate::journal::Journal;
use crate::runner::call_audit::CallAudit;
use crate::runner::error::RunnerError;
use punie_home::SwitchState;

/// The journal key of a running process: set at its start, cleared when its stop begins.
const ALIVE_KEY: &str = "alive";
/// The journal key of the recent crashes.
const CRASHES_KEY: &str = "crashes";

/// A process that ended without a stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct CrashRecord {
    /// The time at which the next process noticed it, in milliseconds since 1970.
    at_ms: i64,
    /// The requests that ran then.
    ran: Vec<String>,
}

/// Records the start of this process, and enters safe mode after too many crashes. To be called before recovery
/// changes the running requests.
pub async fn record_process_start(keeper: &Housekeeping) -> Result<(), RunnerError> {
    let handles = &keeper.handles;
    let audit = &keeper.handles.audit;
    let journal = &handles.journal;
    let settings = &handles.settings.crash_loop;
    let version = env!("CARGO_PKG_VERSION");
    audit.event(AuditEvent::Started, AuditActor::Runner, version);
    let reader = journal.open_reader()?;
    let now_ms = handles.clock.now_ms();
    let mut crashes: Vec<CrashRecord> = reader
        .read_fact(CRASHES_KEY)?
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    if reader.read_fact(ALIVE_KEY)?.as_deref() == Some("yes") {
        let ran = reader
            .started_requests()?
            .iter()
            .map(ToString::to_string)
            .collect();
        crashes.push(CrashRecord { at_ms: now_ms, ran });
        tracing::warn!(
            recent = crashes.len(),
            "the last life of the runner ended without a stop"
        );
    }
    let window = i64::try_from(settings.crash_window.as_millis()).unwrap_or(i64::MAX);
    // A crash dated far in the past or in the future is not recent, even if the clock was changed.
    crashes.retain(|crash| (now_ms - crash.at_ms).abs() <= window);
    let limit = settings.crash_limit;
    if limit > 0 && count_causes(&crashes) >= limit {
        let reason = format!(
            "{} crashes within {} min",
            crashes.len(),
            window.max(60_000) / 60_000
        );
        tracing::error!(
            reason,
            "safe mode: requests are accepted and nothing is begun"
        );
        match handles.pause.enter_safe_mode(&SwitchState {
            since_ms: now_ms,
            reason: Some(reason),
        }) {
            // Cleared, so that the next crash does not count these again.
            Ok(()) => crashes.clear(),
            Err(error) => tracing::error!(%error, "safe mode could not be entered"),
        }
    }
    if handles.pause.is_active() {
        keeper.record_pause();
    }
    let crashes = serde_json::to_string(&crashes).expect("numbers and texts are JSON");
    journal.store_fact(CRASHES_KEY, crashes).await?;
    journal.store_fact(ALIVE_KEY, "yes".to_owned()).await?;
    Ok(())
}

/// Records that this process ends by a stop. From now on it does not count as a crash, also where an overloaded machine
/// cuts the stop short.
pub async fn record_stop_begun(journal: &Journal) {
    if let Err(error) = journal.store_fact(ALIVE_KEY, "no".to_owned()).await {
        tracing::warn!(%error, "the next life will take this one for crashed");
    }
}

/// Records the end of a stop in the audit.
pub async fn record_stop_end(audit: &CallAudit) {
    audit.record_later_traffic();
    audit.event(AuditEvent::Stopped, AuditActor::Runner, "");
    audit.log.flush_durably().await;
}

/// Counts the least number of causes of these crashes: successive crashes during which the same call ran have one.
fn count_causes(crashes: &[CrashRecord]) -> usize {
    let shared = |pair: &[CrashRecord]| pair[1].ran.iter().any(|id| pair[0].ran.contains(id));
    crashes.len() - crashes.windows(2).filter(|pair| shared(pair)).count()
}

impl Housekeeping {
    /// Ends safe mode after a quiet time.
    pub fn end_safe_mode_when_quiet(&self) {
        let handles = &self.handles;
        let quiet_for = handles.settings.crash_loop.safe_mode_for;
        if !handles.pause.is_safe_mode() || self.started_at.elapsed() < quiet_for {
            return;
        }
        match handles.pause.leave_safe_mode() {
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
        let crash = |ran: &&[&str]| CrashRecord {
            at_ms: 0,
            ran: ran.iter().map(|id| (*id).to_owned()).collect(),
        };
        count_causes(&ran.iter().map(crash).collect::<Vec<_>>())
    }

    #[test]
    fn one_poisonous_request_is_one_cause_and_many_are_many() {
        assert_eq!(crashes(&[]), 0);
        assert_eq!(
            crashes(&[&[], &[], &[]]),
            3,
            "nothing ran: it is the runner"
        );
        assert_eq!(crashes(&[&["a"], &["a"], &["a"]]), 1);
        assert_eq!(crashes(&[&["a", "b"], &["b"], &["b", "c"]]), 1);
        assert_eq!(
            crashes(&[&["a"], &["a"], &["b"], &["b"], &["c"]]),
            3,
            "too many poisons are none"
        );
        assert_eq!(crashes(&[&["a"], &[], &["a"]]), 3);
    }
}
