//! Calls that an observer follows, may be asked about and may end: a person at a connected editor. Calls go on
//! regardless of the observer. Not here: the display (the observer), and the caller's own view (`progress_report`).

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::call_runner::{Call, CallRunner, Observed};
use crate::journal::{Accepted, Origin};
use crate::redact::Redactor;
use crate::request::{CleanReply, Effect, OutcomeKind};
use crate::tool::{Audience, CallView, Ended, ObservedCall, Progress, Untold};

/// The longest wait for the last output to be shown.
const LAST: Duration = Duration::from_secs(1);

impl CallRunner {
    /// Reports a call to the observer of its conversation, if there is one.
    pub(in crate::runner) fn observe(&self, call: &Accepted) -> Observed {
        let request = call.request();
        if !self.observer.may_follow(&request.conversation) {
            return None;
        }
        let entry = self.registry.find(request.tool.as_str()).ok()?;
        let (masked, _) = self.sealer.redactor.scrub(&request.args);
        // Under their own names, so that no other spelling of a key is mistaken for something else.
        let canonical = entry.spec().canonical(&masked);
        let args = canonical.or_else(|| serde_json::from_str(&masked).ok()).unwrap_or_default();
        self.observer.observe(CallView {
            request: &request.id,
            conversation: &request.conversation,
            tool: entry.spec(),
            effect: call.effect(),
            of_task: call.origin() == Origin::Task,
            args: &args,
            description: &self.registry.describe(request.tool.as_str(), &args),
            title: &self.approvals.title(call),
        })
    }

    /// Returns the progress handle of a call that also shows its output to the observer.
    pub(in crate::runner) fn follow(
        self: &Arc<Self>,
        call: &Call,
        progress: Progress,
    ) -> (Progress, Option<Following>) {
        let Some(observed) = call.observed.clone().filter(|_| call.accepted.effect() == Effect::Executes)
        else {
            return (progress, None);
        };
        let (progress, audience) = progress.followed();
        let over = CancellationToken::new();
        let showing = show(self.sealer.redactor.clone(), observed, audience, over.clone());
        let task = self.background.spawn(showing);
        (progress, Some(Following { over, task }))
    }
}

/// The task that shows output to the observer.
pub(in crate::runner) struct Following {
    over: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Following {
    /// Shows the last output at the end of the call.
    pub(in crate::runner) async fn end(mut self) {
        self.over.cancel();
        let _ = tokio::time::timeout(LAST, &mut self.task).await;
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn show(
    redactor: Redactor,
    observed: Arc<dyn ObservedCall>,
    mut audience: Audience,
    over: CancellationToken,
) {
    // Masks again, because removed escape sequences may have split a secret.
    let mut masker = redactor.stream();
    let mut pass_on = |untold: Untold, is_last: bool| {
        let mut clean = Vec::with_capacity(untold.text.len());
        masker.push(untold.text.as_bytes(), &mut clean);
        if is_last {
            masker.finish(&mut clean);
        }
        if !clean.is_empty() {
            observed.printed(&String::from_utf8_lossy(&clean), untold.omitted_bytes);
        }
    };
    loop {
        tokio::select! {
            biased;
            untold = audience.next() => pass_on(untold, false),
            () = over.cancelled() => break,
        }
    }
    pass_on(audience.rest(), true);
}

impl Call {
    /// Completes when the observer wants the call to stop.
    pub(in crate::runner) async fn stopped_by_follower(&self) {
        match &self.observed {
            Some(observed) => observed.stopped().await,
            None => std::future::pending().await,
        }
    }

    /// Tells the observer the result of the call.
    pub(in crate::runner) fn has_ended(observed: &Observed, reply: &CleanReply) {
        if let Some(observed) = observed {
            observed.ended(Ended { ok: reply.kind() == OutcomeKind::Ok, payload: reply.payload() });
        }
    }
}
