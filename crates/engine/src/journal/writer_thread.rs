//! The one thread that writes: it runs the queued jobs in one transaction and commits once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};

use super::disk_reserve::DiskReserve;
use super::integrity::DatabaseFault;
use super::job_queue::{EmptyQueue, QueueReceiver};
use super::write_job::{WriteCallback, WriteDurability, WriteJob, WriteKind};
use super::{corruption_recovery, file_replace, open_journal};
use punie_core::lock_wait;

/// The most queued writes that share one transaction.
const BATCH: usize = 64;
/// The time that an unawaited write may wait for others, to share their transaction.
const GROUP_COMMIT_DELAY: Duration = Duration::from_millis(20);
/// The idle time after which the log is checkpointed.
const CHECKPOINT_DELAY: Duration = Duration::from_secs(3);
/// The size of the log, in bytes, from which it is checkpointed between writes.
const CHECKPOINT_LOG_BYTES: u64 = 4 << 20;

/// The first job and, while none of them is awaited, those that come within a moment.
fn gather_batch(first: WriteJob, queue: &QueueReceiver<WriteJob>) -> Vec<WriteJob> {
    let until = Instant::now() + GROUP_COMMIT_DELAY;
    let mut batch = vec![first];
    while batch.len() < BATCH && batch.iter().all(|job| job.kind == WriteKind::Later) {
        match queue.next_until(until) {
            Ok(job) => batch.push(job),
            Err(_) => break,
        }
    }
    batch
}

/// The thread's commits, for others.
#[derive(Debug, Default)]
pub(super) struct CommitRecord {
    /// The number of those that may have moved a request.
    pub moves: AtomicU64,
    /// The time of the last one.
    pub last: Mutex<Option<Instant>>,
}

/// The state of the thread.
pub(super) struct WriterThread {
    /// `None` once the file cannot be used any more.
    connection: Option<Connection>,
    path: PathBuf,
    log: PathBuf,
    disk: DiskReserve,
    durability: WriteDurability,
    /// The log holds rows that are worth a checkpoint when nothing else is to be done.
    needs_checkpoint: bool,
    commits: Arc<CommitRecord>,
}

impl WriterThread {
    /// Creates the thread's state for an open journal.
    pub fn new(
        connection: Connection,
        path: &Path,
        disk: DiskReserve,
        commits: Arc<CommitRecord>,
    ) -> Self {
        Self {
            connection: Some(connection),
            path: path.to_owned(),
            log: file_replace::sibling_path(path, "-wal"),
            disk,
            durability: WriteDurability::ProcessCrash,
            needs_checkpoint: false,
            commits,
        }
    }

    /// Runs jobs until no sender is left.
    pub fn run_jobs(mut self, queue: &QueueReceiver<WriteJob>) {
        while let Some(first) = self.next(queue) {
            let mut batch = gather_batch(first, queue);
            batch.extend(queue.drain_up_to(BATCH - batch.len()));
            let is_last = batch.iter().any(|job| job.kind == WriteKind::Last);
            self.commit_batch(batch);
            let is_log_large = |log: std::fs::Metadata| log.len() > CHECKPOINT_LOG_BYTES;
            if is_last || self.log.metadata().is_ok_and(is_log_large) {
                self.run_checkpoint();
            }
        }
    }

    fn next(&mut self, queue: &QueueReceiver<WriteJob>) -> Option<WriteJob> {
        if self.needs_checkpoint {
            match queue.next_until(Instant::now() + CHECKPOINT_DELAY) {
                Err(EmptyQueue::TimedOut) => self.run_checkpoint(),
                received => return received.ok(),
            }
        }
        queue.next()
    }

