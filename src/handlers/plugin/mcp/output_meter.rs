//! Counts what a server prints, and records why it can no longer be used.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use punie_text::output::hidden_characters::escape_to_one_line;
use punie_text::output::number_format::format_count;

/// The most bytes of one message.
pub(super) const MAX_MESSAGE_BYTES: u64 = 8 << 20;
/// The most bytes of messages since the last call began.
const MAX_OUTPUT_BYTES: u64 = 32 << 20;
/// The most messages since the last call began.
const MAX_MESSAGES: u64 = 10_000;
/// The most bytes on standard error since the last call began.
const MAX_ERROR_BYTES: u64 = 16 << 20;
/// The bytes at the end of standard error that are shown.
const SHOWN_ERROR_BYTES: usize = 600;

/// What a server has printed.
#[derive(Debug, Default)]
pub(super) struct OutputMeter {
    output: AtomicU64,
    messages: AtomicU64,
    errors: AtomicU64,
    last_errors: Mutex<Vec<u8>>,
    /// The number of skipped lines, and the first.
    skipped: Mutex<(u64, String)>,
    fault: Mutex<Option<String>>,
    /// Cancelled with the first fault.
    broken: CancellationToken,
    /// Cancelled at the end of standard error.
    errors_ended: CancellationToken,
}

impl OutputMeter {
    /// Starts counting anew, for the next call.
    pub fn reset_counts(&self) {
        self.output.store(0, Ordering::Relaxed);
        self.messages.store(0, Ordering::Relaxed);
        self.errors.store(0, Ordering::Relaxed);
        self.last_errors.lock().clear();
    }

    /// Counts a message. Returns false if it is too much.
    pub fn count_message(&self, bytes: usize) -> bool {
        if self.messages.fetch_add(1, Ordering::Relaxed) >= MAX_MESSAGES {
            self.record_fault(format!("it sent more than {MAX_MESSAGES} messages"));
            return false;
        }
        self.count(&self.output, bytes, MAX_OUTPUT_BYTES, "messages")
    }

    /// Counts bytes on standard error, and keeps the last ones. Returns false if it is too much.
    pub fn count_errors(&self, bytes: &[u8]) -> bool {
        let mut last = self.last_errors.lock();
        last.extend_from_slice(bytes);
        let more = last.len().saturating_sub(SHOWN_ERROR_BYTES);
        last.drain(..more);
        drop(last);
        self.count(&self.errors, bytes.len(), MAX_ERROR_BYTES, "standard error")
    }

    fn count(&self, counter: &AtomicU64, bytes: usize, most: u64, kind: &str) -> bool {
        let before = counter.fetch_add(bytes as u64, Ordering::Relaxed);
        let fits = before + bytes as u64 <= most;
        if !fits {
            let most = most >> 20;
            self.record_fault(format!("it sent more than {most} MiB of {kind}"));
        }
        fits
    }

    /// Records a line that was skipped.
    pub fn record_skipped(&self, line: String) {
        let mut skipped = self.skipped.lock();
        if skipped.0 == 0 {
            skipped.1 = line;
        }
        skipped.0 += 1;
    }

    /// Describes the lines that were skipped since this was last asked; `None` if there were none.
    pub fn take_skipped(&self) -> Option<String> {
        let (lines, first) = std::mem::take(&mut *self.skipped.lock());
        (lines > 0).then(|| {
            let lines = format_count(lines, "line");
            format!(
                "{lines} of its output skipped, as no message of the protocol; the first: {first}"
            )
        })
    }

    /// Records why the server can no longer be used. The first reason stays.
    pub fn record_fault(&self, reason: String) {
        self.fault.lock().get_or_insert(reason);
        self.broken.cancel();
    }

    /// Returns why it can no longer be used.
    pub fn fault(&self) -> Option<String> {
        self.fault.lock().clone()
    }

    /// Completes once it can no longer be used.
    pub async fn wait_for_fault(&self) {
        self.broken.cancelled().await;
    }

    /// Records that standard error was read to its end.
    pub fn end_errors(&self) {
        self.errors_ended.cancel();
    }

    /// Completes once standard error was read to its end.
    pub async fn wait_for_errors_end(&self) {
        self.errors_ended.cancelled().await;
    }

    /// Returns the end of its standard error as one line; `None` if there was nothing.
    pub fn last_words(&self) -> Option<String> {
        let last = self.last_errors.lock();
        let text = String::from_utf8_lossy(&last);
        let text = text.trim();
        (!text.is_empty()).then(|| escape_to_one_line(text))
    }
}
