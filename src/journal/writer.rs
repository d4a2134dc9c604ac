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

use super::integrity::Fault;
use super::queue::{Nothing, Receiver, Sender, queue};
use super::room::Disk;
use super::{JournalError, migrate, recover, swap};

/// The failure that a write must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Durability {
    /// A crash of this process: `synchronous=NORMAL`, no fsync.
    Process,
    /// A power cut: `synchronous=FULL`, one fsync for all that is queued.
    Power,
}

/// The most queued writes that share one transaction.
const BATCH: usize = 64;
/// The time that an unawaited write may wait for others, to share their transaction.
const COMPANY: Duration = Duration::from_millis(20);

/// The idle time after which the log is checkpointed.
const IDLE: Duration = Duration::from_secs(3);
/// The size of the log, in bytes, from which it is checkpointed between writes.
const LONG_LOG: u64 = 4 << 20;

/// Tells the waiting caller whether its write is committed.
type Answer = Box<dyn FnOnce(Result<(), Fault>) + Send>;
/// Writes, and classifies a failure.
type Write = Box<dyn FnOnce(&Transaction<'_>) -> (Answer, Fault) + Send>;

/// The urgency of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// The caller waits for the result.
    Awaited,
    /// No caller waits, but it is made at once.
    AtOnce,
    /// No caller waits, and it may wait a moment to share a transaction.
    Later,
}

/// The options of a write.
struct Manner {
    pace: Pace,
    last: bool,
    quiet: bool,
}

impl Manner {
    const URGENT: Self = Self { pace: Pace::Awaited, last: false, quiet: false };
    const BESIDE: Self = Self { quiet: true, ..Self::URGENT };
    const ASIDE: Self = Self { pace: Pace::AtOnce, ..Self::BESIDE };
    const LATER: Self = Self { pace: Pace::Later, ..Self::URGENT };
}

struct Job {
    durability: Durability,
    /// It is made at once.
    urgent: bool,
    /// Nothing more is to come: the log is brought into the file at once.
    last: bool,
    /// Moves no request that is not closed.
    quiet: bool,
    write: Write,
}

#[derive(Clone)]
pub(super) struct Writer {
    jobs: Sender<Job>,
    disk: Disk,
    moves: Arc<AtomicU64>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Writer")
    }
}

impl Writer {
    /// Starts the thread; it ends when the last clone is gone.
    pub(super) fn start(connection: Connection, path: &Path, disk: Disk) -> Self {
        let (jobs, queue) = queue();
        let moves = Arc::new(AtomicU64::new(0));
        let thread = Thread {
            moves: Arc::clone(&moves),
            connection: Some(connection),
            path: path.to_owned(),
            log: swap::beside(path, "-wal"),
            disk: disk.clone(),
            durability: Durability::Process,
            owes: false,
        };
        thread::Builder::new()
            .name("journal".into())
            .spawn(move || thread.run(&queue))
            .expect("a thread for the journal is needed at start-up, when there are few");
        Self { jobs, disk, moves }
    }

    /// Checkpoints the log into the file.
    pub(super) async fn rest(&self) {
        // Whether it succeeds only decides what the next start looks at. The second is there to wait for the first.
        for last in [true, false] {
            let _ = self.queue(Durability::Process, &Manner { last, ..Manner::URGENT }, |_| Ok(())).await;
        }
    }

    /// Runs a write and waits until it is committed.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        durability: Durability,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        self.answer(self.queue(durability, &Manner::URGENT, work).await)
    }

    /// The same for a write that moves no request that is not closed.
    pub(super) async fn write_beside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        self.answer(self.queue(Durability::Process, &Manner::BESIDE, work).await)
    }

    /// The same at once, too, without waiting; a failure is only logged.
    pub(super) fn write_aside(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<(), JournalError> + Send + 'static,
    ) {
        drop(self.queue(Durability::Process, &Manner::ASIDE, work));
    }

    fn answer<T>(
        &self,
        answered: Result<Result<T, JournalError>, oneshot::error::RecvError>,
    ) -> Result<T, JournalError> {
        answered.unwrap_or_else(|_unanswered| {
            Err(if self.disk.is_failed() { JournalError::Failed } else { JournalError::NotCommitted })
        })
    }

    /// Rises with every commit that may have moved a request: while it stands still, so do the open requests.
    pub(super) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Acquire)
    }

    /// Runs a write soon, together with the next awaited one; a failure is only logged.
    pub(super) fn write_later(
        &self,
        durability: Durability,
        work: impl FnOnce(&Transaction<'_>) -> Result<(), JournalError> + Send + 'static,
    ) {
        drop(self.queue(durability, &Manner::LATER, work));
    }

    fn queue<T: Send + 'static>(
        &self,
        durability: Durability,
        manner: &Manner,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, JournalError> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, JournalError>> {
        let (answer, answered) = oneshot::channel();
        let &Manner { pace, last, quiet } = manner;
        let write: Write = Box::new(move |transaction| {
            let result = in_savepoint(transaction, work);
            let fault = match &result {
                Err(JournalError::Sqlite(error)) => Fault::of(error),
                _ => Fault::Sound,
            };
            let answer: Answer = Box::new(move |committed| {
                let result = match committed {
                    _ if fault == Fault::Full => Err(JournalError::Full),
                    Ok(()) => result,
                    Err(why) => result.and(Err(not_committed(why))),
                };
                // The caller may not wait, or no longer; the write stands all the same.
                if let Err(Err(error)) = answer.send(result)
                    && pace != Pace::Awaited
                {
                    tracing::warn!(%error, "a note could not be written to the journal");
                }
            });
            (answer, fault)
        });
        // Without the thread the answer's sender is dropped here, which the receiver reads as not committed.
        self.jobs.send(Job { durability, urgent: pace != Pace::Later, last, quiet, write });
        answered
    }
}

