//! The names in a folder, as they were read. Not here: reading them (folder), choosing among them (walk).

use std::ffi::OsStr;

/// How much the system is asked for at once. It must hold the longest name there is.
const BUFFER: usize = 32 << 10;

/// What a name stands for; a link for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
    Link,
    /// A FIFO, a socket, a device: never opened.
    Other,
}

/// What one thread lists folders with, one after the other.
#[derive(Debug)]
pub(super) struct Listing {
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "the standard library has its own buffer")
    )]
    pub(super) buffer: Vec<u8>,
    pub(super) entries: Vec<(Box<OsStr>, Kind)>,
}

impl Listing {
    pub(super) fn new() -> Self {
        Self { buffer: Vec::with_capacity(BUFFER), entries: Vec::new() }
    }
}
