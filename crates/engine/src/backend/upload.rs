//! The body of a call to the backend, and the time limit for its answer. The limit is not fixed: a large result needs
//! minutes on a slow line, so the call waits as long as bytes are moving.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// The bytes passed to the connection at a time. Small, so that progress on a slow line is noticed.
const UPLOAD_CHUNK_BYTES: usize = 8 << 10;

/// A smaller body is passed on in one piece and does not count as load.
const SMALL_BODY_BYTES: usize = 16 << 10;

/// The lowest upload rate that the runner waits for, in bytes per second. All large bodies in flight share it.
const MIN_BYTES_PER_SECOND: u64 = 4 << 10;

/// The number of bytes in large bodies that are being sent to one backend.
#[derive(Debug, Clone, Default)]
pub(super) struct UploadLoad(Arc<AtomicU64>);

impl UploadLoad {
    /// Prepares a body for sending. Keep the returned guard until the call is over.
    pub(super) fn start(&self, body: Vec<u8>) -> (reqwest::Body, UploadProgress) {
        let total = body.len();
        let last_progress = Arc::new(Mutex::new(Instant::now()));
        let load = if total < SMALL_BODY_BYTES {
            0
        } else {
            total as u64
        };
        self.0.fetch_add(load, Ordering::Relaxed);
        let upload = UploadProgress {
            uplink: self.clone(),
            total,
            load,
            last_progress: Arc::clone(&last_progress),
        };
        let body = match load {
            0 => body.into(),
            _ => reqwest::Body::wrap(ChunkedBody {
                rest: body.into(),
                last_progress,
            }),
        };
        (body, upload)
    }
}

/// A guard for a body that is being sent. Dropping it removes the body's bytes from the load.
pub(super) struct UploadProgress {
    uplink: UploadLoad,
    total: usize,
    /// The bytes of this body that count as load.
    load: u64,
    last_progress: Arc<Mutex<Instant>>,
}

impl Drop for UploadProgress {
    fn drop(&mut self) {
        self.uplink.0.fetch_sub(self.load, Ordering::Relaxed);
    }
}

impl UploadProgress {
    /// Returns the size of the body in bytes.
    pub(super) fn total_bytes(&self) -> usize {
        self.total
    }

    /// Waits until the call has made no progress for too long, and returns that time. Sent bytes may still wait in the
    /// system's buffers, beside the bodies of other calls. So `patience` starts after the time that a slow line needs.
    pub(super) async fn wait_for_stall(&self, patience: Duration) -> Duration {
        loop {
            let last_progress = *self.last_progress.lock();
            let limit = patience + self.worst_case_send_time();
            if last_progress.elapsed() >= limit {
                return limit;
            }
            sleep_until(last_progress + limit).await;
        }
    }

    /// Returns the time that the slowest line needs for everything in flight; zero for small calls, which do not wait
    /// for large ones.
    fn worst_case_send_time(&self) -> Duration {
        if self.load == 0 {
            return Duration::ZERO;
        }
        Duration::from_millis(self.uplink.0.load(Ordering::Relaxed) * 1_000 / MIN_BYTES_PER_SECOND)
    }
}

/// A body that is sent in pieces and records the time of each.
struct ChunkedBody {
    rest: Bytes,
    last_progress: Arc<Mutex<Instant>>,
}

impl Body for ChunkedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        *self.last_progress.lock() = Instant::now();
        let size = UPLOAD_CHUNK_BYTES.min(self.rest.len());
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
