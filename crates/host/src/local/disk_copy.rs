//! The copy of a command's output on disk.

use punie_core::ids::RequestId;
use punie_text::output::{OutputHandle, OutputSpool, OutputStore};

/// The place in the store for a request's output.
pub(super) struct OutputLocation {
    pub store: OutputStore,
    pub request: RequestId,
    pub number: u32,
}

/// The state of an output's copy on disk.
pub(super) enum DiskCopy {
    /// Nothing was printed yet.
    NotBegun,
    Open(OutputSpool),
    /// The copy has ended. The spool is dropped, because the store counts it as running for as long as it exists.
    Over {
        handle: Option<OutputHandle>,
        cut_short: Option<String>,
    },
}

impl DiskCopy {
    /// Returns the handle of the copy, or `None` if nothing is stored.
    pub fn output_handle(&self) -> Option<&OutputHandle> {
        match self {
            Self::NotBegun => None,
            Self::Open(spool) => spool.stored_handle(),
            Self::Over { handle, .. } => handle.as_ref(),
        }
    }

    /// Returns why the copy ends before the output, if it does.
    pub fn cut_short_reason(&self) -> Option<&str> {
        match self {
            Self::NotBegun => None,
            Self::Open(spool) => spool.keep_stop_reason(),
            Self::Over { cut_short, .. } => cut_short.as_deref(),
        }
    }

    /// Writes bytes, and creates the copy before the first ones. If the disk fails, the copy ends with the reason, and
    /// the command goes on.
    pub fn write_bytes(&mut self, location: &OutputLocation, bytes: &[u8]) {
        if let Self::NotBegun = self {
            *self = location
                .store
                .create_spool(&location.request, location.number)
                .map_or_else(
                    |cause| Self::Over {
                        handle: None,
                        cut_short: Some(format!("it could not be kept on disk ({cause})")),
                    },
                    Self::Open,
                );
        }
        if let Self::Open(spool) = self {
            // The bytes are made durable only when the pump pauses.
            spool.write(bytes);
        }
    }

    /// Makes all bytes written so far durable.
    pub fn flush(&mut self) {
        if let Self::Open(spool) = self {
            spool.flush();
        }
    }

    pub fn end(&mut self) {
        self.flush();
        let handle = self.output_handle().cloned();
        let cut_short = self.cut_short_reason().map(str::to_owned);
        *self = Self::Over { handle, cut_short };
    }
}
