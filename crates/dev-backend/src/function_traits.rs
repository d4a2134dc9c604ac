//! The traits of queries and mutations, and their inputs and answers.

use std::time::Duration;

use rusqlite::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use super::commit_transaction::CommitTransaction;
use super::commits::TopicSet;
use super::failure::{FunctionFailure, FunctionResult};
use super::permissions::caller_reads::CallerReads;
use punie_core::ids::DeviceId;

/// A function that only reads. The implementing struct is its arguments.
pub(super) trait QueryFunction: DeserializeOwned + Send + Sync + 'static {
    /// `module:function`.
    const PATH: &'static str;
    /// The returned value; its numbers are all `f64`.
    type Reply: Serialize + Send;

    /// Answers from one snapshot.
    fn run_on_snapshot(&self, db: &SnapshotView<'_>) -> FunctionResult<Self::Reply>;

    /// Returns the topics that the reply depends on: a commit that changes one of them runs subscribed queries again.
    /// Token checks need no topic, because commits that change tokens count as changes of all topics.
    fn topics_read(&self) -> TopicSet {
        TopicSet::All
    }

    /// Returns the device and the longest time for which the call may be held while its reply is empty.
    fn requested_hold(&self) -> Option<PollHold> {
        None
    }

    /// Returns whether a reply is empty, so that a held call goes on waiting.
    fn is_reply_empty(_reply: &Self::Reply) -> bool {
        false
    }
}

/// A function that writes, in one transaction. The implementing struct is its arguments.
pub(super) trait MutationFunction: DeserializeOwned + Send + 'static {
    /// `module:function`.
    const PATH: &'static str;
    /// The returned value; its numbers are all `f64`.
    type Reply: Serialize + Send;

    /// Runs completely, or leaves no trace.
    fn run_mutation(self, db: &mut CommitTransaction<'_>) -> FunctionResult<Self::Reply>;
}

/// The input of a query: one snapshot, without a clock. On Convex a query is run again when its rows change, never
/// because time has passed.
pub(super) struct SnapshotView<'c> {
    pub db: &'c Connection,
    /// Where a caller's read of the open questions is recorded.
    pub caller_reads: &'c CallerReads,
}

/// A wait for a device's next event.
pub(super) struct PollHold {
    pub device: DeviceId,
    pub at_most: Duration,
}

/// The longest time for which a call is held.
const LONGEST_WAIT_MS: f64 = 25_000.0;

impl PollHold {
    /// Returns the hold for the requested time, capped at the limit, or `None` if no wait was requested.
    pub fn from_wait(device: DeviceId, wait_ms: f64) -> Option<Self> {
        let wait_ms = Some(wait_ms)
            .filter(|wait| *wait > 0.0)?
            .min(LONGEST_WAIT_MS);
        Some(Self {
            device,
            at_most: Duration::from_secs_f64(wait_ms / 1000.0),
        })
    }
}

/// A reply's value as JSON, or the failure.
pub(super) type FunctionAnswer = Result<Box<RawValue>, FunctionFailure>;

/// A query with its arguments; it can run any number of times.
pub(super) trait PreparedQuery: Send + Sync {
    /// Answers from one snapshot.
    fn answer_from(&self, view: &SnapshotView<'_>) -> FunctionAnswer;

    /// Returns the topics that the answer depends on.
    fn topics_to_watch(&self) -> TopicSet;
}

impl<Q: QueryFunction> PreparedQuery for Q {
    fn answer_from(&self, view: &SnapshotView<'_>) -> FunctionAnswer {
        Ok(to_raw_value(&self.run_on_snapshot(view)?)?)
    }

    fn topics_to_watch(&self) -> TopicSet {
        QueryFunction::topics_read(self)
    }
}

/// A mutation with its arguments; it runs once.
pub(super) trait PreparedMutation: Send {
    /// Runs within this transaction.
    fn apply_in(self: Box<Self>, commit: &mut CommitTransaction<'_>) -> FunctionAnswer;
}

impl<M: MutationFunction> PreparedMutation for M {
    fn apply_in(self: Box<Self>, commit: &mut CommitTransaction<'_>) -> FunctionAnswer {
        Ok(to_raw_value(&self.run_mutation(commit)?)?)
    }
}
