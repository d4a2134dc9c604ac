//! The trash: before-images of files that calls change, and snapshots of the workspaces, for a while; and their
//! restoration.
//!
//! A manifest says what is about to be kept before anything moves, so that whatever a crash leaves can be told.
//!
//! Read first: [`Trash`], which keeps, lists and restores; [`BeforeImageStore`], what a call changes, saved before it does;
//! [`UndoReport`], what an undo restored and what it left alone.
//!
//! The program uses this crate, and no tool does: a tool saves through `punie_tool::BeforeImages`. It uses `punie-core`,
//! `punie-home`, `punie-host`, `punie-text` and `punie-tool`.

mod before_images;
mod content_store;
#[cfg(unix)]
mod deep_removal;
mod entry_sums;
mod inventory;
mod made_tree;
mod manifest;
mod net_effect;
mod path_state;
mod preview;
mod put_back;
mod quota;
mod request_diff;
mod restore;
mod snapshot;
mod step_changes;
mod tree;
#[cfg(unix)]
mod tree_copy;
mod undo;
mod undo_steps;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;

use punie_core::clock::ExpiryClock;
use punie_core::durable::open_lock_file;
use punie_home::Home;

pub use before_images::BeforeImageStore;
pub use inventory::TrashEntry;
#[cfg(target_os = "linux")]
use snapshot::FolderSnapshots;
pub use snapshot::list_uncovered_folders;
pub use undo::{UNTRACKED, UndoError, UndoReport};

/// A file above this size is not kept before it is changed.
pub const LARGEST_KEPT: u64 = 64 << 20;

/// Stands for a number of bytes that is not counted yet.
const UNKNOWN_SIZE: u64 = u64::MAX;

/// The limits on size and age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrashLimits {
    /// All of it together, in bytes.
    pub max_bytes: u64,
    /// Since the call.
    pub keep: Duration,
}

/// The trash of one home. Clones share its measured size.
#[derive(Debug, Clone)]
pub struct Trash {
    home: Home,
    limits: Arc<Mutex<TrashLimits>>,
    /// The time by which entries are too old.
    clock: ExpiryClock,
    /// The bytes that are kept, as far as this process knows, or [`UNKNOWN_SIZE`].
    used: Arc<AtomicU64>,
}

impl Trash {
    /// The trash of this home.
    pub fn new(home: &Home, limits: TrashLimits) -> Self {
        let used = Arc::new(AtomicU64::new(UNKNOWN_SIZE));
        Self {
            home: home.clone(),
            limits: Arc::new(Mutex::new(limits)),
            clock: ExpiryClock::default(),
            used,
        }
    }

    /// Removes entries that are too old by this clock. Without one, none is.
    #[must_use]
    pub fn with_expiry_clock(mut self, clock: &ExpiryClock) -> Self {
        self.clock = clock.clone();
        self
    }

    /// Changes the limits of this trash and its clones.
    pub fn set_limits(&self, limits: TrashLimits) {
        *self.limits.lock() = limits;
    }

    fn limits(&self) -> TrashLimits {
        *self.limits.lock()
    }

    /// Keeps everybody else from moving anything in the trash until the file is dropped.
    fn lock(&self) -> io::Result<File> {
        let file = open_lock_file(&self.home.trash_lock_file())?;
        file.lock()?;
        Ok(file)
    }
}

/// Shows a path in a line of text: no byte in it begins another line or steers a terminal.
fn display_path(path: &Path) -> String {
    let mut text = String::new();
    for c in path.display().to_string().chars() {
        if c.is_control() {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
    }
    text
}
