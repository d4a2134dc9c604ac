//! The counts of open requests in the journal. They are counted again only after a change, so that an idle runner reads
//! nothing.

use parking_lot::Mutex;

use crate::journal::{Journal, JournalError, OpenRequestCounts};

/// The counts, and the journal's state that they belong to.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountedRequests {
    /// The journal's change number before the count.
    moves: u64,
    pub counts: OpenRequestCounts,
    /// The number of this process.
    pub epoch: Option<u64>,
}

pub(super) struct OpenCounts {
    journal: Journal,
    last: Mutex<Option<CountedRequests>>,
}

impl OpenCounts {
    pub(super) fn new(journal: Journal) -> Self {
        Self {
            journal,
            last: Mutex::default(),
        }
    }

    /// Counts the open requests, or returns the last count if nothing changed since.
    pub(super) async fn count_open(&self) -> Result<CountedRequests, JournalError> {
        let moves = self.journal.change_counter();
        let last = *self.last.lock();
        if let Some(last) = last.filter(|last| last.moves == moves) {
            return Ok(last);
        }
        let counted = self.journal.read_blocking(move |reader| {
            let epoch = reader.read_fact("epoch")?;
            Ok(CountedRequests {
                moves,
                counts: reader.count_open_requests()?,
                epoch: epoch.and_then(|epoch| epoch.parse().ok()),
            })
        });
        let counted = counted.await?;
        *self.last.lock() = Some(counted);
        Ok(counted)
    }
}
