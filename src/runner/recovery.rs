//! What an earlier life of the runner left behind, settled before the first poll: its processes are ended, its reads
//! run again, its effects are answered by what is found of them (aftermath) or as interrupted, its replies are posted.

use std::sync::Arc;
use std::time::Duration;

use super::RunnerError;
use super::auditing::Facts;
use super::endings::never_ran;
use super::engine::Engine;
use crate::journal::{Accepted, Fate, Unfinished, Verdict};
use crate::output::OutputStore;
use crate::request::{ErrorCode, Failure, Meta, Outcome, RequestAuth, Sealing};

/// How much of a killed call's output its answer carries.
const PARTIAL_CHARS: usize = 8_000;

/// Where the journal has the key that requests had to be signed with; empty for none.
const REQUEST_KEY: &str = "request_key";

/// Settles what was left; returns the requests that are still to be run, oldest first.
pub(super) async fn settle(engine: &Arc<Engine>) -> Result<Vec<Accepted>, RunnerError> {
    let reader = engine.journal.reader()?;
    // All at once, because ending a process tree may wait for it to go.
    let mut ending = tokio::task::JoinSet::new();
    for (request, identity) in reader.children()? {
        tracing::info!(request.id = %request, "a process that an earlier life started is ended if it still runs");
        let survivors = Arc::clone(&engine.survivors);
        ending.spawn_blocking(move || survivors.end(&request, &identity).then_some(identity));
    }
    while let Some(ended) = ending.join_next().await {
        if let Ok(Some(identity)) = ended {
            engine.journal.child_ended(identity);
        }
    }
    engine.meet_backend().await?;
    // Now that it is known whose requests are to be settled.
    let reader = engine.journal.reader()?;
    let unfinished = reader.unfinished()?;
    let ids = unfinished.iter().map(|left| left.request.id.clone()).collect();
    let fates = engine.journal.found(ids, engine.clock.now_ms()).await?;
    // Of this life; that of the last one stays written down until all that it left is settled.
    let key = engine.request_auth.as_ref().map(RequestAuth::key_text);
    let key_is_new = key.is_some() && reader.recall(REQUEST_KEY)? != key;
    let mut again = Vec::new();
    for (left, fate) in unfinished.into_iter().zip(fates) {
        let declared = if fate == Fate::Compare { reader.declared(&left.request.id)? } else { Vec::new() };
        again.extend(engine.settle_one(left, fate, declared, key_is_new).await?);
    }
    engine.journal.remember(REQUEST_KEY, key.unwrap_or_default()).await?;
    Ok(again)
}

impl Engine {
    async fn settle_one(
        &self,
        left: Unfinished,
        mut fate: Fate,
        declared: Vec<String>,
        key_is_new: bool,
    ) -> Result<Option<Accepted>, RunnerError> {
        let attempt = left.attempt;
        let call = Accepted::from(left);
        let id = &call.request().id;
        let mut found = None;
        if fate == Fate::Compare {
            let (comparison, outcome) = self.compare(&call, declared).await;
            fate = self.journal.compared(id, comparison, self.clock.now_ms()).await?;
            found = outcome;
        }
        let outcome = match fate {
            Fate::Run => match self.unsigned_left(&call, key_is_new) {
                Some(denied) => denied,
                None => return Ok(Some(call)),
            },
            Fate::Post | Fate::Compare => return Ok(None),
            Fate::Answer(Verdict::NeverRan) => never_ran(),
            Fate::Answer(Verdict::ChangedNothing) => changed_nothing(call.request().tool.as_str()),
            Fate::Answer(Verdict::Poisonous) => poisonous(attempt),
            Fate::Answer(Verdict::Interrupted | Verdict::Recovered) => {
                found.unwrap_or_else(|| self.interrupted(&call))
            }
        };
        let request = call.request();
        let facts = Facts::from(&outcome);
        let sealed = outcome.seal(&Sealing {
            redactor: &self.redactor,
            store: &self.outputs,
            request: &request.id,
            tool: &request.tool,
            duration: Duration::ZERO,
            attempt: (attempt > 0).then_some(attempt),
        });
        self.audit_answered(&call, &sealed, facts, (attempt > 0).then_some(attempt), Duration::ZERO);
        self.journal.record(&call, sealed, self.clock.now_ms()).await?;
        tracing::info!(request.id = %request.id, tool.name = %request.tool, "a call that an earlier life left behind is answered");
        Ok(None)
    }

    /// An effect that began and whose end nobody saw: it is never run again.
    pub(super) fn interrupted(&self, call: &Accepted) -> Outcome {
        let request = call.request();
        let handle = OutputStore::handle(&request.id, 0);
        let partial = self.outputs.tail_text(&handle, PARTIAL_CHARS).ok().flatten();
        let mut text = format!(
            "Interrupted: the device's runner ended while {} ran. It was not run again. Its effects may be there in \
             part or in whole: look before you repeat it.",
            request.tool
        );
        let mut meta = Meta { may_have_run: true, recovered: true, ..Meta::default() };
        if let Some(partial) = partial.filter(|partial| !partial.is_empty()) {
            text.push_str("\nWhat it had printed until then (the end of it):\n");
            text.push_str(&partial);
            meta.handle = Some(handle.as_str().to_owned());
        }
        Outcome::Error(Failure { code: ErrorCode::Interrupted, text, meta })
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
