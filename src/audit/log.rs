//! The thread that writes audit rows while a runner runs. It also syncs them a moment later, stores the head and
//! removes old rows. No call waits for a sync, and none waits longer than one write to the file. Rows that cannot be
//! written (a full disk) are buffered and retried.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::chain::Chain;
use super::row::Link;
use super::{Entry, Event, Head, Places, Who, proof, retain};

/// The time without new rows after which rows are synced.
const QUIET: Duration = Duration::from_secs(3);
/// The longest delay of a sync while rows keep coming.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The interval between retries of a failed write, while no more rows come.
const AGAIN: Duration = Duration::from_secs(5);
/// The interval between searches for old rows.
const LOOK: Duration = Duration::from_hours(6);
/// The most jobs that share a write.
const BATCH: usize = 256;
/// The most rows that wait for disk space; further ones are counted and dropped.
const WAITING: usize = 10_000;

/// The limits of the stored rows.
#[derive(Debug, Clone, Copy)]
pub struct Keep {
    /// The age up to which rows are kept.
    pub age: Duration,
    /// The most bytes of the file.
    pub bytes: u64,
}

/// Signs a text with the device's key: 64 bytes as base64.
pub type Sign = Box<dyn Fn(&str) -> String + Send>;

/// A runner's audit log. Cheap to clone; the thread ends with the last clone.
#[derive(Clone)]
pub struct Audit {
    jobs: Sender<Job>,
    last: Arc<Mutex<Link>>,
    fails: Arc<AtomicBool>,
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Audit")
    }
}

enum Job {
    /// Adds rows, and confirms that to a caller that waits.
    Add(Vec<Entry>, Option<oneshot::Sender<()>>),
    /// Makes everything durable, because nothing more is expected for now.
    Rest(oneshot::Sender<()>),
}

impl Audit {
    /// Opens the file, creating it if it is missing, and starts the thread. If the file cannot be opened now, that is
    /// retried with each row.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn open(places: Places, keep: Keep, sign: Option<Sign>) -> io::Result<Self> {
        let last = Arc::new(Mutex::new(Link::none()));
        let fails = Arc::new(AtomicBool::new(false));
        let (jobs, queue) = channel();
        let mut thread = Thread {
            chain: Chain::new(places),
            keep,
            sign,
            last: Arc::clone(&last),
            waiting: Vec::new(),
            lost: 0,
            fails: Arc::clone(&fails),
            dirty_since: None,
            looked: None,
            failed: None,
            is_proven: false,
        };
        if let Err(error) = thread.prove() {
            tracing::error!(%error, "the audit cannot be opened now");
        }
        thread::Builder::new().name("audit".into()).spawn(move || thread.run(&queue))?;
        Ok(Self { jobs, last, fails })
    }

    /// Queues rows without waiting.
    pub fn note(&self, entries: Vec<Entry>) {
        if !entries.is_empty() {
            // Without the thread no reader is left; it ends with the last clone.
            let _ = self.jobs.send(Job::Add(entries, None));
        }
    }

    /// Adds a row and waits until it is in the file, or is buffered because the disk is full.
    pub async fn add(&self, entry: Entry) {
        let (done, is_done) = oneshot::channel();
        if self.jobs.send(Job::Add(vec![entry], Some(done))).is_ok() {
            let _ = is_done.await;
        }
    }

    /// Returns the chain's last link.
    pub fn last(&self) -> Link {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether the last write failed.
    pub fn is_failing(&self) -> bool {
        self.fails.load(Ordering::Relaxed)
    }

    /// Makes everything durable.
    pub async fn rest(&self) {
        let (done, is_done) = oneshot::channel();
        if self.jobs.send(Job::Rest(done)).is_ok() {
            let _ = is_done.await;
        }
    }
}

/// Adds one row durably, from a command outside the runner.
///
/// # Errors
/// The row could not be written.
pub fn append_now(places: Places, entry: Entry) -> io::Result<()> {
    let mut chain = Chain::new(places);
    chain.append(&[entry.bounded()])?;
    chain.sync()
}

struct Thread {
    chain: Chain,
    keep: Keep,
    sign: Option<Sign>,
    last: Arc<Mutex<Link>>,
    /// Rows that could not be written yet.
    waiting: Vec<Entry>,
    /// The number of dropped rows.
    lost: u64,
    /// The last write failed; the log reports only the first failure.
    fails: Arc<AtomicBool>,
    dirty_since: Option<Instant>,
    /// The time of the last search for old rows.
    looked: Option<Instant>,
    /// The time of the last failed write.
    failed: Option<Instant>,
    /// The rows of earlier processes were checked.
    is_proven: bool,
}

