//! What is open, as the journal has it: counted anew only after something moved, so that an idle runner reads nothing.
//! Not here: what the figures are for (presence, housekeeping).

use std::sync::{Mutex, PoisonError};

use crate::journal::{Journal, JournalError, LiveCounts};

/// The figures, and when they hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountedRequests {
    /// The journal's number of moves before they were counted.
    moves: u64,
    pub counts: LiveCounts,
    /// Which life of the runner this is.
    pub epoch: Option<u64>,
}

/// Counts the requests that are open.
pub(super) struct OpenCounts {
    journal: Journal,
    last: Mutex<Option<CountedRequests>>,
}

impl OpenCounts {
    pub(super) fn new(journal: Journal) -> Self {
        Self { journal, last: Mutex::default() }
    }

    /// Counts what is open, or recalls it where nothing moved since.
    pub(super) async fn count(&self) -> Result<CountedRequests, JournalError> {
        let moves = self.journal.moves();
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.filter(|last| last.moves == moves) {
            return Ok(last);
        }
        let journal = self.journal.clone();
        let look = move || {
            let reader = journal.reader()?;
            let epoch = reader.recall("epoch")?.and_then(|epoch| epoch.parse().ok());
            Ok(CountedRequests { moves, counts: reader.counts()?, epoch })
        };
        let counted = tokio::task::spawn_blocking(look).await.unwrap_or(Err(JournalError::NotCommitted))?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(counted);
        Ok(counted)
    }
}
