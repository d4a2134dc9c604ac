//! Queues writes for the one thread that writes. A promise about a tool with effects makes its commit durable against
//! power loss; others are durable against a crash of this process.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, Transaction};
use tokio::sync::oneshot;

use super::JournalError;
use super::disk_reserve::DiskReserve;
use super::integrity::DatabaseFault;
use super::job_queue::{QueueSender, unbounded_queue};
use super::write_job::{WriteCallback, WriteDurability, WriteJob, WriteKind, WriteTask};
use super::writer_thread::{CommitRecord, WriterThread};

/// Writes to the journal. Cheap to clone; the thread ends when the last clone is gone.
#[derive(Clone)]
pub(super) struct JournalWriter {
    jobs: QueueSender<WriteJob>,
    disk: DiskReserve,
    commits: Arc<CommitRecord>,
}

impl std::fmt::Debug for JournalWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Writer")
    }
}

impl JournalWriter {
    pub(super) fn start_thread(connection: Connection, path: &Path, disk: DiskReserve) -> Self {
        let (jobs, queue) = unbounded_queue();
        let commits = Arc::<CommitRecord>::default();
        let thread = WriterThread::new(connection, path, disk.clone(), Arc::clone(&commits));
        thread::Builder::new()
            .name("journal".into())
            .spawn(move || thread.run_jobs(&queue))
            .expect("a thread for the journal is needed at start-up, when there are few");
        Self {
            jobs,
            disk,
            commits,
        }
    }

    /// Checkpoints the log into the file.
    pub(super) async fn checkpoint_log(&self) {
        // Whether it succeeds only decides what the next start looks at. The second is there to wait for the first.
        for kind in [WriteKind::Last, WriteKind::Awaited] {
            let _ = self
                .queue_job(kind, WriteDurability::ProcessCrash, |_| Ok(()))
                .await;
        }
    }

    /// Runs a write and waits until it is committed.
    pub(super) async fn write_and_wait<T: Send + 'static>(
        &self,
        durability: WriteDurability,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        self.write_awaited(WriteKind::Awaited, durability, work)
            .await
    }

    /// Runs and awaits a write that moves no request that is not closed.
    pub(super) async fn write_unordered<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        self.write_awaited(WriteKind::Unordered, WriteDurability::ProcessCrash, work)
            .await
    }

    /// Runs such a write at once without waiting; a failure is only logged.
    pub(super) fn write_detached(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<(), JournalError> + Send + 'static,
    ) {
        drop(self.queue_job(WriteKind::Detached, WriteDurability::ProcessCrash, work));
    }

    /// Runs a write soon, together with the next awaited one; a failure is only logged.
    pub(super) fn write_later(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<(), JournalError> + Send + 'static,
    ) {
        drop(self.queue_job(WriteKind::Later, WriteDurability::ProcessCrash, work));
    }

    /// Returns a number that rises with every commit that may have moved a request. While it stands still, so do the
    /// open requests.
    pub(super) fn change_counter(&self) -> u64 {
        self.commits.moves.load(Ordering::Acquire)
    }

    /// Returns the age of the last commit, if there was one.
    pub(super) fn last_commit_age(&self) -> Option<Duration> {
        self.commits.last.lock().map(|at| at.elapsed())
    }

    async fn write_awaited<T: Send + 'static>(
        &self,
        kind: WriteKind,
        durability: WriteDurability,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let answered = self.queue_job(kind, durability, work).await;
        answered.unwrap_or_else(|_unanswered| {
            Err(if self.disk.is_marked_failed() {
                JournalError::Failed
            } else {
                JournalError::NotCommitted
            })
        })
    }

    fn queue_job<T: Send + 'static>(
        &self,
        kind: WriteKind,
        durability: WriteDurability,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, JournalError> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, JournalError>> {
        let (answer, answered) = oneshot::channel();
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
                    && !kind.is_awaited()
                {
                    tracing::warn!(%error, "a note could not be written to the journal");
                }
            });
            (answer, fault)
        });
        // Without the thread the answer's sender is dropped here, which the receiver reads as not committed.
        self.jobs.send(WriteJob {
            durability,
            kind,
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

/// Runs a write so that a failed one takes only its own changes back.
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
