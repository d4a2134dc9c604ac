//! The output of running commands, reported to a caller while it listens. Output may be lost: one piece is sent at a
//! time, at most one a second, less often for long calls, and never twice. Not here: the result, which does not wait
//! for this.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::claims::Claims;
use crate::backend::{Backend as _, Disposition};
use crate::journal::{Accepted, Origin};
use crate::redact::Redactor;
use crate::request::Effect;
use crate::runner::background::Background;
use crate::runner::wake::Wake;
use crate::tool::{Audience, Progress, Untold};

/// The most bytes of one piece that the backend accepts.
const PIECE_BYTES: usize = 64 * 1024;
/// The divisor of the running time that gives the pause between pieces: a build of ten minutes costs a metered
/// backend a hundred calls, not six hundred.
const SHARE: u32 = 30;

/// Reports the output of running commands to callers.
pub(in crate::runner) struct ProgressReports {
    pub claims: Arc<Claims>,
    pub redactor: Redactor,
    pub background: Background,
}

impl ProgressReports {
    /// Returns the progress handle of a call, and the task that reports its output until it is dropped. Only commands
    /// report progress; a Task's reply is read on this device.
    pub(in crate::runner) fn begin(
        self: &Arc<Self>,
        call: &Accepted,
    ) -> (Progress, Option<AbortOnDropHandle<()>>) {
        let wanted = !self.claims.settings.calls.progress.is_zero()
            && call.origin() == Origin::Backend
            && call.effect() == Effect::Executes;
        let Some(watched) = wanted.then(|| self.claims.held.watched(&call.request().id)).flatten() else {
            return (Progress::default(), None);
        };
        let (progress, audience) = Progress::watched();
        let telling = pass_on(Arc::clone(self), call.clone(), audience, watched);
        (progress, Some(AbortOnDropHandle::new(self.background.spawn(telling))))
    }
}

/// Reports output while a caller listens. At least the end of earlier output is buffered meanwhile.
async fn pass_on(
    reports: Arc<ProgressReports>,
    call: Accepted,
    mut audience: Audience,
    mut watched: watch::Receiver<bool>,
) {
    let (begun, id) = (Instant::now(), &call.request().id);
    // Masks again, because removed escape sequences may have split a secret.
    let mut masker = reports.redactor.stream();
    let mut n = 0;
    // The claim ends with the call.
    while watched.wait_for(|watched| *watched).await.is_ok() {
        let mut untold = tokio::select! {
            biased;
            () = async { let _ = watched.wait_for(|watched| !watched).await; } => continue,
            untold = audience.next() => untold,
        };
        let mut clean = Vec::with_capacity(untold.text.len());
        masker.push(untold.text.as_bytes(), &mut clean);
        untold.text = String::from_utf8_lossy(&clean).into_owned();
        if untold.text.is_empty() {
            continue;
        }
        match reports.claims.backend.tell(id, call.lease(), n, &piece(untold)).await {
            Ok(told) => {
                reports.claims.held.set_watched(id, told.watched);
                if told.cancelled {
                    reports.claims.waker.wake(Wake::CancelSeen(id.clone()));
                }
            }
            Err(error) if error.disposition() == Disposition::Never => return,
            Err(error) => tracing::debug!(request.id = %id, %error, "a piece of progress is not told"),
        }
        n += 1;
        tokio::time::sleep(pause(reports.claims.settings.calls.progress, begun.elapsed())).await;
    }
}

/// Returns the wait before the next piece of a call that has run for this long.
fn pause(least: Duration, running: Duration) -> Duration {
    least.max(running / SHARE)
}

/// Returns `{"text": ..., "omittedBytes"?: ...}` with the end of the text that fits.
fn piece(mut untold: Untold) -> String {
    loop {
        let mut piece = json!({ "text": untold.text });
        if untold.omitted_bytes > 0 {
            piece["omittedBytes"] = json!(untold.omitted_bytes);
        }
        let data = piece.to_string();
        let Some(over) = data.len().checked_sub(PIECE_BYTES).filter(|over| *over > 0) else { return data };
        // A character of one byte here takes at most six bytes there, so this loop ends soon.
        untold.keep_last(untold.text.len().saturating_sub(over.div_ceil(6).max(32)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_fits_whatever_its_text_needs_on_the_wire() {
        for text in
            ["x".repeat(PIECE_BYTES), "\u{1}".repeat(PIECE_BYTES), "\u{1F600}".repeat(PIECE_BYTES / 4)]
        {
            let whole = text.len() as u64;
            let data = piece(Untold { text, omitted_bytes: 7 });
            assert!(data.len() <= PIECE_BYTES, "{} bytes", data.len());
            assert!(data.len() > PIECE_BYTES - 1_000, "{} bytes waste room", data.len());
            let told: serde_json::Value = serde_json::from_str(&data).expect("JSON");
            let left = told["text"].as_str().expect("text").len() as u64;
            assert_eq!(told["omittedBytes"], whole - left + 7);
        }
        assert_eq!(piece(Untold { text: "all".into(), omitted_bytes: 0 }), r#"{"text":"all"}"#);
    }

    #[test]
    fn a_long_call_is_told_of_more_seldom() {
        let second = Duration::from_secs(1);
        assert_eq!(pause(second, second), second);
        assert_eq!(pause(second, 600 * second), 20 * second);
    }
}
