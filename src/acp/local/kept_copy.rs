//! The copy of a command's output on disk. Not here: what is written to it (capture), and the store of all copies
//! (output).

use crate::output::{OutputHandle, Spool};

/// The copy of an output on disk, as far as it has come.
pub(super) enum KeptCopy {
    /// Nothing was printed yet.
    NotBegun,
    Open(Spool),
    /// Nothing more comes. The spool is let go, for as long as it lives the store counts it among those that run.
    Over {
        handle: Option<OutputHandle>,
        cut_short: Option<String>,
    },
}

impl KeptCopy {
    /// Where the whole is found; none where nothing is kept.
    pub fn handle(&self) -> Option<&OutputHandle> {
        match self {
            Self::NotBegun => None,
            Self::Open(spool) => spool.kept(),
            Self::Over { handle, .. } => handle.as_ref(),
        }
    }

    /// Why it ends before the output.
    pub fn cut_short(&self) -> Option<&str> {
        match self {
            Self::NotBegun => None,
            Self::Open(spool) => spool.cut_short(),
            Self::Over { cut_short, .. } => cut_short.as_deref(),
        }
    }

    /// What was written so far is on the disk when this returns.
    pub fn flush(&mut self) {
        if let Self::Open(spool) = self {
            spool.flush();
        }
    }

    /// Nothing more comes.
    pub fn end(&mut self) {
        self.flush();
        let (handle, cut_short) = (self.handle().cloned(), self.cut_short().map(str::to_owned));
        *self = Self::Over { handle, cut_short };
    }
}
