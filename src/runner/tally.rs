//! What is open, as the journal has it: counted anew only after something moved, so that an idle runner reads nothing.
//! Not here: what the figures are for (heartbeat, periodic).

use std::sync::{Mutex, PoisonError};

use super::engine::Engine;
use crate::journal::{JournalError, LiveCounts};

/// The figures, and when they hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tally {
    /// The journal's number of moves before they were counted.
    moves: u64,
    pub counts: LiveCounts,
    /// Which life of the runner this is.
    pub epoch: Option<u64>,
}

/// What was counted last.
#[derive(Debug, Default)]
pub(super) struct Last(Mutex<Option<Tally>>);

impl Engine {
    /// Counts what is open, or recalls it where nothing moved since.
    pub(super) async fn tally(&self) -> Result<Tally, JournalError> {
        let moves = self.journal.moves();
        let last = *self.tally.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.filter(|last| last.moves == moves) {
            return Ok(last);
        }
        let journal = self.journal.clone();
        let look = move || {
            let reader = journal.reader()?;
            let epoch = reader.recall("epoch")?.and_then(|epoch| epoch.parse().ok());
            Ok(Tally { moves, counts: reader.counts()?, epoch })
        };
        let tally = tokio::task::spawn_blocking(look).await.unwrap_or(Err(JournalError::NotCommitted))?;
        *self.tally.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(tally);
        Ok(tally)
    }
}
