//! The database: one writer on its own thread, a few readers, one transaction per call.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use rusqlite_migration::{M, Migrations};
use tokio::sync::{Semaphore, oneshot};

use punie_core::lock_wait;

use super::failure::{FunctionFailure, FunctionResult};

/// The most concurrent reads; each takes microseconds, so few are enough.
const READERS: usize = 4;
/// The most concurrent long reads, in addition.
const LONG_READERS: usize = 2;
/// More than the number of distinct statements, so that each is prepared once.
const STATEMENTS: usize = 64;

/// The reason why the database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file or its lock cannot be written.
    #[error("the backend's database {} cannot be opened: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// Another backend has opened it: its held polls would not notice our commits.
    #[error("another backend uses {}", .0.display())]
    InUse(PathBuf),
    /// SQLite failed.
    #[error("the backend's database failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// Its tables are those of a newer version of this program.
    #[error("the backend's database {} was written by a newer version of punie-runner", .0.display())]
    Newer(PathBuf),
    /// Its tables could not be updated to the current schema.
    #[error("the backend's database could not be migrated: {0}")]
    Migration(#[from] rusqlite_migration::Error),
}

macro_rules! migration_files {
    ($($name:literal),* $(,)?) => {
        [$(M::up(include_str!(concat!("../../../migrations/dev_backend/", $name)))),*]
    };
}

/// The numbered migrations. Never edit one that was released.
const MIGRATIONS: &[M<'static>] = &migration_files![
    "001_tables.sql",
    "002_sync.sql",
    "003_permissions.sql",
    "004_housekeeping.sql",
    "005_processes.sql",
    "006_operator.sql",
    "007_watched_progress.sql",
    "008_beat_interval.sql",
    "009_deployment.sql",
    "010_answer_text.sql",
    "011_caller_name.sql",
    "012_session.sql",
    "013_pairing_terms.sql",
    "014_swept_ids.sql",
    "015_questions_by_expiry.sql",
    "016_question_host.sql",
];

/// Returns the migrations to the current schema.
pub(super) fn schema_migrations() -> Migrations<'static> {
    Migrations::from_slice(MIGRATIONS)
}

/// Checks that this program can open a backend's database, if there is one. Changes nothing.
///
/// # Errors
/// [`StoreError::Newer`], or it cannot be read.
pub fn check_database_version(path: &Path) -> Result<(), StoreError> {
    if !path.exists() {
        return Ok(());
    }
    punie_core::record_locks::install_lock_calls();
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let version: i64 = database.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if usize::try_from(version).is_ok_and(|version| version > MIGRATIONS.len()) {
        return Err(StoreError::Newer(path.to_owned()));
    }
    Ok(())
}

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// The open database.
pub(super) struct BackendStore {
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    readers: ReaderPool,
    long_readers: Arc<ReaderPool>,
    turns: Arc<Semaphore>,
}

impl fmt::Debug for BackendStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl BackendStore {
    /// Opens or creates the file and updates its tables to the current schema.
    pub fn open_store(path: &Path) -> Result<Self, StoreError> {
        let lock = lock_database(path)?;
        let mut writer = connect_database(path)?;
        schema_migrations().to_latest(&mut writer)?;
        lock_wait::end_opening(&writer)?;
        let readers = ReaderPool::open(path, READERS)?;
        let long_readers = ReaderPool::open(path, LONG_READERS)?;
        let (jobs, queue) = mpsc::channel::<Job>();
        let thread = std::thread::Builder::new()
            .name("dev-backend-writer".into())
            .spawn(move || run_writer(writer, &queue, &lock))
            .map_err(|source| StoreError::File {
                path: path.into(),
                source,
            })?;
        Ok(Self {
            jobs: Mutex::new(Some(jobs)),
            writer: Mutex::new(Some(thread)),
            readers,
            long_readers: Arc::new(long_readers),
            turns: Arc::new(Semaphore::new(LONG_READERS)),
        })
    }

    /// Runs a job on the writer's thread, after earlier jobs, without blocking the caller's thread.
    pub async fn run_write<T, F>(&self, job: F) -> FunctionResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> T + Send + 'static,
    {
        let (done, answer) = oneshot::channel();
        self.send_job(Box::new(move |db| drop(done.send(job(db)))))?;
        answer.await.map_err(|_| FunctionFailure::Stopping)
    }

    /// Runs a job on the writer's thread and blocks until it is done.
    pub fn run_write_blocking<T, F>(&self, job: F) -> FunctionResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> T + Send + 'static,
    {
        let (done, answer) = mpsc::sync_channel(1);
        self.send_job(Box::new(move |db| drop(done.send(job(db)))))?;
        answer.recv().map_err(|_| FunctionFailure::Stopping)
    }

