//! Writes one output to the disk.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;

use super::number_format::format_size;
use super::output_handle::OutputHandle;
use super::output_store_state::OutputStoreState;

/// The number of bytes collected before they are written.
const BUFFER_BYTES: usize = 64 << 10;

/// One output being kept, written from the first byte on. A full disk or the size limit stops the keeping, never
/// the command. Dropping a spool flushes it.
#[derive(Debug)]
pub struct OutputSpool {
    handle: OutputHandle,
    file: File,
    order: u64,
    buffer: Vec<u8>,
    accepted: u64,
    on_disk: u64,
    pub(super) stopped: Option<SpoolStop>,
    shared: Arc<OutputStoreState>,
}

/// The reason why a spool stores no more.
#[derive(Debug)]
pub(super) enum SpoolStop {
    /// This output reached its limit.
    Limit(String),
    /// All outputs together did, and none of them can go.
    StoreFull(String),
    Failed(io::Error),
}

impl OutputSpool {
    /// For a file that holds so much already.
    pub(super) fn for_open_file(
        handle: OutputHandle,
        file: File,
        order: u64,
        held: u64,
        shared: Arc<OutputStoreState>,
    ) -> Self {
        let accepted = held.min(shared.limits.per_output);
        Self {
            handle,
            file,
            order,
            buffer: Vec::new(),
            accepted,
            on_disk: held,
            stopped: None,
            shared,
        }
    }

    /// The handle under which the output will be found.
    pub fn handle(&self) -> &OutputHandle {
        &self.handle
    }

    /// Appends; stops silently at the size limit or when the disk is full (see [`OutputSpool::keep_stop_reason`]).
    pub fn write(&mut self, bytes: &[u8]) {
        if self.stopped.is_some() {
            return;
        }
        let room = self.shared.limits.per_output - self.accepted;
        let fits = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        self.accepted += fits as u64;
        if self.buffer.len() + fits >= BUFFER_BYTES {
            self.flush();
        }
        if fits >= BUFFER_BYTES {
            self.store_bytes(&bytes[..fits]);
        } else {
            self.buffer.extend_from_slice(&bytes[..fits]);
        }
        if fits < bytes.len() {
            self.flush();
            let limit = format_size(self.shared.limits.per_output);
            if self.stopped.is_none() {
                self.stopped = Some(SpoolStop::Limit(format!(
                    "only the first {limit} of the output are kept"
                )));
                self.record_stop();
            }
        }
    }

    /// Makes everything written so far readable. Called when no more bytes follow at once.
    pub fn flush(&mut self) {
        if !self.buffer.is_empty() {
            let buffer = std::mem::take(&mut self.buffer);
            self.store_bytes(&buffer);
            self.buffer = buffer;
            self.buffer.clear();
        }
    }

    /// The handle, once anything is stored.
    pub fn stored_handle(&self) -> Option<&OutputHandle> {
        (self.on_disk > 0).then_some(&self.handle)
    }

    /// The reason why storing stopped before the output ended.
    pub fn keep_stop_reason(&self) -> Option<&str> {
        match &self.stopped {
            None => None,
            Some(SpoolStop::Limit(reason) | SpoolStop::StoreFull(reason)) => Some(reason),
            Some(SpoolStop::Failed(error)) if error.kind() == io::ErrorKind::StorageFull => {
                Some("the disk is full, the rest of the output is not kept")
            }
            Some(SpoolStop::Failed(_)) => {
                Some("the disk refused the write, the rest of the output is not kept")
            }
        }
    }

    /// Records the reason for later readers of the output.
    fn record_stop(&self) {
        let Some(reason) = self.keep_stop_reason() else {
            return;
        };
        let mut inventory = self.shared.inventory.lock();
        if self.on_disk == 0 {
            inventory.record_refusal(self.order, reason);
        } else {
            inventory.record_cut(self.order, reason);
        }
    }

    /// Writes as much as the disk takes, and counts it: the beginning of a refused write may still be stored.
    fn write_to_file(&mut self, bytes: &[u8]) -> io::Result<()> {
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

    fn store_bytes(&mut self, bytes: &[u8]) {
        if self.stopped.is_some() {
            return;
        }
        if !self.shared.inventory.lock().reserve_bytes(
            self.order,
            bytes.len() as u64,
            &self.shared.dir,
            &self.shared.limits,
        ) {
            let limit = format_size(self.shared.limits.in_total);
            self.stopped = Some(SpoolStop::StoreFull(format!(
                "running commands have filled the {limit} that are kept in all"
            )));
        } else if let Err(error) = self.write_to_file(bytes) {
            self.stopped = Some(SpoolStop::Failed(error));
        } else {
            return;
        }
        self.record_stop();
    }
}

impl Drop for OutputSpool {
    fn drop(&mut self) {
        self.flush();
        self.shared
            .inventory
            .lock()
            .finish_item(self.order, &self.shared.dir);
    }
}
