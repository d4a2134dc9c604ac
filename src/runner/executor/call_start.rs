//! Recording that a call begins, before it does. Not here: the call itself (execute).

use super::call_runner::{Call, CallRunner, Work};
use super::outcome::never_ran;
use crate::journal::{Accepted, JournalError, State};
use crate::runner::backoff::Retry;
use crate::runner::tool_threads::on_a_thread;

impl CallRunner {
    /// Records the start of a call. A journal that cannot be written is tried again for as long as the call is
    /// wanted: its lane waits meanwhile, which is what a full disk asks for.
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

    /// The answer to a call whose start the journal has already: it was written although that failed, say. Nobody of
    /// this process runs it, so that it would wait for the next one.
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
