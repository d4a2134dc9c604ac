//! Before-images: copies of files from before a call changes them, so that the change can be undone.
//! Not here: their storage and the undo (`trash`).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;

use super::CallIntent;
use crate::ids::RequestId;
use crate::request::{ReplyBody, ToolReply};

/// Completes once the before-images are on disk, safe from a power failure; returns remarks on those that could not be
/// stored.
pub type SaveFuture<'a> = Pin<Box<dyn Future<Output = Vec<String>> + Send + 'a>>;

/// Stores before-images for calls.
pub trait BeforeImages: fmt::Debug + Send + Sync + 'static {
    /// Stores before-images for these effects. It never stops a call: the answer mentions images that could not be
    /// stored.
    fn save_before_images<'a>(
        &'a self,
        request: &'a RequestId,
        tool: &'a str,
        intents: &'a [CallIntent],
    ) -> SaveFuture<'a>;
}

/// The before-images of one call, with remarks for its answer.
#[derive(Debug, Clone)]
pub struct CallBeforeImages {
    images: Arc<dyn BeforeImages>,
    tool: String,
    remarks: Arc<Mutex<Vec<String>>>,
}

impl CallBeforeImages {
    pub(super) fn for_call(images: Arc<dyn BeforeImages>, tool: &str) -> Self {
        Self {
            images,
            tool: tool.to_owned(),
            remarks: Arc::default(),
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
        for remark in self.remarks.lock().drain(..) {
            if let ReplyBody::Text(text) | ReplyBody::Fitted(text) = &mut reply.body {
                text.push('\n');
                text.push_str(&remark);
            }
            reply.meta.warnings.push(remark);
        }
        reply
    }
}
