//! The trash: what files were before a call changed them, and what commands removed, for a while; and the way back.
//!
//! The words come first: a manifest says what is about to be kept or taken before anything moves, so that whatever a
//! crash leaves can be told. Not here: what is typed (cli), and how a command is started (acp).

#[cfg(target_os = "linux")]
mod commands;
mod contents;
#[cfg(unix)]
mod copy;
mod images;
mod inventory;
mod manifest;
mod net;
mod proof;
mod restore;
mod room;
#[cfg(target_os = "linux")]
pub mod shim;
mod steps;
mod survey;
mod tree;
mod undo;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::home::Home;

#[cfg(target_os = "linux")]
pub use commands::Shims;
pub use images::Images;
pub use inventory::Kept;
pub use undo::{UNTRACKED, Undone, Unready};

/// A file above this size is not kept before it is changed.
pub const LARGEST_KEPT: u64 = 64 << 20;

/// How much is kept, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// All of it together, in bytes.
    pub max_bytes: u64,
    /// Since the call.
    pub keep: Duration,
}

/// The trash of one home. Clones share what they know of its size.
#[derive(Debug, Clone)]
pub struct Trash {
    home: Home,
    limits: Limits,
    /// How many bytes are kept, as far as this process knows; none before it has looked.
    used: Arc<Mutex<Option<u64>>>,
    proofs: proof::Proofs,
}

/// Holds the trash against everybody else who would move something in it, until it is dropped.
#[derive(Debug)]
struct Held(#[expect(dead_code, reason = "it is held, not used")] File);

impl Trash {
    /// The trash of this home.
    pub fn of(home: &Home, limits: Limits) -> Self {
        Self { home: home.clone(), limits, used: Arc::default(), proofs: proof::Proofs::default() }
    }

    /// The folders that a command must be allowed to write, so that what it removes can go to the trash: for whoever
    /// confines commands. A rename into it is one between folders.
    pub fn folders_for_commands(&self) -> Vec<PathBuf> {
        vec![self.home.trash_incoming_dir()]
    }

    fn hold(&self) -> io::Result<Held> {
        hold(&self.home.trash_lock_file())
    }
}

#[expect(clippy::disallowed_methods, reason = "the lock is a file of the trash's own")]
fn hold(path: &Path) -> io::Result<Held> {
    let file = File::create(path)?;
    file.lock()?;
    Ok(Held(file))
}

/// A path in a line of text, whatever its bytes: nothing in it begins another line or steers a terminal.
fn named(path: &Path) -> String {
    let mut text = String::new();
    for c in path.display().to_string().chars() {
        if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
    }
    text
}

/// Milliseconds since 1970.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
