//! Calls that an observer follows, may be asked about and may end: a person at a connected editor. Calls go on
//! regardless of the observer.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::call_runner::CallRunner;
use super::running_call::RunningCall;
use crate::journal::{AcceptedRequest, RequestOrigin};
use punie_text::redact::Redactor;
use punie_tool::request::{CleanReply, OutcomeKind, ToolEffect};
use punie_tool::{
    CallEnding, CallProgress, CallView, ObservedCall, ProgressReader, UnreadProgress,
};

/// The longest wait for the last output to be shown.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

impl CallRunner {
    /// Reports a call to the observer of its conversation, if there is one.
    pub fn show_to_observer(&self, call: &AcceptedRequest) -> Option<Arc<dyn ObservedCall>> {
        let request = call.tool_request();
        if !self.observer.may_follow(&request.conversation) {
            return None;
        }
        let registry = &self.handles.registry;
        let entry = registry.find(request.tool.as_str()).ok()?;
        let (masked, _) = self.handles.sealer.redactor.mask(&request.args);
        // Under their own names, so that no other spelling of a key is mistaken for something else.
        let canonical = entry.tool_spec().canonical_args(&masked);
        let args = canonical
            .or_else(|| serde_json::from_str(&masked).ok())
            .unwrap_or_default();
        self.observer.observe_call(CallView {
            request: &request.id,
            conversation: &request.conversation,
            tool: entry.tool_spec(),
            effect: call.tool_effect(),
            of_task: call.origin() == RequestOrigin::Task,
            args: &args,
            description: &registry.describe_call(request.tool.as_str(), &args),
        })
    }

    /// Returns the progress handle of a call that also shows its output to the observer.
    pub fn stream_to_observer(
        self: &Arc<Self>,
        call: &RunningCall,
        progress: CallProgress,
    ) -> (CallProgress, Option<OutputFollower>) {
        let Some(observed) = call
            .observed
            .clone()
            .filter(|_| call.accepted.tool_effect() == ToolEffect::Executes)
        else {
            return (progress, None);
        };
        let (progress, audience) = progress.with_follower();
        let over = CancellationToken::new();
        let showing = show_output(
            self.handles.sealer.redactor.clone(),
            observed,
            audience,
            over.clone(),
        );
        let task = self.handles.background.spawn(showing);
        (progress, Some(OutputFollower { over, task }))
    }
}

/// The task that shows output to the observer.
pub(in crate::runner) struct OutputFollower {
    over: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl OutputFollower {
    /// Shows the last output at the end of the call.
    pub async fn finish(mut self) {
        self.over.cancel();
        let _ = tokio::time::timeout(LAST_OUTPUT_TIMEOUT, &mut self.task).await;
    }
}

impl Drop for OutputFollower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn show_output(
    redactor: Redactor,
    observed: Arc<dyn ObservedCall>,
    mut audience: ProgressReader,
    over: CancellationToken,
) {
    // Masks again, because removed escape sequences may have split a secret.
    let mut masker = redactor.stream_masker();
    let mut pass_on = |untold: UnreadProgress, is_last: bool| {
        let mut clean = Vec::with_capacity(untold.text.len());
        masker.push(untold.text.as_bytes(), &mut clean);
        if is_last {
            masker.finish(&mut clean);
        }
        if !clean.is_empty() {
            observed.on_output(&String::from_utf8_lossy(&clean), untold.omitted_bytes);
        }
    };
    loop {
        tokio::select! {
            biased;
            untold = audience.next() => pass_on(untold, false),
            () = over.cancelled() => break,
        }
    }
    pass_on(audience.take_rest(), true);
}

impl RunningCall {
    /// Completes when the observer wants the call to stop.
    pub async fn wait_for_observer_stop(&self) {
        match &self.observed {
            Some(observed) => observed.wait_for_stop().await,
            None => std::future::pending().await,
        }
    }

    /// Tells the observer the result of the call.
    pub fn notify_ended(observed: Option<&dyn ObservedCall>, reply: &CleanReply) {
        if let Some(observed) = observed {
            observed.on_ended(CallEnding {
                ok: reply.outcome_kind() == OutcomeKind::Ok,
                payload: reply.payload_json(),
            });
        }
    }
}
