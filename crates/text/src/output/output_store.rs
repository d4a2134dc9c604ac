//! The full output of every clipped call, kept on disk for ReadOutput.
//! Not here: writing an output (spool), reading it again (stored_output) and the order of removal (output_inventory).

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::StoredOutput;
use super::output_handle::OutputHandle;
use super::output_inventory::{OutputInventory, OutputLimits};
use super::output_store_state::OutputStoreState;
use super::spool::{OutputSpool, SpoolStop};
use super::stored_line_indexes::StoredLineIndexes;
use punie_core::durable::{allow_missing, open_private_file, private_folder_builder};
use punie_core::ids::RequestId;

/// The reason why a stored output cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FindOutputError {
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
    shared: Arc<OutputStoreState>,
}

impl OutputStore {
    /// Opens the folder, making it (0700) where needed, and removes outputs beyond the size limits. None is too old.
    pub fn open_output_folder(dir: &Path) -> io::Result<Self> {
        Self::with_limits(dir, OutputLimits::default())
    }

    /// Opens the folder under limits of the caller's own.
    pub fn with_limits(dir: &Path, limits: OutputLimits) -> io::Result<Self> {
        create_private_dir(dir)?;
        let mut inventory = OutputInventory::load_folder(dir)?;
        inventory.remove_expired(dir, &limits);
        Ok(Self {
            shared: Arc::new(OutputStoreState {
                dir: dir.to_owned(),
                limits,
                inventory: Mutex::new(inventory),
                indexes: StoredLineIndexes::default(),
            }),
        })
    }

    /// Returns the handle of a request's `n`-th output (from 0). It is the same after a restart, so that recovery finds
    /// the output of a killed call.
    pub fn handle_for(request: &RequestId, n: u32) -> OutputHandle {
        OutputHandle::for_request(request, n)
    }

    /// Starts storing a request's `n`-th output, replacing one from an earlier run.
    pub fn create_spool(&self, request: &RequestId, n: u32) -> io::Result<OutputSpool> {
        let handle = Self::handle_for(request, n);
        let path = self.path(&handle);
        allow_missing(std::fs::remove_file(&path))?;
        let file = open_private_file(&path, |options| options.write(true).create_new(true))?;
        self.shared.indexes.forget_index(&handle);
        let mut inventory = self.shared.inventory.lock();
        let order = inventory.begin_item(handle.as_str(), SystemTime::now());
        inventory.remove_expired(&self.shared.dir, &self.shared.limits);
        drop(inventory);
        Ok(OutputSpool::for_open_file(
            handle,
            file,
            order,
            0,
            Arc::clone(&self.shared),
        ))
    }

    /// Resumes a request's `n`-th output from an earlier run: a spool that appends, and a reader of the output so far.
    /// `None` if there is none.
    pub fn resume_spool(
        &self,
        request: &RequestId,
        n: u32,
    ) -> io::Result<Option<(OutputSpool, impl io::Read + use<>)>> {
        let handle = Self::handle_for(request, n);
        let path = self.path(&handle);
        let Some(so_far) = allow_missing(File::open(&path))? else {
            return Ok(None);
        };
        let file = OpenOptions::new().append(true).open(&path)?;
        let size = so_far.metadata()?.len();
        let mut inventory = self.shared.inventory.lock();
        let order = inventory.begin_item(handle.as_str(), SystemTime::now());
        inventory.add_size(order, size);
        drop(inventory);
        let spool = OutputSpool::for_open_file(handle, file, order, size, Arc::clone(&self.shared));
        Ok(Some((spool, io::Read::take(so_far, size))))
    }

    /// Keeps a whole text. Unlike a spool's, a failure to write is an error, for nothing else depends on it.
    pub fn store_text(&self, request: &RequestId, n: u32, text: &str) -> io::Result<OutputHandle> {
        let mut spool = self.create_spool(request, n)?;
        spool.write(text.as_bytes());
        spool.flush();
        let refused = match spool.stopped.take() {
            None | Some(SpoolStop::Limit(_)) => return Ok(spool.handle().clone()),
            Some(SpoolStop::StoreFull(reason)) => {
                io::Error::new(io::ErrorKind::QuotaExceeded, reason)
            }
            Some(SpoolStop::Failed(error)) => error,
        };
        let _ = std::fs::remove_file(self.path(spool.handle()));
        Err(refused)
    }

    /// Keeps a whole text under the first of the request's numbers that is free.
    pub fn store_next_text(&self, request: &RequestId, text: &str) -> io::Result<OutputHandle> {
        let taken = |n: &u32| self.path(&Self::handle_for(request, *n)).exists();
        let free = (0..1_000)
            .find(|n| !taken(n))
            .ok_or(io::ErrorKind::AlreadyExists)?;
        self.store_text(request, free, text)
    }

    /// Opens a kept output by the handle that a model wrote.
    pub fn find(&self, handle: &str) -> Result<StoredOutput, FindOutputError> {
        let handle = OutputHandle::parse(handle.trim()).ok_or(FindOutputError::Malformed)?;
        if let Some(reason) = self
            .shared
            .inventory
            .lock()
            .recorded_refusal(handle.as_str())
        {
            return Err(FindOutputError::NotKept(reason.to_owned()));
        }
        match File::open(self.path(&handle)) {
            Ok(file) => Ok(StoredOutput::new(handle, file, self.shared.indexes.clone())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(FindOutputError::Unknown),
            Err(error) => Err(FindOutputError::Io(error)),
        }
    }

    /// Returns the last characters of an output, from the start of a line where that leaves enough. `None` if nothing
    /// was stored. Used to report the output of a call that was cut off.
    pub fn tail(&self, handle: &OutputHandle, max_chars: usize) -> io::Result<Option<String>> {
        self.open_if_stored(handle)?
            .map(|mut kept| kept.read_tail_text(max_chars))
            .transpose()
    }

    /// The time for which outputs are stored.
    pub fn retention_period(&self) -> Duration {
        self.shared.limits.max_age
    }

    /// Returns the reason why the end of an output is missing, if this process saw it happen.
    pub fn recorded_cut(&self, handle: &OutputHandle) -> Option<String> {
        self.shared
            .inventory
            .lock()
            .cut_reason(handle.as_str())
            .map(str::to_owned)
    }

    fn open_if_stored(&self, handle: &OutputHandle) -> io::Result<Option<StoredOutput>> {
        match self.find(handle.as_str()) {
            Ok(kept) => Ok(Some(kept)),
            Err(
                FindOutputError::Unknown | FindOutputError::Malformed | FindOutputError::NotKept(_),
            ) => Ok(None),
            Err(FindOutputError::Io(error)) => Err(error),
        }
    }

    fn path(&self, handle: &OutputHandle) -> PathBuf {
        self.shared.dir.join(handle.as_str())
    }
}

fn create_private_dir(dir: &Path) -> io::Result<()> {
    private_folder_builder().recursive(true).create(dir)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if std::fs::metadata(dir)?.permissions().mode() & 0o077 != 0 {
            std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))?;
        }
    }
    Ok(())
}