impl Thread {
    fn run(mut self, queue: &Receiver<Job>) {
        loop {
            let job = match self.patience() {
                Some(wait) => match queue.recv_timeout(wait) {
                    Ok(job) => job,
                    Err(RecvTimeoutError::Timeout) => {
                        self.write();
                        self.settle();
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                },
                None => match queue.recv() {
                    Ok(job) => job,
                    Err(_) => break,
                },
            };
            self.take(job, queue);
            if self.dirty_since.is_some_and(|since| since.elapsed() >= LONGEST_WAIT) {
                self.settle();
            }
        }
        self.write();
        self.settle();
    }

    /// Returns the longest wait for the next job; `None` if nothing else is due.
    fn patience(&self) -> Option<Duration> {
        if self.waiting.is_empty() { self.dirty_since.map(|_| QUIET) } else { Some(AGAIN) }
    }

    fn take(&mut self, first: Job, queue: &Receiver<Job>) {
        let (mut heard, mut resting) = (Vec::new(), Vec::new());
        for job in std::iter::once(first).chain(queue.try_iter().take(BATCH)) {
            match job {
                Job::Add(entries, done) => {
                    self.waiting.extend(entries.into_iter().map(Entry::bounded));
                    heard.extend(done);
                }
                Job::Rest(done) => resting.push(done),
            }
        }
        // While writes fail, no call waits for the next failure.
        let failed = self.failed.is_some_and(|failed| failed.elapsed() < AGAIN);
        if !failed || !resting.is_empty() {
            self.write();
        } else {
            self.bound_waiting();
        }
        for done in heard {
            let _ = done.send(());
        }
        if !resting.is_empty() {
            self.settle();
        }
        for done in resting {
            let _ = done.send(());
        }
    }

    /// Writes the buffered rows. Rows that cannot be written stay, up to a bound.
    fn write(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        if self.lost > 0 {
            let at_ms = self.waiting[0].at_ms;
            let told = Entry { count: Some(self.lost), ..Entry::new(Event::Lost, Who::Runner, at_ms) };
            self.waiting.insert(0, told);
        }
        match self.prove().and_then(|()| self.chain.append(&self.waiting)) {
            Ok(link) => {
                self.waiting.clear();
                (self.lost, self.failed) = (0, None);
                self.fails.store(false, Ordering::Relaxed);
                self.dirty_since.get_or_insert_with(Instant::now);
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = link;
                crate::failpoint::reach("audit.written");
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
    fn prove(&mut self) -> io::Result<()> {
        if self.is_proven {
            return Ok(());
        }
        let unproven = proof::look(&mut self.chain, self.sign.as_ref(), retain::now_ms())?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = self.chain.last()?;
        if let Some(entry) = unproven {
            tracing::error!("nothing vouches for the rows of the audit that were there before this start");
            self.waiting.push(entry);
        }
        self.is_proven = true;
        Ok(())
    }

    /// Drops the oldest rows beyond the bound.
    fn bound_waiting(&mut self) {
        let over = self.waiting.len().saturating_sub(WAITING);
        self.waiting.drain(..over);
        self.lost += over as u64;
    }

    /// Syncs the added rows, then updates the head; now and then removes old rows.
    fn settle(&mut self) {
        if self.dirty_since.take().is_some()
            && let Err(error) = self.chain.sync().and_then(|()| self.keep_head())
        {
            tracing::warn!(%error, "the audit's head could not be kept");
        }
        let is_long =
            std::fs::metadata(&self.chain.places.rows).is_ok_and(|rows| rows.len() > self.keep.bytes);
        if !is_long && self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return;
        }
        self.looked = Some(Instant::now());
        match retain::let_go(&mut self.chain, self.keep, self.sign.as_ref()) {
            Ok(Some(link)) => {
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = link;
                if let Err(error) = self.keep_head() {
                    tracing::warn!(%error, "the audit's head could not be kept");
                }
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "old rows of the audit could not be let go"),
        }
    }

    fn keep_head(&self) -> io::Result<()> {
        let at = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let signature = self.sign.as_ref().map(|sign| sign(&Head::text(&at)));
        Head { at, signature }.write(&self.chain.places.head)
    }
}
