//! The transaction of one mutation, with its place on the commit clock and the devices to wake afterwards.

use std::ops::Deref;
use std::sync::Arc;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::commit_clock::{advance_commit_seq, last_commit_seq};
use super::commits::{CommitTopic, TopicSet};
use super::permissions::caller_reads::CallerReads;
use super::sql_calls::SqlCalls as _;
use punie_core::ids::{DeviceId, RequestId};

/// The transaction of one mutation.
pub(super) struct CommitTransaction<'c> {
    tx: Transaction<'c>,
    /// The time of this commit.
    pub now_ms: f64,
    seq: Option<i64>,
    rows: i64,
    touched: Vec<DeviceId>,
    changes_before: u64,
    topics: TopicSet,
    fixed: Option<FixedSeq>,
    caller_reads: Option<Arc<CallerReads>>,
}

/// A commit's position on the commit clock, with a flag for changes.
#[derive(Debug, Clone, Copy)]
struct FixedSeq {
    seq: i64,
    changed: bool,
}

/// The effects of a durable commit.
#[derive(Debug)]
pub(super) struct FinishedCommit {
    /// The devices whose inbox grew, to be woken.
    pub devices: Vec<DeviceId>,
    /// The changed topics, if anything changed.
    pub changed: Option<TopicSet>,
}

impl<'c> CommitTransaction<'c> {
    /// Begins a transaction. The writer is alone, so it never waits for the lock or starts over.
    pub fn begin(db: &'c mut Connection, now_ms: f64) -> rusqlite::Result<Self> {
        let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let changes_before = tx.total_changes();
        Ok(Self {
            tx,
            now_ms,
            seq: None,
            rows: 0,
            touched: Vec::new(),
            changes_before,
            topics: TopicSet::All,
            fixed: None,
            caller_reads: None,
        })
    }

    /// Lets the mutation know which callers read the open questions.
    pub fn with_caller_reads(self, reads: &Arc<CallerReads>) -> Self {
        Self {
            caller_reads: Some(Arc::clone(reads)),
            ..self
        }
    }

    /// Returns whether a caller reads the open questions of this device.
    pub fn has_listening_caller(&self, device: &DeviceId) -> bool {
        self.caller_reads
            .as_ref()
            .is_some_and(|reads| reads.has_recent_read(device))
    }

    /// Returns the sequence number of this commit, which all rows of the transaction share.
    pub fn seq(&mut self) -> rusqlite::Result<i64> {
        if let Some(seq) = self.seq {
            return Ok(seq);
        }
        let seq = advance_commit_seq(&self.tx, self.now_ms)?;
        self.seq = Some(seq);
        Ok(seq)
    }

    /// Appends a row to a device's inbox, and wakes its waiting calls after the commit.
    pub fn append_inbox_row(
        &mut self,
        device: &DeviceId,
        event: &str,
        request: &RequestId,
    ) -> rusqlite::Result<()> {
        let seq = self.seq()?;
        self.tx.execute_cached(
            "INSERT INTO inbox (device_id, seq, place, type, request_id) VALUES (?1, ?2, ?3, ?4, ?5)",
            (device.as_str(), seq, self.rows, event, request.as_str()),
        )?;
        self.rows += 1;
        self.wake_after_commit(device);
        Ok(())
    }

    /// Wakes the calls that wait for this device after the commit.
    pub fn wake_after_commit(&mut self, device: &DeviceId) {
        self.touched.push(device.clone());
    }

    /// Limits the subscribed queries to run again: those that read one of these topics, or declare none. Without this
    /// call, all of them run again.
    pub fn limit_topics(&mut self, topics: impl Into<Vec<CommitTopic>>) {
        self.topics = TopicSet::Only(topics.into());
    }

    /// Returns the time of this commit, which is a new one if anything changed so far. Later writes of this transaction
    /// are not announced.
    pub fn fix_seq(&mut self) -> rusqlite::Result<i64> {
        if let Some(fixed) = self.fixed {
            return Ok(fixed.seq);
        }
        let changed = self.tx.total_changes() != self.changes_before;
        let seq = if changed {
            self.seq()?
        } else {
            last_commit_seq(&self.tx)?
        };
        self.fixed = Some(FixedSeq { seq, changed });
        Ok(seq)
    }

    /// Commits the transaction. Notify the devices and subscriptions in the returned value now, not before.
    pub fn finish(mut self) -> rusqlite::Result<FinishedCommit> {
        self.fix_seq()?;
        self.tx.commit()?;
        let changed = self.fixed.is_some_and(|fixed| fixed.changed);
        Ok(FinishedCommit {
            devices: self.touched,
            changed: changed.then_some(self.topics),
        })
    }
}

impl Deref for CommitTransaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.tx
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::schema_migrations;

    #[test]
    fn the_commit_clock_only_grows_and_a_rollback_leaves_no_trace() {
        let mut db = Connection::open_in_memory().expect("memory");
        schema_migrations().to_latest(&mut db).expect("migrated");
        let first = {
            let mut commit = CommitTransaction::begin(&mut db, 1000.0).expect("begun");
            let seq = commit.seq().expect("a seq");
            assert_eq!(
                commit.seq().expect("again"),
                seq,
                "one transaction, one seq"
            );
            commit.finish().expect("committed");
            seq
        };
        assert_eq!(first, 1_000_000_000);
        CommitTransaction::begin(&mut db, 9000.0)
            .expect("begun")
            .seq()
            .expect("rolled back with its commit");
        let mut earlier = CommitTransaction::begin(&mut db, 5.0).expect("begun");
        assert_eq!(earlier.seq().expect("the wall clock went back"), first + 1);
    }
}
