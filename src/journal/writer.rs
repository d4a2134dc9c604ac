//! The one thread that writes: it runs the queued jobs in one transaction and commits once.
//! A promise about a tool with effects makes that commit durable against power loss; others are durable against
//! a crash of this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use super::disk_reserve::DiskReserve;
use super::integrity::DatabaseFault;
use super::job_queue::{EmptyQueue, QueueReceiver, QueueSender, unbounded_queue};
use super::{JournalError, corruption_recovery, file_replace, migrate};

/// The failure that a write must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WriteDurability {
    /// A crash of this process: `synchronous=NORMAL`, no fsync.
    ProcessCrash,
    /// A power cut: `synchronous=FULL`, one fsync for all that is queued.
    PowerLoss,
}

/// The most queued writes that share one transaction.
const BATCH: usize = 64;
/// The time that an unawaited write may wait for others, to share their transaction.
const GROUP_COMMIT_DELAY: Duration = Duration::from_millis(20);

/// The idle time after which the log is checkpointed.
const CHECKPOINT_DELAY: Duration = Duration::from_secs(3);
/// The size of the log, in bytes, from which it is checkpointed between writes.
const CHECKPOINT_LOG_BYTES: u64 = 4 << 20;

/// Tells the waiting caller whether its write is committed.
type WriteCallback = Box<dyn FnOnce(Result<(), DatabaseFault>) + Send>;
/// Writes, and classifies a failure.
type WriteTask = Box<dyn FnOnce(&Transaction<'_>) -> (WriteCallback, DatabaseFault) + Send>;

/// The urgency of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteUrgency {
    /// The caller waits for the result.
    Awaited,
    /// No caller waits, but it is made at once.
    AtOnce,
    /// No caller waits, and it may wait a moment to share a transaction.
    Later,
}

/// The options of a write.
struct WriteOptions {
    pace: WriteUrgency,
    last: bool,
    quiet: bool,
}

impl WriteOptions {
    const URGENT: Self = Self {
        pace: WriteUrgency::Awaited,
        last: false,
        quiet: false,
    };
    const UNORDERED: Self = Self {
        quiet: true,
        ..Self::URGENT
    };
    const DETACHED: Self = Self {
        pace: WriteUrgency::AtOnce,
        ..Self::UNORDERED
    };
    const LATER: Self = Self {
        pace: WriteUrgency::Later,
        ..Self::URGENT
    };
}

struct WriteJob {
    durability: WriteDurability,
    /// It is made at once.
    urgent: bool,
    /// Nothing more is to come: the log is brought into the file at once.
    last: bool,
    /// Moves no request that is not closed.
    quiet: bool,
    write: WriteTask,
}

#[derive(Clone)]
pub(super) struct JournalWriter {
    jobs: QueueSender<WriteJob>,
    disk: DiskReserve,
    moves: Arc<AtomicU64>,
}

impl std::fmt::Debug for JournalWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Writer")
    }
}

impl JournalWriter {
    /// Starts the thread; it ends when the last clone is gone.
    pub(super) fn start_thread(connection: Connection, path: &Path, disk: DiskReserve) -> Self {
        let (jobs, queue) = unbounded_queue();
        let moves = Arc::new(AtomicU64::new(0));
        let thread = WriterThread {
            moves: Arc::clone(&moves),
            connection: Some(connection),
            path: path.to_owned(),
            log: file_replace::sibling_path(path, "-wal"),
            disk: disk.clone(),
            durability: WriteDurability::ProcessCrash,
            needs_checkpoint: false,
        };
        thread::Builder::new()
            .name("journal".into())
            .spawn(move || thread.run_jobs(&queue))
            .expect("a thread for the journal is needed at start-up, when there are few");
        Self { jobs, disk, moves }
    }

    /// Checkpoints the log into the file.
    pub(super) async fn checkpoint_log(&self) {
        // Whether it succeeds only decides what the next start looks at. The second is there to wait for the first.
        for last in [true, false] {
            let _ = self
                .queue_job(
                    WriteDurability::ProcessCrash,
                    &WriteOptions {
                        last,
                        ..WriteOptions::URGENT
                    },
                    |_| Ok(()),
                )
                .await;
        }
    }

