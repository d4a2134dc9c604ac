//! The leftovers of an earlier process, handled before the first poll. Its child processes are killed, its reads run
//! again and its replies are posted. Its effects are answered by their state on disk (aftermath) or as interrupted.

use std::sync::Arc;
use std::time::Duration;

use super::backlog::Backlog;
use super::outcome::never_ran;
use crate::journal::{Accepted, Fate, Journal, Unfinished, Verdict};
use crate::request::{ErrorCode, Failure, Meta, Outcome, RequestAuth};
use crate::runner::call_audit::{AuditFacts, CallAudit};
use crate::runner::error::RunnerError;
use crate::runner::parts::Survivors;
use crate::runner::request_signatures::RequestSignatures;
use crate::runner::sealer::Sealer;
use crate::runner::session::SessionKeeper;
use crate::tool::{Entry, Lane, Registry};

/// The journal key of the key that requests had to be signed with; empty for none.
const REQUEST_KEY: &str = "request_key";

/// The number of requests in one transaction.
const PAGE: usize = 64;

fn control_name(entry: &Entry) -> Option<String> {
    (entry.spec().lane == Lane::Control).then(|| entry.spec().name.to_string())
}

/// Handles the leftovers of an earlier process.
pub(in crate::runner) struct Recovery {
    pub journal: Journal,
    pub audit: CallAudit,
    pub signatures: Arc<RequestSignatures>,
    pub registry: Arc<Registry>,
    pub sealer: Sealer,
    pub survivors: Arc<dyn Survivors>,
}

impl Recovery {
    /// Handles the leftovers; returns the calls still to be run, which stay in the journal until there is capacity.
    pub(in crate::runner) async fn settle(&self, sessions: &SessionKeeper) -> Result<Backlog, RunnerError> {
        let reader = self.journal.reader()?;
        // All at once, because killing a process tree may wait for its end.
        let mut ending = tokio::task::JoinSet::new();
        for (request, identity) in reader.children()? {
            tracing::info!(request.id = %request, "a process that an earlier life started is ended if it still runs");
            let survivors = Arc::clone(&self.survivors);
            ending.spawn_blocking(move || survivors.end(&request, &identity).then_some(identity));
        }
        while let Some(ended) = ending.join_next().await {
            if let Ok(Some(identity)) = ended {
                self.journal.child_ended(identity);
            }
        }
        sessions.meet_backend().await?;
        // Now the backend is known, and with it the requests to handle.
        let reader = self.journal.reader()?;
        // Without a key, waiting calls are left alone until their turn comes.
        let mut left = reader.begun_here()?;
        let waiting =
            if self.signatures.are_required() { reader.accepted()? } else { reader.taken_back()? };
        left.extend(waiting);
        // The key of this process; the last one's stays stored until all leftovers are handled.
        let key = self.signatures.auth.as_ref().map(RequestAuth::key_text);
        let key_is_new = key.is_some() && reader.recall(REQUEST_KEY)? != key;
        for page in left.chunks(PAGE) {
            let fates = self.journal.found(page.to_vec(), self.audit.clock.now_ms()).await?;
            for (id, fate) in page.iter().zip(fates) {
                let declared = if fate == Fate::Compare { reader.declared(id)? } else { Vec::new() };
                // One at a time: arguments may be long.
                if let Some(left) = reader.unfinished(id)? {
                    self.settle_one(left, fate, declared, key_is_new).await?;
                }
            }
        }
        self.journal.remember(REQUEST_KEY, key.unwrap_or_default()).await?;
        let control: Vec<String> =
            self.registry.entries().iter().filter_map(|entry| control_name(entry)).collect();
        let control: Vec<&str> = control.iter().map(String::as_str).collect();
        Ok(Backlog::left(reader.waiting_conversations()?, reader.accepted_unordered(&control)?))
    }

    async fn settle_one(
        &self,
        left: Unfinished,
        mut fate: Fate,
        declared: Vec<String>,
        key_is_new: bool,
    ) -> Result<(), RunnerError> {
        let attempt = left.attempt;
        let call = Accepted::from(left);
        let id = &call.request().id;
        let mut found = None;
        if fate == Fate::Compare {
            let (comparison, outcome) = self.compare(&call, declared).await;
            fate = self.journal.compared(id, comparison, self.audit.clock.now_ms()).await?;
            found = outcome;
        }
        let outcome = match fate {
            Fate::Run => match self.signatures.refuse_left_request(&call, key_is_new) {
                Some(denied) => denied,
                None => return Ok(()),
            },
            Fate::Post | Fate::Compare => return Ok(()),
            Fate::Answer(Verdict::NeverRan) => never_ran(),
            Fate::Answer(Verdict::ChangedNothing) => changed_nothing(call.request().tool.as_str()),
            Fate::Answer(Verdict::Poisonous) => poisonous(attempt),
            Fate::Answer(Verdict::Interrupted | Verdict::Recovered) => {
                found.unwrap_or_else(|| self.sealer.interrupted(&call))
            }
        };
        let request = call.request();
        let facts = AuditFacts::from(&outcome);
        let began = (attempt > 0).then_some(attempt);
        let sealed = self.sealer.seal_now(request, outcome, began, Duration::ZERO);
        self.audit.record_answered(&call, &sealed, facts, began, Duration::ZERO).await;
        self.journal.record(&call, sealed, self.audit.clock.now_ms()).await?;
        tracing::info!(request.id = %request.id, tool.name = %request.tool, "a call that an earlier life left behind is answered");
        Ok(())
    }
}

fn changed_nothing(tool: &str) -> Outcome {
    let text = format!(
        "Cancelled: {tool} had begun when the device's runner ended, and was taken back before it could run again. \
         It changed nothing."
    );
    let meta = Meta { recovered: true, ..Meta::default() };
    Outcome::Cancelled(Failure { code: ErrorCode::Cancelled, text, meta })
}

fn poisonous(attempts: u32) -> Outcome {
    let text = format!(
        "Interrupted: the device's runner ended {attempts} times while this ran, so it is not tried again. Ask for \
         less at once, or in another way."
    );
    let meta = Meta { recovered: true, ..Meta::default() };
    Outcome::Error(Failure { code: ErrorCode::Interrupted, text, meta })
}
