//! Who adds rows while a runner lives: one thread, which also makes them durable a moment later, keeps the head, and
//! lets old rows go. No call waits for a sync, and none for longer than a write to the file takes. What cannot be
//! written (a full disk) is kept for a while and tried again.

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

/// How long nothing is to be added before what was is made durable.
const QUIET: Duration = Duration::from_secs(3);
/// How long that may be put off while more and more is added.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How often rows that could not be written are tried again, while no more come.
const AGAIN: Duration = Duration::from_secs(5);
/// How often it is looked whether rows are old.
const LOOK: Duration = Duration::from_hours(6);
/// How many rows share a write at most.
const BATCH: usize = 256;
/// How many rows wait for a disk that has no room; more are counted and lost.
const WAITING: usize = 10_000;

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub struct Keep {
    /// For how long.
    pub age: Duration,
    /// How many bytes at most.
    pub bytes: u64,
}

/// Signs a text with the device's key: 64 bytes as base64.
pub type Sign = Box<dyn Fn(&str) -> String + Send>;

/// The audit of a runner. Cheap to clone; the thread ends with the last clone.
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
    /// To be added; who waits hears of it.
    Add(Vec<Entry>, Option<oneshot::Sender<()>>),
    /// Nothing more is to come for now: everything is made durable.
    Rest(oneshot::Sender<()>),
}

impl Audit {
    /// Opens the file, making it where it is not there, and starts the thread. A file that cannot be opened now is
    /// tried again with each row.
    ///
    /// # Errors
    /// There is no thread to be had.
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

    /// Adds rows soon; nobody waits.
    pub fn note(&self, entries: Vec<Entry>) {
        if !entries.is_empty() {
            // Without the thread there is nobody to tell; it ends with the last of these.
            let _ = self.jobs.send(Job::Add(entries, None));
        }
    }

    /// Adds a row, and waits until it is in the file, or has to wait for room.
    pub async fn add(&self, entry: Entry) {
        let (done, is_done) = oneshot::channel();
        if self.jobs.send(Job::Add(vec![entry], Some(done))).is_ok() {
            let _ = is_done.await;
        }
    }

    /// Where the chain stands now.
    pub fn last(&self) -> Link {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether rows could not be written the last time.
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

/// Adds one row durably, from a command that is no runner.
///
/// # Errors
/// It could not be written.
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
    /// How many had to be let go of.
    lost: u64,
    /// Whether the last write failed; the log has heard of it.
    fails: Arc<AtomicBool>,
    dirty_since: Option<Instant>,
    /// When it was last looked for old rows.
    looked: Option<Instant>,
    /// When a write last failed.
    failed: Option<Instant>,
    /// The rows of earlier lives were looked at.
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

    /// How long the next job is waited for; none where nothing else is to be done.
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
        // Where the last write failed, no call waits for the next one to fail.
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

    /// Writes what waits. What cannot be written stays, up to a bound.
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

    /// Once, before anything is added: what the rows of earlier lives are worth.
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

    /// Lets go of the oldest of too many.
    fn bound_waiting(&mut self) {
        let over = self.waiting.len().saturating_sub(WAITING);
        self.waiting.drain(..over);
        self.lost += over as u64;
    }

    /// Makes what was added durable, then says so in the head; and lets old rows go now and then.
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
