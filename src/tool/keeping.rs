//! Before-images: what files were before a call changes them, kept so that the change can be taken back. Not here:
//! where they are kept and how they come back (trash).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use super::Intent;
use crate::ids::RequestId;
use crate::request::{Body, Reply};

/// Done once what was there is kept, durable against a power cut; with what could not be kept, in words.
pub type Kept<'a> = Pin<Box<dyn Future<Output = Vec<String>> + Send + 'a>>;

/// Keeps what calls are about to change.
pub trait BeforeImages: fmt::Debug + Send + Sync + 'static {
    /// Keeps what these effects will change. It never stops a call: what cannot be kept is said in the answer.
    fn keep<'a>(&'a self, request: &'a RequestId, tool: &'a str, intents: &'a [Intent]) -> Kept<'a>;
}

/// Keeping for one call, with what is to be said of it.
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

    /// The answer, with what could not be kept.
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