    /// Runs a write and waits until it is committed.
    pub(super) async fn write_and_wait<T: Send + 'static>(
        &self,
        durability: WriteDurability,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        self.handle_answer(
            self.queue_job(durability, &WriteOptions::URGENT, work)
                .await,
        )
    }

    /// The same for a write that moves no request that is not closed.
    pub(super) async fn write_unordered<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        self.handle_answer(
            self.queue_job(
                WriteDurability::ProcessCrash,
                &WriteOptions::UNORDERED,
                work,
            )
            .await,
        )
    }

    /// The same at once, too, without waiting; a failure is only logged.
    pub(super) fn write_detached(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<(), JournalError> + Send + 'static,
    ) {
        drop(self.queue_job(WriteDurability::ProcessCrash, &WriteOptions::DETACHED, work));
    }

    fn handle_answer<T>(
        &self,
        answered: Result<Result<T, JournalError>, oneshot::error::RecvError>,
    ) -> Result<T, JournalError> {
        answered.unwrap_or_else(|_unanswered| {
            Err(if self.disk.is_marked_failed() {
                JournalError::Failed
            } else {
                JournalError::NotCommitted
            })
        })
    }

    /// Rises with every commit that may have moved a request: while it stands still, so do the open requests.
    pub(super) fn change_counter(&self) -> u64 {
        self.moves.load(Ordering::Acquire)
    }

    /// Runs a write soon, together with the next awaited one; a failure is only logged.
    pub(super) fn write_later(
        &self,
        durability: WriteDurability,
        work: impl FnOnce(&Transaction<'_>) -> Result<(), JournalError> + Send + 'static,
    ) {
        drop(self.queue_job(durability, &WriteOptions::LATER, work));
    }

    fn queue_job<T: Send + 'static>(
        &self,
        durability: WriteDurability,
        manner: &WriteOptions,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, JournalError> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, JournalError>> {
        let (answer, answered) = oneshot::channel();
        let &WriteOptions { pace, last, quiet } = manner;
        let write: WriteTask = Box::new(move |transaction| {
            let result = in_savepoint(transaction, work);
            let fault = match &result {
                Err(JournalError::Sqlite(error)) => DatabaseFault::from_sqlite_error(error),
                _ => DatabaseFault::Sound,
            };
            let answer: WriteCallback = Box::new(move |committed| {
                let result = match committed {
                    _ if fault == DatabaseFault::Full => Err(JournalError::Full),
                    Ok(()) => result,
                    Err(why) => result.and(Err(uncommitted_error(why))),
                };
                // The caller may not wait, or no longer; the write stands all the same.
                if let Err(Err(error)) = answer.send(result)
                    && pace != WriteUrgency::Awaited
                {
                    tracing::warn!(%error, "a note could not be written to the journal");
                }
            });
            (answer, fault)
        });
        // Without the thread the answer's sender is dropped here, which the receiver reads as not committed.
        self.jobs.send(WriteJob {
            durability,
            urgent: pace != WriteUrgency::Later,
            last,
            quiet,
            write,
        });
        answered
    }
}

fn uncommitted_error(why: DatabaseFault) -> JournalError {
    match why {
        DatabaseFault::Full => JournalError::Full,
        _ => JournalError::NotCommitted,
    }
}

/// A failed write takes only its own changes back.
fn in_savepoint<T>(
    transaction: &Transaction<'_>,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, JournalError>,
) -> Result<T, JournalError> {
    let say = |sql| transaction.prepare_cached(sql)?.execute([]).map(drop);
    say("savepoint job")?;
    let result = work(transaction);
    if result.is_err() {
        say("rollback to job")?;
    }
    say("release job")?;
    result
}

/// The first job and, while none of them is awaited, those that come within a moment.
fn gather_batch(first: WriteJob, queue: &QueueReceiver<WriteJob>) -> Vec<WriteJob> {
    let until = Instant::now() + GROUP_COMMIT_DELAY;
    let mut batch = vec![first];
    while batch.len() < BATCH && batch.iter().all(|job| !job.urgent) {
        match queue.next_until(until) {
            Ok(job) => batch.push(job),
            Err(_) => break,
        }
    }
    batch
}

struct WriterThread {
    /// None once the file cannot be used any more.
    connection: Option<Connection>,
    path: PathBuf,
    log: PathBuf,
    disk: DiskReserve,
    durability: WriteDurability,
    /// The log holds something that is worth bringing into the file when nothing else is to be done.
    needs_checkpoint: bool,
    /// Counts the commits that may have moved a request.
    moves: Arc<AtomicU64>,
}

impl WriterThread {
    fn run_jobs(mut self, queue: &QueueReceiver<WriteJob>) {
        while let Some(first) = self.next(queue) {
            let mut batch = gather_batch(first, queue);
            batch.extend(queue.drain_up_to(BATCH - batch.len()));
            let last = batch.iter().any(|job| job.last);
            self.commit_batch(batch);
            if last
                || self
                    .log
                    .metadata()
                    .is_ok_and(|log| log.len() > CHECKPOINT_LOG_BYTES)
            {
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
        let moves = batch.iter().any(|job| !job.quiet);
        let mut answers: Vec<WriteCallback> = Vec::with_capacity(batch.len());
        let (committed, fault) = match &mut self.connection {
            Some(connection) => {
                let mut worst = DatabaseFault::Sound;
                let committed = set_durability(connection, &mut self.durability, durability)
                    .and_then(|()| write_batch(connection, batch, &mut answers, &mut worst));
                let fault = committed.as_ref().err().map_or(worst, |error| {
                    worst.max(DatabaseFault::from_sqlite_error(error))
                });
                (committed, fault)
            }
            None => return,
        };
        if let Err(error) = &committed {
            tracing::error!(%error, "the journal could not commit");
        }
        // Before anybody tries again.
        self.handle_fault(fault);
        // Before anybody hears of it; one that failed counts too, since the file may be another one now.
        if moves || committed.is_err() {
            self.moves.fetch_add(1, Ordering::Release);
        }
        for answer in answers {
            answer(if committed.is_ok() {
                Ok(())
            } else {
                Err(fault)
            });
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
            connection.busy_timeout(Duration::from_secs(5))
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
            DatabaseFault::Full => self.disk.release_reserve(),
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
            migrate::open_for_writing(&self.path, true)
        };
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
