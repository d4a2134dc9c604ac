//! Before-images: copies of files from before a call changes them, so that the change can be undone.
//! Not here: their storage and the undo (`trash`).

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{CallIntent, DeclaredAccess};
use crate::request::{ReplyBody, ToolReply};
use punie_core::ids::RequestId;

/// A snapshot that is older when its call begins is taken again: the claim may have waited for the backend.
const SNAPSHOT_AGE: Duration = Duration::from_secs(2);

/// Completes once the before-images are on disk, safe from a power failure; returns remarks on those that could not be
/// stored.
pub type SaveFuture<'a> = Pin<Box<dyn Future<Output = Vec<String>> + Send + 'a>>;

/// Completes once a snapshot is taken; returns whether there is one, or why one that is wanted could not be taken.
pub type SnapshotFuture<'a> = Pin<Box<dyn Future<Output = Result<bool, String>> + Send + 'a>>;

/// Stores before-images for calls.
pub trait BeforeImages: fmt::Debug + Send + Sync + 'static {
    /// Returns the store for calls that are narrowed to these folders; `None` if this one serves them.
    fn narrowed_to(&self, _folders: &[PathBuf]) -> Option<Arc<dyn BeforeImages>> {
        None
    }

    /// Takes a snapshot of the workspaces before a call that may change anything there. A call that is known to change
    /// nothing has none.
    fn begin_snapshot<'a>(
        &'a self,
        _request: &'a RequestId,
        _tool: &'a str,
        _access: &'a DeclaredAccess,
    ) -> SnapshotFuture<'a> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Takes the snapshot after the call, and records the differences.
    fn end_snapshot<'a>(&'a self, _request: &'a RequestId) -> SnapshotFuture<'a> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Takes what the answer of a call with a snapshot says about workspaces that have none. It is said once.
    fn take_remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// Forgets the snapshot of a call that did not begin.
    fn abandon_snapshot(&self, _request: &RequestId) {}

    /// Stores before-images for these effects. It never stops a call: the answer mentions images that could not be
    /// stored.
    fn save_before_images<'a>(
        &'a self,
        request: &'a RequestId,
        tool: &'a str,
        intents: &'a [CallIntent],
    ) -> SaveFuture<'a>;
}

/// The snapshot from before a call. It is forgotten when it is dropped before it is ended.
#[derive(Debug)]
pub struct CallSnapshot {
    images: Arc<dyn BeforeImages>,
    request: RequestId,
    is_begun: bool,
    taken_at: Instant,
}

impl CallSnapshot {
    /// Ends the change that began with this snapshot.
    ///
    /// # Errors
    /// The reason why it could not be recorded.
    pub async fn end_change(self) -> Result<bool, String> {
        self.images.end_snapshot(&self.request).await
    }
}

impl Drop for CallSnapshot {
    fn drop(&mut self) {
        if !self.is_begun {
            self.images.abandon_snapshot(&self.request);
        }
    }
}

/// The before-images of one call, with remarks for its answer.
#[derive(Debug, Clone)]
pub struct CallBeforeImages {
    images: Arc<dyn BeforeImages>,
    tool: String,
    remarks: Arc<Mutex<Vec<String>>>,
    snapshot: Arc<Mutex<Option<CallSnapshot>>>,
    has_snapshot: Arc<AtomicBool>,
}

impl CallBeforeImages {
    pub(super) fn for_call(images: Arc<dyn BeforeImages>, tool: &str) -> Self {
        Self {
            images,
            tool: tool.to_owned(),
            remarks: Arc::default(),
            snapshot: Arc::default(),
            has_snapshot: Arc::default(),
        }
    }

    pub(super) fn narrowed_to(self, folders: &[PathBuf]) -> Self {
        Self {
            images: self.images.narrowed_to(folders).unwrap_or(self.images),
            ..self
        }
    }

    /// Takes the snapshot from before the call, unless there is one from just now.
    pub(super) async fn take_snapshot(&self, request: &RequestId, access: &DeclaredAccess) {
        let is_new = |taken: &CallSnapshot| taken.taken_at.elapsed() < SNAPSHOT_AGE;
        let is_taken = self.snapshot.lock().as_ref().is_some_and(is_new);
        if is_taken {
            return;
        }
        drop(self.snapshot.lock().take());
        let taken_at = Instant::now();
        let images = Arc::clone(&self.images);
        match images.begin_snapshot(request, &self.tool, access).await {
            Ok(false) => {}
            Ok(true) => {
                self.has_snapshot.store(true, Ordering::Relaxed);
                *self.snapshot.lock() = Some(CallSnapshot {
                    images,
                    request: request.clone(),
                    is_begun: false,
                    taken_at,
                });
            }
            Err(cause) => self.add_remark_on_snapshot(&cause),
        }
    }

    fn add_remark_on_snapshot(&self, cause: &str) {
        let remark = format!("What this command changes cannot be undone: no snapshot ({cause}).");
        let mut remarks = self.remarks.lock();
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }

    /// From now on the snapshot is forgotten no more: a call that is cut off may have changed something.
    pub(super) fn mark_begun(&self) {
        if let Some(taken) = self.snapshot.lock().as_mut() {
            taken.is_begun = true;
        }
    }

    /// Hands the snapshot to a caller that ends it later, for a command that runs on after its call.
    pub(super) fn hand_over_snapshot(&self) -> Option<CallSnapshot> {
        self.snapshot.lock().take()
    }

    /// Ends the change of a call, unless a command runs on.
    pub(super) async fn end_snapshot(&self) {
        let taken = self.hand_over_snapshot();
        if let Some(taken) = taken
            && let Err(cause) = taken.end_change().await
        {
            self.add_remark_on_snapshot(&cause);
        }
    }

    pub(super) async fn save_for_call(&self, request: &RequestId, intents: &[CallIntent]) {
        let remarks = self
            .images
            .save_before_images(request, &self.tool, intents)
            .await;
        self.remarks.lock().extend(remarks);
    }

    /// Adds the remarks to the answer.
    pub(super) fn append_remarks(&self, mut reply: ToolReply) -> ToolReply {
        let mut remarks = self.remarks.lock();
        if self.has_snapshot.load(Ordering::Relaxed) {
            remarks.extend(self.images.take_remarks());
        }
        for remark in remarks.drain(..) {
            if let ReplyBody::Text(text) | ReplyBody::Fitted(text) = &mut reply.body {
                text.push('\n');
                text.push_str(&remark);
            }
            reply.meta.warnings.push(remark);
        }
        drop(remarks);
        reply
    }
}
