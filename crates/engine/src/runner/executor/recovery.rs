//! The leftovers of an earlier process, handled before the first poll. Its child processes are killed, its reads run
//! again and its replies are posted. Its effects are answered by their state on disk (intent_recovery) or as interrupted.

use std::sync::Arc;
use std::time::Duration;

use super::call_backlog::Backlog;
use super::outcome::cancelled_before_start;
use crate::journal::{AcceptedRequest, RecoveredRequest, RulesReply, UnfinishedRequest};
use crate::runner::call_audit::AuditFacts;
use crate::runner::error::RunnerError;
use crate::runner::handles::Handles;
use crate::runner::parts::LeftoverCleanup;
use punie_core::ids::RequestId;
use punie_tool::CallLane;
use punie_tool::request::{CallFailure, CallOutcome, ErrorCode, RequestAuth, ResultMeta};

/// The journal key of the key that requests had to be signed with; empty for none.
const REQUEST_KEY: &str = "request_key";

/// The number of requests in one transaction.
const REQUESTS_PER_TRANSACTION: usize = 64;

/// Handles the leftovers of an earlier process.
pub(in crate::runner) struct Recovery {
    pub handles: Arc<Handles>,
    pub survivors: Arc<dyn LeftoverCleanup>,
}

impl Recovery {
    /// Handles the leftovers; returns the calls still to be run, which stay in the journal until there is capacity.
    pub async fn handle_leftovers(&self) -> Result<Backlog, RunnerError> {
        let handles = &self.handles;
        let journal = &handles.journal;
        let signatures = &handles.signatures;
        self.end_child_processes().await?;
        handles.sessions.identify_backend().await?;
        // Now the backend is known, and with it the requests to handle.
        let reader = journal.open_reader()?;
        // Without a key, waiting calls are left alone until their turn comes.
        let mut left = reader.started_requests_here()?;
        left.extend(if signatures.are_required() {
            reader.accepted_requests()?
        } else {
            reader.cancelled_requests()?
        });
        // The key of this process; the last one's stays stored until all leftovers are handled.
        let auth = signatures.auth.as_ref();
        let key = auth.map(RequestAuth::public_key_text);
        let key_is_new = key.is_some() && reader.read_fact(REQUEST_KEY)? != key;
        for page in left.chunks(REQUESTS_PER_TRANSACTION) {
            let fates = journal.recover_requests(page.to_vec(), handles.clock.now_ms());
            let fates = fates.await?;
            for (id, fate) in page.iter().zip(fates) {
                let declared = if fate == RecoveredRequest::Compare {
                    reader.recorded_intents(id)?
                } else {
                    Vec::new()
                };
                // One at a time: arguments may be long.
                if let Some(left) = reader.unfinished_request(id)? {
                    self.handle_leftover(left, fate, declared, key_is_new)
                        .await?;
                }
            }
        }
        let key = key.unwrap_or_default();
        journal.store_fact(REQUEST_KEY, key).await?;
        let entries = handles.registry.callable_entries();
        let control: Vec<&str> = entries
            .iter()
            .filter(|entry| entry.tool_spec().lane == CallLane::Control)
            .map(|entry| &*entry.tool_spec().name)
            .collect();
        Ok(Backlog::from_leftovers(
            reader.waiting_conversations()?,
            reader.accepted_unordered_requests(&control)?,
        ))
    }

