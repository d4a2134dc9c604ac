//! The full output of every clipped call, kept on disk for ReadOutput.
//! Not here: writing an output (spool), reading it again (kept) and the order of removal (ledger).
#![expect(clippy::disallowed_methods, reason = "this room owns the kept outputs")]

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use super::kept_indexes::KeptIndexes;
use super::ledger::Ledger;
use super::spool::{Spool, Stopped};
use super::{Budget, Clipped, KeptOutput};
use crate::durable::open_private_file;
use crate::ids::{RequestId, hex};

/// The name of a kept output: `out_` and twelve hex digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputHandle(String);

impl OutputHandle {
    const PREFIX: &'static str = "out_";
    const DIGITS: usize = 12;

    /// Parses a handle as a model writes it. The grammar cannot express a path.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(Self::PREFIX)?;
        let hex = digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        (digits.len() == Self::DIGITS && hex).then(|| Self(text.to_owned()))
    }

    /// The handle as shown to the model.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OutputHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The limits on the size and the age of stored outputs.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of one output.
    pub each: u64,
    /// Bytes of all outputs.
    pub all: u64,
    /// The time from its start for which an output is stored.
    pub age: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { each: 256 << 20, all: 2 << 30, age: Duration::from_hours(7 * 24) }
    }
}

/// The reason why a stored output cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The text is not a handle.
    #[error("a handle is out_ and twelve hex digits, as a result's marker shows it")]
    Malformed,
    /// There is no such output, or no longer.
    #[error("there is no such output")]
    Unknown,
    /// Something was printed, but nothing of it could be kept.
    #[error("nothing of it is kept: {0}")]
    NotKept(String),
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The folder of stored outputs. Clones share one inventory.
#[derive(Debug, Clone)]
pub struct OutputStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) dir: PathBuf,
    pub(super) limits: Limits,
    ledger: Mutex<Ledger>,
    indexes: KeptIndexes,
}