    fn commit_batch(&mut self, batch: Vec<WriteJob>) {
        let durability = batch
            .iter()
            .map(|job| job.durability)
            .max()
            .unwrap_or(WriteDurability::ProcessCrash);
        // Notes of the heartbeat alone are not worth waking a disk for.
        self.needs_checkpoint |= durability == WriteDurability::PowerLoss;
        let may_move = batch.iter().any(|job| job.kind.may_move_requests());
        let Some(connection) = &mut self.connection else {
            return;
        };
        let mut answers = Vec::with_capacity(batch.len());
        let mut worst = DatabaseFault::Sound;
        let committed = set_durability(connection, &mut self.durability, durability)
            .and_then(|()| write_batch(connection, batch, &mut answers, &mut worst));
        let fault = committed.as_ref().err().map_or(worst, |error| {
            worst.max(DatabaseFault::from_sqlite_error(error))
        });
        if let Err(error) = &committed {
            tracing::error!(%error, "the journal could not commit");
        }
        // Before any caller tries again.
        self.handle_fault(fault);
        // Before the callers are told; one that failed counts too, since the file may be another one now.
        if may_move || committed.is_err() {
            self.commits.moves.fetch_add(1, Ordering::Release);
        }
        if committed.is_ok() {
            *self.commits.last.lock() = Some(Instant::now());
        }
        for answer in answers {
            answer(committed.as_ref().copied().map_err(|_| fault));
        }
    }

    /// Checkpoints the log into the file, and empties it if there are no readers.
    fn run_checkpoint(&mut self) {
        let Some(connection) = &self.connection else {
            return;
        };
        self.needs_checkpoint = false;
        // A reader is not waited for: the next time comes.
        let done = connection.busy_timeout(Duration::ZERO).and_then(|()| {
            connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?;
            lock_wait::end_opening(connection)
        });
        if let Err(error) = done {
            tracing::warn!(%error, "the journal's log could not be brought into its file");
            self.handle_fault(DatabaseFault::from_sqlite_error(&error));
        }
    }

    /// Handles a failure of the file.
    fn handle_fault(&mut self, fault: DatabaseFault) {
        match fault {
            DatabaseFault::Sound => {}
            DatabaseFault::Full => self.disk.release(),
            DatabaseFault::Unsynced | DatabaseFault::Damaged => self.rebuild_file(fault),
        }
    }

    /// Never goes on with a file of which a sync failed or a page is damaged: the one is written anew, the other is
    /// opened and looked at again, and replaced where it is damaged.
    fn rebuild_file(&mut self, fault: DatabaseFault) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        let renewed = if fault == DatabaseFault::Unsynced {
            corruption_recovery::rewrite_unsynced(connection, &self.path)
        } else {
            close_without_checkpoint(connection);
            open_journal::open_for_writing(&self.path, true)
        };
        let renewed = renewed.and_then(|connection| {
            lock_wait::end_opening(&connection)?;
            Ok(connection)
        });
        self.durability = WriteDurability::ProcessCrash;
        match renewed {
            Ok(connection) => {
                tracing::warn!(journal = %self.path.display(), "the journal goes on in a file that was looked at");
                self.connection = Some(connection);
            }
            Err(error) => {
                tracing::error!(%error, "the journal cannot go on");
                self.disk.mark_failed();
            }
        }
    }
}

/// Closes the file without bringing its log into it.
fn close_without_checkpoint(connection: Connection) {
    use rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    // Where even this fails, the look at the file comes after whatever closing did.
    let _ = connection.set_db_config(SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    drop(connection);
}

/// Runs every job in one transaction and commits it.
fn write_batch(
    connection: &mut Connection,
    batch: Vec<WriteJob>,
    answers: &mut Vec<WriteCallback>,
    worst: &mut DatabaseFault,
) -> rusqlite::Result<()> {
    // At once a writer: one that began by reading could not wait for another process that writes.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for job in batch {
        // A full disk can end the whole transaction under a job. What ran before is then undone; what runs
        // after would commit by itself, unknown to its caller.
        if transaction.is_autocommit() {
            break;
        }
        let (answer, fault) = (job.write)(&transaction);
        answers.push(answer);
        *worst = (*worst).max(fault);
    }
    transaction.commit()
}

fn set_durability(
    connection: &Connection,
    now: &mut WriteDurability,
    wanted: WriteDurability,
) -> rusqlite::Result<()> {
    if *now != wanted {
        let level = if wanted == WriteDurability::PowerLoss {
            "full"
        } else {
            "normal"
        };
        connection.pragma_update(None, "synchronous", level)?;
        *now = wanted;
    }
    Ok(())
}