    /// Ends the processes that calls of an earlier process left running.
    async fn end_child_processes(&self) -> Result<(), RunnerError> {
        // All at once, because killing a process tree may wait for its end.
        let mut ending = tokio::task::JoinSet::new();
        let reader = self.handles.journal.open_reader()?;
        let recorded = reader.child_processes()?;
        let shells = reader.list_shell_rows()?;
        let has_record = |request: &RequestId| {
            let of_shell = shells.iter().filter_map(|row| row.trace.as_ref());
            recorded.iter().any(|(known, _)| known == request)
                || of_shell
                    .into_iter()
                    .any(|trace| trace.request == request.as_str())
        };
        for request in reader.started_requests()? {
            if !has_record(&request) {
                let survivors = Arc::clone(&self.survivors);
                ending.spawn_blocking(move || {
                    survivors.end_unrecorded(&request);
                    None
                });
            }
        }
        for (request, identity) in recorded {
            tracing::info!(request.id = %request, "a process that an earlier life started is ended if it still runs");
            let survivors = Arc::clone(&self.survivors);
            ending.spawn_blocking(move || {
                survivors
                    .end_leftover(&request, &identity)
                    .then_some(identity)
            });
        }
        while let Some(ended) = ending.join_next().await {
            if let Ok(Some(identity)) = ended {
                self.handles.journal.record_child_end(identity);
            }
        }
        Ok(())
    }

    async fn handle_leftover(
        &self,
        left: UnfinishedRequest,
        mut fate: RecoveredRequest,
        declared: Vec<String>,
        key_is_new: bool,
    ) -> Result<(), RunnerError> {
        let handles = &self.handles;
        let journal = &handles.journal;
        let clock = &handles.clock;
        let sealer = &handles.sealer;
        let audit = &handles.audit;
        let attempt = left.attempt;
        let call = AcceptedRequest::from(left);
        let id = &call.tool_request().id;
        let mut found = None;
        if fate == RecoveredRequest::Compare {
            let (comparison, outcome) = self.compare_intents(&call, declared).await;
            let resolved = journal.resolve_compared(id, comparison, clock.now_ms());
            fate = resolved.await?;
            found = outcome;
        }
        let outcome = match fate {
            RecoveredRequest::Run => match handles.signatures.refuse_leftover(&call, key_is_new) {
                Some(denied) => denied,
                None => return Ok(()),
            },
            RecoveredRequest::Post | RecoveredRequest::Compare => return Ok(()),
            RecoveredRequest::Answer(RulesReply::NeverRan) => cancelled_before_start(),
            RecoveredRequest::Answer(RulesReply::ChangedNothing) => {
                cancelled_without_change(call.tool_request().tool.as_str())
            }
            RecoveredRequest::Answer(RulesReply::CrashLooping) => crash_looping_outcome(attempt),
            RecoveredRequest::Answer(RulesReply::Interrupted | RulesReply::Recovered) => {
                found.unwrap_or_else(|| sealer.interrupted(&call))
            }
        };
        let request = call.tool_request();
        let facts = AuditFacts::from(&outcome);
        let began = (attempt > 0).then_some(attempt);
        let reply = sealer.seal_blocking(request, outcome, began, Duration::ZERO);
        audit
            .record_answered(&call, &reply, facts, began, Duration::ZERO)
            .await;
        let payload = reply.payload_json().to_owned();
        let now_ms = clock.now_ms();
        journal.record_reply(&call, reply, now_ms).await?;
        sealer.store_record(&call, &payload, now_ms).await;
        tracing::info!(request.id = %request.id, tool.name = %request.tool, "a call that an earlier life left behind is answered");
        Ok(())
    }
}

fn cancelled_without_change(tool: &str) -> CallOutcome {
    let text = format!(
        "Cancelled: {tool} had begun when the device's runner ended, and was taken back before it could run again. \
         It changed nothing."
    );
    CallOutcome::Cancelled(recovered_failure(ErrorCode::Cancelled, text))
}

fn crash_looping_outcome(attempts: u32) -> CallOutcome {
    let text = format!(
        "Interrupted: the device's runner ended {attempts} times while this ran, so it is not tried again. Ask for \
         less at once, or in another way."
    );
    CallOutcome::Error(recovered_failure(ErrorCode::Interrupted, text))
}

fn recovered_failure(code: ErrorCode, text: String) -> CallFailure {
    CallFailure::new(code, text).with_meta(ResultMeta {
        recovered: true,
        ..ResultMeta::default()
    })
}