fn not_committed(why: Fault) -> JournalError {
    match why {
        Fault::Full => JournalError::Full,
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
fn gather(first: Job, queue: &Receiver<Job>) -> Vec<Job> {
    let until = Instant::now() + COMPANY;
    let mut batch = vec![first];
    while batch.len() < BATCH && batch.iter().all(|job| !job.urgent) {
        match queue.next_until(until) {
            Ok(job) => batch.push(job),
            Err(_) => break,
        }
    }
    batch
}

struct Thread {
    /// None once the file cannot be used any more.
    connection: Option<Connection>,
    path: PathBuf,
    log: PathBuf,
    disk: Disk,
    durability: Durability,
    /// The log holds something that is worth bringing into the file when nothing else is to be done.
    owes: bool,
    /// Counts the commits that may have moved a request.
    moves: Arc<AtomicU64>,
}

impl Thread {
    fn run(mut self, queue: &Receiver<Job>) {
        while let Some(first) = self.next(queue) {
            let mut batch = gather(first, queue);
            batch.extend(queue.waiting(BATCH - batch.len()));
            let last = batch.iter().any(|job| job.last);
            self.commit(batch);
            if last || self.log.metadata().is_ok_and(|log| log.len() > LONG_LOG) {
                self.checkpoint();
            }
        }
    }

    fn next(&mut self, queue: &Receiver<Job>) -> Option<Job> {
        if self.owes {
            match queue.next_until(Instant::now() + IDLE) {
                Err(Nothing::InTime) => self.checkpoint(),
                received => return received.ok(),
            }
        }
        queue.next()
    }

    fn commit(&mut self, batch: Vec<Job>) {
        let durability = batch.iter().map(|job| job.durability).max().unwrap_or(Durability::Process);
        // Notes of the heartbeat alone are not worth waking a disk for.
        self.owes |= durability == Durability::Power;
        let moves = batch.iter().any(|job| !job.quiet);
        let mut answers: Vec<Answer> = Vec::with_capacity(batch.len());
        let (committed, fault) = match &mut self.connection {
            Some(connection) => {
                let mut worst = Fault::Sound;
                let committed = set(connection, &mut self.durability, durability)
                    .and_then(|()| write_all(connection, batch, &mut answers, &mut worst));
                let fault = committed.as_ref().err().map_or(worst, |error| worst.max(Fault::of(error)));
                (committed, fault)
            }
            None => return,
        };
        if let Err(error) = &committed {
            tracing::error!(%error, "the journal could not commit");
        }
        // Before anybody tries again.
        self.see_to_it(fault);
        // Before anybody hears of it; one that failed counts too, since the file may be another one now.
        if moves || committed.is_err() {
            self.moves.fetch_add(1, Ordering::Release);
        }
        for answer in answers {
            answer(if committed.is_ok() { Ok(()) } else { Err(fault) });
        }
    }

    /// Checkpoints the log into the file, and empties it if there are no readers.
    fn checkpoint(&mut self) {
        let Some(connection) = &self.connection else { return };
        self.owes = false;
        // A reader is not waited for: the next time comes.
        let done = connection.busy_timeout(Duration::ZERO).and_then(|()| {
            connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?;
            connection.busy_timeout(Duration::from_secs(5))
        });
        if let Err(error) = done {
            tracing::warn!(%error, "the journal's log could not be brought into its file");
            self.see_to_it(Fault::of(&error));
        }
    }

    /// Handles a failure of the file.
    fn see_to_it(&mut self, fault: Fault) {
        match fault {
            Fault::Sound => {}
            Fault::Full => self.disk.release(),
            Fault::Unsynced | Fault::Damaged => self.renew(fault),
        }
    }

    /// Never goes on with a file of which a sync failed or a page is damaged: the one is written anew, the other is
    /// opened and looked at again, and replaced where it is damaged.
    fn renew(&mut self, fault: Fault) {
        let Some(connection) = self.connection.take() else { return };
        let renewed = if fault == Fault::Unsynced {
            recover::rewrite_unsynced(connection, &self.path)
        } else {
            drop_as_it_is(connection);
            migrate::open(&self.path, true)
        };
        self.durability = Durability::Process;
        match renewed {
            Ok(connection) => {
                tracing::warn!(journal = %self.path.display(), "the journal goes on in a file that was looked at");
                self.connection = Some(connection);
            }
            Err(error) => {
                tracing::error!(%error, "the journal cannot go on");
                self.disk.fail();
            }
        }
    }
}

/// Closes the file without bringing its log into it.
fn drop_as_it_is(connection: Connection) {
    use rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    // Where even this fails, the look at the file comes after whatever closing did.
    let _ = connection.set_db_config(SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    drop(connection);
}

/// Runs every job in one transaction and commits it.
fn write_all(
    connection: &mut Connection,
    batch: Vec<Job>,
    answers: &mut Vec<Answer>,
    worst: &mut Fault,
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

fn set(connection: &Connection, now: &mut Durability, wanted: Durability) -> rusqlite::Result<()> {
    if *now != wanted {
        let level = if wanted == Durability::Power { "full" } else { "normal" };
        connection.pragma_update(None, "synchronous", level)?;
        *now = wanted;
    }
    Ok(())
}
