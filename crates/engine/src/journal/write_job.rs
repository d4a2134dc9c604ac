//! The jobs that the journal's thread runs: a write, its durability and its urgency.

use rusqlite::Transaction;

use super::integrity::DatabaseFault;

/// The failure that a write must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WriteDurability {
    /// A crash of this process: `synchronous=NORMAL`, no fsync.
    ProcessCrash,
    /// A power cut: `synchronous=FULL`, one fsync for all that is queued.
    PowerLoss,
}

impl WriteDurability {
    /// Returns the durability of a promise about effects that happen at most once, or about others.
    pub fn for_effect(at_most_once: bool) -> Self {
        if at_most_once {
            Self::PowerLoss
        } else {
            Self::ProcessCrash
        }
    }
}

/// The way in which a write is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteKind {
    /// The caller waits for the result.
    Awaited,
    /// The same for a write that moves no request that is not closed.
    Unordered,
    /// No caller waits, but it is made at once. It moves no request that is not closed.
    Detached,
    /// No caller waits, and it may wait a moment to share a transaction.
    Later,
    /// The caller waits, and nothing more is to come: the log is brought into the file at once.
    Last,
}

impl WriteKind {
    /// Returns whether it may move a request that is not closed.
    pub fn may_move_requests(self) -> bool {
        !matches!(self, Self::Unordered | Self::Detached)
    }

    /// Returns whether a caller waits for the result.
    pub fn is_awaited(self) -> bool {
        !matches!(self, Self::Detached | Self::Later)
    }
}

/// Tells the waiting caller whether its write is committed.
pub(super) type WriteCallback = Box<dyn FnOnce(Result<(), DatabaseFault>) + Send>;
/// Writes, and classifies a failure.
pub(super) type WriteTask =
    Box<dyn FnOnce(&Transaction<'_>) -> (WriteCallback, DatabaseFault) + Send>;

/// A queued write.
pub(super) struct WriteJob {
    pub durability: WriteDurability,
    pub kind: WriteKind,
    pub write: WriteTask,
}
