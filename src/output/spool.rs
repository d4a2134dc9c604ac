//! Writes one output to the disk. Not here: finding outputs (store) and removing old ones (ledger).

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;

use super::figures::size;
use super::store::{OutputHandle, Shared};

/// The number of bytes collected before they are written.
const BUFFER: usize = 64 << 10;

/// One output being kept, written from the first byte on. A full disk or the size limit stops the keeping, never
/// the command. Dropping a spool flushes it.
#[derive(Debug)]
pub struct Spool {
    handle: OutputHandle,
    file: File,
    order: u64,
    buffer: Vec<u8>,
    accepted: u64,
    on_disk: u64,
    pub(super) stopped: Option<Stopped>,
    shared: Arc<Shared>,
}

/// The reason why a spool stores no more.
#[derive(Debug)]
pub(super) enum Stopped {
    /// This output reached its limit.
    Limit(String),
    /// All outputs together did, and none of them can go.
    NoRoom(String),
    Failed(io::Error),
}

impl Spool {
    /// For a file that holds so much already.
    pub(super) fn of(handle: OutputHandle, file: File, order: u64, held: u64, shared: Arc<Shared>) -> Self {
        let accepted = held.min(shared.limits.each);
        Self { handle, file, order, buffer: Vec::new(), accepted, on_disk: held, stopped: None, shared }
    }

    /// The handle under which the output will be found.
    pub fn handle(&self) -> &OutputHandle {
        &self.handle
    }

    /// Appends; stops silently at the size limit or when the disk is full (see [`Spool::cut_short`]).
    pub fn write(&mut self, bytes: &[u8]) {
        if self.stopped.is_some() {
            return;
        }
        let room = self.shared.limits.each - self.accepted;
        let fits = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        self.accepted += fits as u64;
        if self.buffer.len() + fits >= BUFFER {
            self.flush();
        }
        if fits >= BUFFER {
            self.put(&bytes[..fits]);
        } else {
            self.buffer.extend_from_slice(&bytes[..fits]);
        }
        if fits < bytes.len() {
            self.flush();
            let limit = size(self.shared.limits.each);
            if self.stopped.is_none() {
                self.stopped = Some(Stopped::Limit(format!("only the first {limit} of the output are kept")));
                self.note_stop();
            }
        }
    }

    /// Makes everything written so far readable. Called when no more bytes follow at once.
    pub fn flush(&mut self) {
        if !self.buffer.is_empty() {
            let buffer = std::mem::take(&mut self.buffer);
            self.put(&buffer);
            self.buffer = buffer;
            self.buffer.clear();
        }
    }

    /// The number of bytes accepted for storage.
    pub fn written(&self) -> u64 {
        self.accepted
    }

    /// The handle, once anything is stored.
    pub fn kept(&self) -> Option<&OutputHandle> {
        (self.on_disk > 0).then_some(&self.handle)
    }

    /// The reason why storing stopped before the output ended.
    pub fn cut_short(&self) -> Option<&str> {
        match &self.stopped {
            None => None,
            Some(Stopped::Limit(reason) | Stopped::NoRoom(reason)) => Some(reason),
            Some(Stopped::Failed(error)) if error.kind() == io::ErrorKind::StorageFull => {
                Some("the disk is full, the rest of the output is not kept")
            }
            Some(Stopped::Failed(_)) => {
                Some("the disk refused the write, the rest of the output is not kept")
            }
        }
    }

    /// Records the reason for later readers of the output.
    fn note_stop(&self) {
        let Some(reason) = self.cut_short() else { return };
        if self.on_disk == 0 {
            self.shared.ledger().refuse(self.order, reason);
        } else {
            self.shared.ledger().cut(self.order, reason);
        }
    }

    /// Writes as much as the disk takes, and counts it: the beginning of a refused write may still be stored.
    fn write_out(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.on_disk += written as u64;
                    rest = &rest[written..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.stopped.is_some() {
            return;
        }
        if !self.shared.ledger().grow(self.order, bytes.len() as u64, &self.shared.dir, &self.shared.limits) {
            let limit = size(self.shared.limits.all);
            self.stopped = Some(Stopped::NoRoom(format!(
                "running commands have filled the {limit} that are kept in all"
            )));
        } else if let Err(error) = self.write_out(bytes) {
            self.stopped = Some(Stopped::Failed(error));
        } else {
            return;
        }
        self.note_stop();
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.flush();
        self.shared.ledger().end(self.order, &self.shared.dir);
    }
}
