//! The thread that writes audit rows while a runner runs. It also syncs them a moment later, stores the head and
//! removes old rows. No call waits for a sync, and none waits longer than one write to the file. Rows that cannot be
//! written (a full disk) are buffered and retried.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::chain::AuditChain;
use super::chain_head::TextSigner;
use super::row::ChainLink;
use super::row_expiry::AuditRetention;
use super::{AuditActor, AuditEntry, AuditEvent, AuditHead, AuditPaths, earlier_rows, row_expiry};
use punie_core::clock::Clock;

/// The time without new rows after which rows are synced.
const SYNC_DELAY: Duration = Duration::from_secs(3);
/// The longest delay of a sync while rows keep coming.
const MAX_SYNC_DELAY: Duration = Duration::from_secs(10);
/// The interval between retries of a failed write, while no more rows come.
const WRITE_RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The interval between searches for old rows.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_hours(6);
/// The most jobs that share a write.
const MAX_JOBS_PER_WRITE: usize = 256;
/// The most rows that wait for disk space; further ones are counted and dropped.
const MAX_WAITING_ROWS: usize = 10_000;

/// A runner's audit log. Cheap to clone; the thread ends with the last clone.
#[derive(Clone)]
pub struct AuditLog {
    jobs: Sender<AuditJob>,
    last: Arc<Mutex<ChainLink>>,
    fails: Arc<AtomicBool>,
}

impl std::fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Audit")
    }
}

enum AuditJob {
    /// Adds rows, and confirms that to a caller that waits.
    Add(Vec<AuditEntry>, Option<oneshot::Sender<()>>),
    /// Makes everything durable, because nothing more is expected for now.
    Flush(oneshot::Sender<()>),
}

impl AuditLog {
    /// Opens the file, creating it if it is missing, and starts the thread. If the file cannot be opened now, that is
    /// retried with each row.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn open(
        places: AuditPaths,
        keep: AuditRetention,
        sign: Option<TextSigner>,
    ) -> io::Result<Self> {
        let last = Arc::new(Mutex::new(ChainLink::before_first()));
        let fails = Arc::new(AtomicBool::new(false));
        let (jobs, queue) = channel();
        let mut thread = AuditWriter {
            chain: AuditChain::new(places),
            keep,
            sign,
            last: Arc::clone(&last),
            waiting: Vec::new(),
            lost: 0,
            fails: Arc::clone(&fails),
            dirty_since: None,
            expiry_checked_at: None,
            failed: None,
            is_checked: false,
        };
        if let Err(error) = thread.check_earlier_rows() {
            tracing::error!(%error, "the audit cannot be opened now");
        }
        thread::Builder::new()
            .name("audit".into())
            .spawn(move || thread.run_thread(&queue))?;
        Ok(Self { jobs, last, fails })
    }

    /// Queues rows without waiting.
    pub fn queue_entries(&self, entries: Vec<AuditEntry>) {
        if !entries.is_empty() {
            // Without the thread no reader is left; it ends with the last clone.
            let _ = self.jobs.send(AuditJob::Add(entries, None));
        }
    }

    /// Adds a row and waits until it is in the file, or is buffered because the disk is full.
    pub async fn append_entry(&self, entry: AuditEntry) {
        let (done, is_done) = oneshot::channel();
        if self
            .jobs
            .send(AuditJob::Add(vec![entry], Some(done)))
            .is_ok()
        {
            let _ = is_done.await;
        }
    }

    /// Returns the chain's last link.
    pub fn last_row_link(&self) -> ChainLink {
        self.last.lock().clone()
    }

    /// Returns whether the last write failed.
    pub fn is_failing(&self) -> bool {
        self.fails.load(Ordering::Relaxed)
    }

    /// Makes everything durable.
    pub async fn flush_durably(&self) {
        let (done, is_done) = oneshot::channel();
        if self.jobs.send(AuditJob::Flush(done)).is_ok() {
            let _ = is_done.await;
        }
    }
}

/// Adds one row durably, from a command outside the runner.
///
/// # Errors
/// The row could not be written.
pub fn append_entry_durably(places: AuditPaths, entry: AuditEntry) -> io::Result<()> {
    let mut chain = AuditChain::new(places);
    chain.append_entries(&[entry.with_bounded_texts()])?;
    chain.sync_rows()
}

struct AuditWriter {
    chain: AuditChain,
    keep: AuditRetention,
    sign: Option<TextSigner>,
    last: Arc<Mutex<ChainLink>>,
    /// Rows that could not be written yet.
    waiting: Vec<AuditEntry>,
    /// The number of dropped rows.
    lost: u64,
    /// The last write failed; the log reports only the first failure.
    fails: Arc<AtomicBool>,
    dirty_since: Option<Instant>,
    /// The time of the last search for old rows.
    expiry_checked_at: Option<Instant>,
    /// The time of the last failed write.
    failed: Option<Instant>,
    /// The rows of earlier processes were checked.
    is_checked: bool,
}