    /// Runs a short read on the calling thread, with a free reader. In WAL mode reads do not wait for the writer, and a
    /// poll takes microseconds: passing it to another thread would cost more.
    pub fn run_read<T>(
        &self,
        job: impl FnOnce(&Connection) -> FunctionResult<T>,
    ) -> FunctionResult<T> {
        self.readers.read_on_free(job)
    }

    /// Runs a read that may be long, on a blocking thread and with separate readers. Callers are served in the order of
    /// arrival.
    pub async fn run_long_read<T, F>(&self, job: F) -> FunctionResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> FunctionResult<T> + Send + 'static,
    {
        let turn = Arc::clone(&self.turns)
            .acquire_owned()
            .await
            .map_err(|_| FunctionFailure::Stopping)?;
        let readers = Arc::clone(&self.long_readers);
        let read = tokio::task::spawn_blocking(move || {
            let answer = readers.read_on_free(job);
            drop(turn);
            answer
        });
        read.await.map_err(|_| FunctionFailure::Stopping)?
    }

    /// Stops the writer after the queued jobs, and releases the file.
    pub fn close(&self) {
        drop(self.jobs.lock().take());
        let writer = self.writer.lock().take();
        // A job on the writer's own thread may call this; the thread then ends by itself.
        if let Some(writer) =
            writer.filter(|writer| writer.thread().id() != std::thread::current().id())
        {
            // The callers of a writer that panicked have their errors already.
            drop(writer.join());
        }
    }

    fn send_job(&self, job: Job) -> FunctionResult<()> {
        self.jobs
            .lock()
            .as_ref()
            .ok_or(FunctionFailure::Stopping)?
            .send(job)
            .map_err(|_| FunctionFailure::Stopping)
    }
}

impl Drop for BackendStore {
    fn drop(&mut self) {
        self.close();
    }
}

/// A pool of connections that only read.
struct ReaderPool(Vec<Mutex<Connection>>);

impl ReaderPool {
    fn open(path: &Path, count: usize) -> Result<Self, StoreError> {
        (0..count)
            .map(|_| {
                let reader = connect_database(path)?;
                lock_wait::end_opening(&reader)?;
                Ok(Mutex::new(reader))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Reads a snapshot with a free connection, or waits for the first one.
    fn read_on_free<T>(
        &self,
        job: impl FnOnce(&Connection) -> FunctionResult<T>,
    ) -> FunctionResult<T> {
        let free = self.0.iter().find_map(Mutex::try_lock);
        let mut reader = free.unwrap_or_else(|| self.0[0].lock());
        let snapshot = reader.transaction()?;
        job(&snapshot)
    }
}

/// Runs jobs one after the other on the writer's thread. A job that panics is rolled back, and only its caller gets no
/// answer.
fn run_writer(mut db: Connection, queue: &mpsc::Receiver<Job>, lock: &File) {
    for job in queue {
        if catch_unwind(AssertUnwindSafe(|| job(&mut db))).is_err() {
            tracing::error!(
                "a function of the embedded backend panicked; its transaction was rolled back"
            );
        }
    }
    drop(db);
    // Explicitly: otherwise a child process that is just starting would keep the lock until its exec.
    let _ = lock.unlock();
}

/// Locks the file for this backend. The lock file lies beside it, and the lock ends with the process.
fn lock_database(path: &Path) -> Result<File, StoreError> {
    let failed = |source| StoreError::File {
        path: path.into(),
        source,
    };
    let mut private = OpenOptions::new();
    private.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut private, 0o600);
    // Created here, so that SQLite, which copies the file's mode to its companion files, finds it private.
    private.open(path).map_err(failed)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    let lock = private.open(&beside).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse(path.into())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Opens a connection with the settings of this database.
pub(super) fn connect_database(path: &Path) -> Result<Connection, StoreError> {
    punie_core::record_locks::install_lock_calls();
    let db = Connection::open(path)?;
    lock_wait::wait_for_unlock(&db, path)?;
    // WAL lets reads run beside the writer; NORMAL loses nothing if the process dies.
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "cache_size", -8 * 1024)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(db)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_migrations_are_valid() {
        schema_migrations()
            .validate()
            .expect("every migration applies to an empty database");
    }

    #[test]
    fn a_second_backend_on_one_file_is_refused() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("b.sqlite3");
        let store = BackendStore::open_store(&path).expect("the first");
        assert!(matches!(
            BackendStore::open_store(&path),
            Err(StoreError::InUse(_))
        ));
        store.close();
        BackendStore::open_store(&path).expect("given back");
    }

    #[test]
    fn a_job_that_panics_costs_only_its_own_answer() {
        let home = tempfile::tempdir().expect("a folder");
        let store = BackendStore::open_store(&home.path().join("b.sqlite3")).expect("opened");
        let died: Result<(), _> = store.run_write_blocking(|_| panic!("on purpose"));
        assert!(matches!(died, Err(FunctionFailure::Stopping)));
        assert_eq!(store.run_write_blocking(|_| 7).expect("still writing"), 7);
    }
}
