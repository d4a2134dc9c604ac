//! The one thread that writes: it takes what is queued, runs it in one transaction and commits once.
//! A promise about a tool with effects makes that commit durable against power loss; others are durable against
//! a crash of this process.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use super::JournalError;

/// What must survive for a write to have been worth it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Durability {
    /// A crash of this process: `synchronous=NORMAL`, no fsync.
    Process,
    /// A power cut: `synchronous=FULL`, one fsync for all that is queued.
    Power,
}

/// How many queued writes share one transaction at most.
const BATCH: usize = 64;
/// How long a write that nobody waits for may wait for others to share their transaction.
const COMPANY: Duration = Duration::from_millis(20);

type Answer = Box<dyn FnOnce(bool) + Send>;
type Write = Box<dyn FnOnce(&Transaction<'_>) -> Answer + Send>;

struct Job {
    durability: Durability,
    /// Somebody waits for it.
    urgent: bool,
    write: Write,
}

#[derive(Clone)]
pub(super) struct Writer {
    jobs: Sender<Job>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Writer")
    }
}

impl Writer {
    /// Starts the thread; it ends when the last clone is gone.
    pub(super) fn start(connection: Connection) -> Self {
        let (jobs, queue) = channel();
        thread::Builder::new()
            .name("journal".into())
            .spawn(move || Thread { connection, durability: Durability::Process }.run(&queue))
            .expect("a thread for the journal is needed at start-up, when there are few");
        Self { jobs }
    }

    /// Runs a write and waits until it is committed.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        durability: Durability,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        self.queue(durability, true, work).await.unwrap_or(Err(JournalError::NotCommitted))
    }

    /// Runs a write soon, together with the next one that somebody waits for; whether it succeeds is only logged.
    pub(super) fn write_later(
        &self,
        durability: Durability,
        work: impl FnOnce(&Transaction<'_>) -> Result<(), JournalError> + Send + 'static,
    ) {
        drop(self.queue(durability, false, work));
    }

    fn queue<T: Send + 'static>(
        &self,
        durability: Durability,
        urgent: bool,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, JournalError> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, JournalError>> {
        let (answer, answered) = oneshot::channel();
        let write: Write = Box::new(move |transaction| {
            let result = in_savepoint(transaction, work);
            Box::new(move |committed| {
                let result = if committed { result } else { result.and(Err(JournalError::NotCommitted)) };
                // Nobody listens when nobody waits, or no longer; the write stands all the same.
                if let Err(Err(error)) = answer.send(result)
                    && !urgent
                {
                    tracing::warn!(%error, "a note could not be written to the journal");
                }
            })
        });
        // Without the thread the answer's sender is dropped here, which the receiver reads as not committed.
        let _ = self.jobs.send(Job { durability, urgent, write });
        answered
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

/// The first job and, while nobody waits for any of them, those that come within a moment.
fn gather(first: Job, queue: &Receiver<Job>) -> Vec<Job> {
    let until = Instant::now() + COMPANY;
    let mut batch = vec![first];
    while batch.len() < BATCH && batch.iter().all(|job| !job.urgent) {
        match queue.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(job) => batch.push(job),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    batch
}

struct Thread {
    connection: Connection,
    durability: Durability,
}

impl Thread {
    fn run(mut self, queue: &Receiver<Job>) {
        while let Ok(first) = queue.recv() {
            let mut batch = gather(first, queue);
            batch.extend(queue.try_iter().take(BATCH - batch.len()));
            self.commit(batch);
        }
    }

    fn commit(&mut self, batch: Vec<Job>) {
        let durability = batch.iter().map(|job| job.durability).max().unwrap_or(Durability::Process);
        let mut answers: Vec<Answer> = Vec::with_capacity(batch.len());
        let committed = self.set(durability).and_then(|()| {
            // At once a writer: one that began by reading could not wait for another process that writes.
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for job in batch {
                // A full disk can end the whole transaction under a job. What ran before is then undone; what runs
                // after would commit by itself, unknown to its caller.
                if transaction.is_autocommit() {
                    break;
                }
                answers.push((job.write)(&transaction));
            }
            transaction.commit()
        });
        if let Err(error) = &committed {
            tracing::error!(%error, "the journal could not commit");
        }
        for answer in answers {
            answer(committed.is_ok());
        }
    }

    fn set(&mut self, durability: Durability) -> rusqlite::Result<()> {
        if self.durability != durability {
            let level = if durability == Durability::Power { "full" } else { "normal" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.durability = durability;
        }
        Ok(())
    }
}