impl AuditWriter {
    fn run_thread(mut self, queue: &Receiver<AuditJob>) {
        loop {
            let received = match self.receive_timeout() {
                Some(wait) => queue.recv_timeout(wait),
                None => queue.recv().map_err(RecvTimeoutError::from),
            };
            match received {
                Ok(job) => self.process_jobs(job, queue),
                Err(RecvTimeoutError::Timeout) => {
                    self.write_waiting();
                    self.sync_and_expire();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self
                .dirty_since
                .is_some_and(|since| since.elapsed() >= MAX_SYNC_DELAY)
            {
                self.sync_and_expire();
            }
        }
        self.write_waiting();
        self.sync_and_expire();
    }

    /// Returns the longest wait for the next job; `None` if nothing else is due.
    fn receive_timeout(&self) -> Option<Duration> {
        if self.waiting.is_empty() {
            self.dirty_since.map(|_| SYNC_DELAY)
        } else {
            Some(WRITE_RETRY_INTERVAL)
        }
    }

    fn process_jobs(&mut self, first: AuditJob, queue: &Receiver<AuditJob>) {
        let mut added = Vec::new();
        let mut flushed = Vec::new();
        for job in std::iter::once(first).chain(queue.try_iter().take(MAX_JOBS_PER_WRITE)) {
            match job {
                AuditJob::Add(entries, done) => {
                    self.waiting
                        .extend(entries.into_iter().map(AuditEntry::with_bounded_texts));
                    added.extend(done);
                }
                AuditJob::Flush(done) => flushed.push(done),
            }
        }
        // While writes fail, no call waits for the next failure.
        let failed = self
            .failed
            .is_some_and(|failed| failed.elapsed() < WRITE_RETRY_INTERVAL);
        if !failed || !flushed.is_empty() {
            self.write_waiting();
        } else {
            self.bound_waiting();
        }
        for done in added {
            let _ = done.send(());
        }
        if !flushed.is_empty() {
            self.sync_and_expire();
        }
        for done in flushed {
            let _ = done.send(());
        }
    }

    /// Writes the buffered rows. Rows that cannot be written stay, up to a bound.
    fn write_waiting(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        if self.lost > 0 {
            let at_ms = self.waiting[0].at_ms;
            let loss = AuditEntry {
                count: Some(self.lost),
                ..AuditEntry::new(AuditEvent::Lost, AuditActor::Runner, at_ms)
            };
            self.waiting.insert(0, loss);
        }
        match self
            .check_earlier_rows()
            .and_then(|()| self.chain.append_entries(&self.waiting))
        {
            Ok(link) => {
                self.waiting.clear();
                (self.lost, self.failed) = (0, None);
                self.fails.store(false, Ordering::Relaxed);
                self.dirty_since.get_or_insert_with(Instant::now);
                *self.last.lock() = link;
                punie_core::failpoint::reach("audit.written");
            }
            Err(error) => {
                if self.lost > 0 {
                    self.waiting.remove(0);
                }
                self.failed = Some(Instant::now());
                self.bound_waiting();
                if !self.fails.swap(true, Ordering::Relaxed) {
                    tracing::error!(%error, "the audit could not be written; its rows wait, and calls go on");
                }
            }
        }
    }

    /// Checks the rows of earlier processes once, before any row is added.
    fn check_earlier_rows(&mut self) -> io::Result<()> {
        if self.is_checked {
            return Ok(());
        }
        let unproven = earlier_rows::check_stored_head(
            &mut self.chain,
            self.sign.as_ref(),
            Clock::system().now_ms(),
        )?;
        *self.last.lock() = self.chain.last_link()?;
        if let Some(entry) = unproven {
            tracing::error!(
                "nothing vouches for the rows of the audit that were there before this start"
            );
            self.waiting.push(entry);
        }
        self.is_checked = true;
        Ok(())
    }

    /// Drops the oldest rows beyond the bound.
    fn bound_waiting(&mut self) {
        let over = self.waiting.len().saturating_sub(MAX_WAITING_ROWS);
        self.waiting.drain(..over);
        self.lost += over as u64;
    }

    /// Syncs the added rows, then updates the head; now and then removes old rows.
    fn sync_and_expire(&mut self) {
        if self.dirty_since.take().is_some() {
            let synced = self.chain.sync_rows();
            warn_about_head(synced.and_then(|()| self.store_head()));
        }
        let is_long = std::fs::metadata(&self.chain.places.rows)
            .is_ok_and(|rows| rows.len() > self.keep.bytes);
        let is_checked = self
            .expiry_checked_at
            .is_some_and(|looked| looked.elapsed() < EXPIRY_CHECK_INTERVAL);
        if !is_long && (is_checked || self.keep.clock.now_ms().is_none()) {
            return;
        }
        self.expiry_checked_at = Some(Instant::now());
        match row_expiry::remove_old_rows(&mut self.chain, &self.keep, self.sign.as_ref()) {
            Ok(Some(link)) => {
                *self.last.lock() = link;
                warn_about_head(self.store_head());
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "old rows of the audit could not be let go"),
        }
    }

    fn store_head(&self) -> io::Result<()> {
        let at = self.last.lock().clone();
        AuditHead::new(at, self.sign.as_ref()).write_head(&self.chain.places.head)
    }
}

fn warn_about_head(stored: io::Result<()>) {
    if let Err(error) = stored {
        tracing::warn!(%error, "the audit's head could not be kept");
    }
}
