//! The output of running commands, reported to a caller while it listens. Output may be lost: one piece is sent at a
//! time, at most one a second, less often for long calls, and never twice.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::claims::ClaimService;
use crate::backend::{Backend as _, RecoveryAction};
use crate::journal::{AcceptedRequest, RequestOrigin};
use crate::runner::wake_event::WakeEvent;
use punie_tool::request::ToolEffect;
use punie_tool::{CallProgress, ProgressReader, UnreadProgress};

/// The most bytes of one piece that the backend accepts.
const MAX_PIECE_BYTES: usize = 64 * 1024;
/// The divisor of the running time that gives the pause between pieces: a build of ten minutes costs a metered
/// backend a hundred calls, not six hundred.
const RUNNING_TIME_DIVISOR: u32 = 30;

impl ClaimService {
    /// Returns the progress handle of a call, and the task that reports its output until it is dropped. Only commands
    /// report progress; a Task's reply is read on this device.
    pub fn begin_reporting(
        self: &Arc<Self>,
        call: &AcceptedRequest,
    ) -> (CallProgress, Option<AbortOnDropHandle<()>>) {
        let wanted = !self.handles.settings.calls.current().progress.is_zero()
            && call.origin() == RequestOrigin::Backend
            && call.tool_effect() == ToolEffect::Executes;
        let Some(watched) = wanted
            .then(|| self.held.subscribe_watched(&call.tool_request().id))
            .flatten()
        else {
            return (CallProgress::default(), None);
        };
        let (progress, audience) = CallProgress::with_caller();
        let telling = report_output(Arc::clone(self), call.clone(), audience, watched);
        let task = AbortOnDropHandle::new(self.handles.background.spawn(telling));
        (progress, Some(task))
    }
}

/// Reports output while a caller listens. At least the end of earlier output is buffered meanwhile.
async fn report_output(
    claims: Arc<ClaimService>,
    call: AcceptedRequest,
    mut audience: ProgressReader,
    mut watched: watch::Receiver<bool>,
) {
    let handles = &claims.handles;
    let begun = Instant::now();
    let id = &call.tool_request().id;
    // Masks again, because removed escape sequences may have split a secret.
    let mut masker = handles.sealer.redactor.stream_masker();
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
        let piece = format_piece(untold);
        let sent = handles
            .backend
            .send_progress(id, call.lease_id(), n, &piece);
        match sent.await {
            Ok(told) => {
                claims.held.set_watched(id, told.watched);
                if told.cancelled {
                    handles.waker.wake(WakeEvent::CancelSeen(id.clone()));
                }
            }
            Err(error) if error.recovery_action() == RecoveryAction::GiveUp => return,
            Err(error) => {
                tracing::debug!(request.id = %id, %error, "a piece of progress is not told");
            }
        }
        n += 1;
        let least = handles.settings.calls.current().progress;
        tokio::time::sleep(report_interval(least, begun.elapsed())).await;
    }
}

/// Returns the wait before the next piece of a call that has run for this long.
fn report_interval(least: Duration, running: Duration) -> Duration {
    least.max(running / RUNNING_TIME_DIVISOR)
}

/// Returns `{"text": ..., "omittedBytes"?: ...}` with the end of the text that fits.
fn format_piece(mut untold: UnreadProgress) -> String {
    loop {
        let mut piece = json!({ "text": untold.text });
        if untold.omitted_bytes > 0 {
            piece["omittedBytes"] = json!(untold.omitted_bytes);
        }
        let data = piece.to_string();
        let Some(over) = data
            .len()
            .checked_sub(MAX_PIECE_BYTES)
            .filter(|over| *over > 0)
        else {
            return data;
        };
        // A character of one byte here takes at most six bytes there, so this loop ends soon.
        untold.keep_last_bytes(untold.text.len().saturating_sub(over.div_ceil(6).max(32)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_fits_whatever_its_text_needs_on_the_wire() {
        for text in [
            "x".repeat(MAX_PIECE_BYTES),
            "\u{1}".repeat(MAX_PIECE_BYTES),
            "\u{1F600}".repeat(MAX_PIECE_BYTES / 4),
        ] {
            let whole = text.len() as u64;
            let data = format_piece(UnreadProgress {
                text,
                omitted_bytes: 7,
            });
            assert!(data.len() <= MAX_PIECE_BYTES, "{} bytes", data.len());
            assert!(
                data.len() > MAX_PIECE_BYTES - 1_000,
                "{} bytes waste room",
                data.len()
            );
            let told: serde_json::Value = serde_json::from_str(&data).expect("JSON");
            let left = told["text"].as_str().expect("text").len() as u64;
            assert_eq!(told["omittedBytes"], whole - left + 7);
        }
        assert_eq!(
            format_piece(UnreadProgress {
                text: "all".into(),
                omitted_bytes: 0
            }),
            r#"{"text":"all"}"#
        );
    }

    #[test]
    fn a_long_call_is_told_of_more_seldom() {
        let second = Duration::from_secs(1);
        assert_eq!(report_interval(second, second), second);
        assert_eq!(report_interval(second, 600 * second), 20 * second);
    }
}