impl Shared {
    /// A panic elsewhere leaves the account at worst a little off, which the next start corrects.
    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutputStore {
    /// Opens the folder, making it (0700) where needed, and removes outputs beyond the limits.
    pub fn open(dir: &Path) -> io::Result<Self> {
        Self::with_limits(dir, Limits::default())
    }

    /// Opens the folder under limits of the caller's own.
    pub fn with_limits(dir: &Path, limits: Limits) -> io::Result<Self> {
        private_dir(dir)?;
        let mut ledger = Ledger::load(dir)?;
        ledger.sweep(dir, &limits, SystemTime::now());
        let (ledger, indexes) = (Mutex::new(ledger), KeptIndexes::default());
        Ok(Self { shared: Arc::new(Shared { dir: dir.to_owned(), limits, ledger, indexes }) })
    }

    /// Returns the handle of a request's `n`-th output (from 0). It is the same after a restart, so that recovery finds
    /// the output of a killed call.
    pub fn handle(request: &RequestId, n: u32) -> OutputHandle {
        let digest = Sha256::digest(format!("{request}:{n}"));
        OutputHandle(format!("{}{}", OutputHandle::PREFIX, hex(&digest[..OutputHandle::DIGITS / 2])))
    }

    /// Starts storing a request's `n`-th output, replacing one from an earlier run.
    pub fn create(&self, request: &RequestId, n: u32) -> io::Result<Spool> {
        let handle = Self::handle(request, n);
        let path = self.path(&handle);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = open_private_file(&path, |options| options.write(true).create_new(true))?;
        self.shared.indexes.forget(&handle);
        let now = SystemTime::now();
        let mut ledger = self.shared.ledger();
        let order = ledger.begin(handle.as_str(), now);
        ledger.sweep(&self.shared.dir, &self.shared.limits, now);
        drop(ledger);
        Ok(Spool::of(handle, file, order, 0, Arc::clone(&self.shared)))
    }

    /// Resumes a request's `n`-th output from an earlier run: a spool that appends, and a reader of the output so far.
    /// `None` if there is none.
    pub fn go_on(&self, request: &RequestId, n: u32) -> io::Result<Option<(Spool, impl io::Read + use<>)>> {
        let handle = Self::handle(request, n);
        let path = self.path(&handle);
        let so_far = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let file = OpenOptions::new().append(true).open(&path)?;
        let size = so_far.metadata()?.len();
        let mut ledger = self.shared.ledger();
        let order = ledger.begin(handle.as_str(), SystemTime::now());
        ledger.count(order, size);
        drop(ledger);
        let spool = Spool::of(handle, file, order, size, Arc::clone(&self.shared));
        Ok(Some((spool, io::Read::take(so_far, size))))
    }

    /// Keeps a whole text. Unlike a spool's, a failure to write is an error, for nothing else depends on it.
    pub fn keep(&self, request: &RequestId, n: u32, text: &str) -> io::Result<OutputHandle> {
        let mut spool = self.create(request, n)?;
        spool.write(text.as_bytes());
        spool.flush();
        let refused = match spool.stopped.take() {
            None | Some(Stopped::Limit(_)) => return Ok(spool.handle().clone()),
            Some(Stopped::NoRoom(reason)) => io::Error::new(io::ErrorKind::QuotaExceeded, reason),
            Some(Stopped::Failed(error)) => error,
        };
        let _ = std::fs::remove_file(self.path(spool.handle()));
        Err(refused)
    }

    /// Keeps a whole text under the first of the request's numbers that is free.
    pub fn keep_next(&self, request: &RequestId, text: &str) -> io::Result<OutputHandle> {
        let taken = |n: &u32| self.path(&Self::handle(request, *n)).exists();
        let free = (0..1_000).find(|n| !taken(n)).ok_or(io::ErrorKind::AlreadyExists)?;
        self.keep(request, free, text)
    }

    /// Opens a kept output by the handle that a model wrote.
    pub fn find(&self, handle: &str) -> Result<KeptOutput, FindError> {
        let handle = OutputHandle::parse(handle.trim()).ok_or(FindError::Malformed)?;
        if let Some(reason) = self.shared.ledger().refusal(handle.as_str()) {
            return Err(FindError::NotKept(reason.to_owned()));
        }
        match File::open(self.path(&handle)) {
            Ok(file) => Ok(KeptOutput::new(handle, file, self.shared.indexes.clone())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(FindError::Unknown),
            Err(error) => Err(FindError::Io(error)),
        }
    }

    /// Returns the last characters of an output, from the start of a line where that leaves enough. `None` if nothing
    /// was stored. Used to report the output of a call that was cut off.
    pub fn tail_text(&self, handle: &OutputHandle, max_chars: usize) -> io::Result<Option<String>> {
        self.open_kept(handle)?.map(|mut kept| kept.tail_text(max_chars)).transpose()
    }

    /// A kept output within a budget, with its own handle in the marker; none where nothing was kept.
    pub fn clipped(&self, handle: &OutputHandle, budget: Budget) -> io::Result<Option<Clipped>> {
        self.open_kept(handle)?.map(|mut kept| kept.clipped(budget)).transpose()
    }

    /// The time for which outputs are stored.
    pub fn kept_for(&self) -> Duration {
        self.shared.limits.age
    }

    /// Returns the reason why the end of an output is missing, if this process saw it happen.
    pub fn cut_short(&self, handle: &OutputHandle) -> Option<String> {
        self.shared.ledger().cut_short(handle.as_str()).map(str::to_owned)
    }

    fn open_kept(&self, handle: &OutputHandle) -> io::Result<Option<KeptOutput>> {
        match self.find(handle.as_str()) {
            Ok(kept) => Ok(Some(kept)),
            Err(FindError::Unknown | FindError::Malformed | FindError::NotKept(_)) => Ok(None),
            Err(FindError::Io(error)) => Err(error),
        }
    }

    fn path(&self, handle: &OutputHandle) -> PathBuf {
        self.shared.dir.join(handle.as_str())
    }
}

fn private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
        builder.mode(0o700).create(dir)?;
        if std::fs::metadata(dir)?.permissions().mode() & 0o077 != 0 {
            std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))?;
        }
    }
    #[cfg(not(unix))]
    builder.create(dir)?;
    Ok(())
}
