//! The body of a call on its way to the backend, and how long the call waits for an answer: as long as the line carries
//! something, and not a fixed time, since a large result needs minutes on a slow line. Not here: the call itself (http).

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, sleep_until};

/// The bytes that are handed to the connection at a time: few, so that progress on a slow line is noticed.
const PIECE: usize = 8 << 10;

/// A body of fewer bytes is handed over whole, and does not count as a load for the line.
const SMALL: usize = 16 << 10;

/// The slowest line that is waited for, in bytes a second. All large bodies that are sent at once share it.
const MIN_RATE: u64 = 4 << 10;

/// The large bodies that are being sent to one backend.
#[derive(Debug, Clone, Default)]
pub(super) struct Uplink(Arc<AtomicU64>);

impl Uplink {
    /// Prepares a body for sending. The upload must be kept until the call is over.
    pub(super) fn begin(&self, body: Vec<u8>) -> (reqwest::Body, Upload) {
        let total = body.len();
        let last_progress = Arc::new(Mutex::new(Instant::now()));
        let load = if total < SMALL { 0 } else { total as u64 };
        self.0.fetch_add(load, Ordering::Relaxed);
        let upload = Upload { uplink: self.clone(), total, load, last_progress: Arc::clone(&last_progress) };
        let body = match load {
            0 => body.into(),
            _ => reqwest::Body::wrap(Pieces { rest: body.into(), last_progress }),
        };
        (body, upload)
    }
}

/// A body that is being sent.
pub(super) struct Upload {
    uplink: Uplink,
    total: usize,
    /// What of it counts as a load for the line.
    load: u64,
    last_progress: Arc<Mutex<Instant>>,
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.uplink.0.fetch_sub(self.load, Ordering::Relaxed);
    }
}

impl Upload {
    /// The size of the body.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Waits until the call has made no progress for too long; how long that was. What was handed over may still sit in
    /// the system's buffers, beside the bodies of other calls, so that `patience` begins when a slow line is done.
    pub(super) async fn stalled(&self, patience: Duration) -> Duration {
        loop {
            let last_progress = *self.last_progress.lock().unwrap_or_else(PoisonError::into_inner);
            let limit = patience + self.sending_time();
            if last_progress.elapsed() >= limit {
                return limit;
            }
            sleep_until(last_progress + limit).await;
        }
    }

    /// The time that the slowest line needs for everything that is being sent. Small calls do not wait for large ones.
    fn sending_time(&self) -> Duration {
        if self.load == 0 {
            return Duration::ZERO;
        }
        Duration::from_millis(self.uplink.0.load(Ordering::Relaxed) * 1_000 / MIN_RATE)
    }
}

/// A body in pieces, which notes when each is handed over.
struct Pieces {
    rest: Bytes,
    last_progress: Arc<Mutex<Instant>>,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        *self.last_progress.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let size = PIECE.min(self.rest.len());
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
