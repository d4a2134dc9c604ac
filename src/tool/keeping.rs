//! Before-images: copies of files from before a call changes them, so that the change can be undone.
//! Not here: their storage and the undo (`trash`).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use super::Intent;
use crate::ids::RequestId;
use crate::request::{Body, Reply};

/// Completes once the before-images are on disk, safe from a power failure; returns remarks on those that could not be
/// stored.
pub type Kept<'a> = Pin<Box<dyn Future<Output = Vec<String>> + Send + 'a>>;

/// Stores before-images for calls.
pub trait BeforeImages: fmt::Debug + Send + Sync + 'static {
    /// Stores before-images for these effects. It never stops a call: the answer mentions images that could not be
    /// stored.
    fn keep<'a>(&'a self, request: &'a RequestId, tool: &'a str, intents: &'a [Intent]) -> Kept<'a>;
}

/// The before-images of one call, with remarks for its answer.
#[derive(Debug, Clone)]
pub struct Keeping {
    images: Arc<dyn BeforeImages>,
    tool: String,
    remarks: Arc<Mutex<Vec<String>>>,
}

impl Keeping {
    pub(super) fn of(images: Arc<dyn BeforeImages>, tool: &str) -> Self {
        Self { images, tool: tool.to_owned(), remarks: Arc::default() }
    }

    pub(super) async fn keep(&self, request: &RequestId, intents: &[Intent]) {
        let remarks = self.images.keep(request, &self.tool, intents).await;
        self.remarks.lock().unwrap_or_else(PoisonError::into_inner).extend(remarks);
    }

    /// Adds the remarks to the answer.
    pub(super) fn remarked(&self, mut reply: Reply) -> Reply {
        for remark in self.remarks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if let Body::Text(text) | Body::Fitted(text) = &mut reply.body {
                text.push('\n');
                text.push_str(&remark);
            }
            reply.meta.warnings.push(remark);
        }
        reply
    }
}
