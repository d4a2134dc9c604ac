//! The record that a call begins, written before it begins. Not here: the call itself (`call_runner`).

use super::call_runner::{Call, CallRunner, Work};
use super::outcome::never_ran;
use crate::journal::{Accepted, JournalError, State};
use crate::runner::backoff::Retry;
use crate::runner::tool_threads::on_a_thread;

impl CallRunner {
    /// Records the start of a call, retrying for as long as the call is wanted. Its lane waits meanwhile, because a
    /// full disk needs that.
    pub(in crate::runner) async fn start(&self, call: &Call, declares: bool) -> Result<u32, Work> {
        let mut retry = Retry::new(self.settings.waits.retry);
        loop {
            let id = &call.accepted.request().id;
            match self.journal.start(&call.accepted, declares, self.audit.clock.now_ms()).await {
                Ok(started) => return Ok(started.attempt),
                Err(JournalError::TakenBack { .. }) => {
                    return Err(Work::answer(never_ran()));
                }
                Err(error @ JournalError::Moved { .. }) => {
                    tracing::error!(request.id = %id, %error, "the call is not begun a second time");
                    return Err(self.begun_before(&call.accepted).await);
                }
                Err(error) => {
                    tracing::error!(request.id = %id, %error, "the call cannot be begun now");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(retry.next(None)) => {}
                () = self.background.phases.stopping.cancelled() => return Err(Work::Left),
            }
            if let Some(outcome) = self.unwanted(call) {
                return Err(Work::answer(outcome));
            }
        }
    }

    /// Answers a call whose start the journal already has, for example because a failed write succeeded after all. No
    /// task of this process runs it, so it would otherwise wait for the next process.
    async fn begun_before(&self, call: &Accepted) -> Work {
        let (journal, id) = (self.journal.clone(), call.request().id.clone());
        let state =
            on_a_thread(move || journal.reader()?.life(&id).map(|life| life.map(|life| life.state))).await;
        match state {
            Ok(Some(State::Started)) => Work::answer(self.sealer.interrupted(call)),
            Ok(_) => {
                self.delivery.outbox.ring();
                Work::Left
            }
            Err(error) => {
                tracing::error!(request.id = %call.request().id, %error, "the call is left for the next start");
                Work::Left
            }
        }
    }
}
