//! Room on the disk: a reserve that is given up when the disk is full, so that what was begun can be finished and
//! delivered, and the question whether there is room for new work.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Journal, file_replace};
use punie_core::durable::open_private_file;

/// The size of the reserve in bytes.
pub const DISK_RESERVE_BYTES: u64 = 4 << 20;

/// The disk below one journal. Clones share its state.
#[derive(Debug, Clone)]
pub(super) struct DiskReserve {
    shared: Arc<ReserveShared>,
}

#[derive(Debug)]
struct ReserveShared {
    reserve: PathBuf,
    /// The reserve was given up, or never made.
    is_released: AtomicBool,
    /// The journal's file cannot be used any more.
    failed: AtomicBool,
}

impl DiskReserve {
    /// Below this journal; its reserve is made if there is room.
    pub(super) fn for_journal(path: &Path) -> Self {
        let reserve = file_replace::sibling_path(path, ".reserve");
        let spent = AtomicBool::new(!is_reserve_complete(&reserve));
        let disk = Self {
            shared: Arc::new(ReserveShared {
                reserve,
                is_released: spent,
                failed: AtomicBool::new(false),
            }),
        };
        disk.recreate(0);
        disk
    }

    /// Gives the reserve up.
    pub(super) fn release(&self) {
        if !self.shared.is_released.swap(true, Ordering::SeqCst) {
            tracing::error!(
                "the disk is full: the reserve is given up, and nothing new is begun until there is room"
            );
            // Without one there is nothing to give up.
            let _ = std::fs::remove_file(&self.shared.reserve);
        }
    }

    /// Marks the file as unusable for the rest of this run.
    pub(super) fn mark_failed(&self) {
        self.shared.failed.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_marked_failed(&self) -> bool {
        self.shared.failed.load(Ordering::SeqCst)
    }

    /// Returns whether so many bytes are free and the reserve is there, made again if it can be.
    pub(super) fn has_free_space(&self, least: u64) -> bool {
        if !has_free_bytes(&self.shared.reserve, least) {
            return false;
        }
        self.recreate(least);
        !self.shared.is_released.load(Ordering::SeqCst)
    }

    fn recreate(&self, least: u64) {
        let spent = self.shared.is_released.load(Ordering::SeqCst);
        if !spent || !has_space_for_reserve(&self.shared.reserve, least) {
            return;
        }
        match create_reserve(&self.shared.reserve) {
            Ok(()) => self.shared.is_released.store(false, Ordering::SeqCst),
            Err(error) => {
                tracing::warn!(%error, "the disk has no room for the reserve");
                // Half a reserve would be taken for a whole one.
                let _ = std::fs::remove_file(&self.shared.reserve);
            }
        }
    }
}

impl Journal {
    /// Returns whether the disk has room for new work: this many bytes are free and the reserve is there. A reserve
    /// that was given up is made again here, once there is room for it.
    pub fn has_disk_space(&self, least_free: u64) -> bool {
        self.disk.has_free_space(least_free)
    }

    /// Returns whether the file cannot be used any more: the disk did not keep what it was given, and a new file could
    /// not be made either. Only a new start can help.
    pub fn is_unusable(&self) -> bool {
        self.disk.is_marked_failed()
    }
}

/// The same question about a journal that another process may have open, or that does not exist yet: a missing reserve
/// is no lack where it can be made.
pub fn has_disk_space_at(path: &Path, least_free: u64) -> bool {
    let reserved = is_reserve_complete(&file_replace::sibling_path(path, ".reserve"));
    has_free_bytes(path, least_free) && (reserved || has_space_for_reserve(path, least_free))
}

/// Room for two reserves is needed, so that a released reserve is not taken back at once.
fn has_space_for_reserve(path: &Path, least: u64) -> bool {
    has_free_bytes(path, least.saturating_add(2 * DISK_RESERVE_BYTES))
}

fn is_reserve_complete(reserve: &Path) -> bool {
    reserve
        .metadata()
        .is_ok_and(|file| file.len() == DISK_RESERVE_BYTES)
}

fn create_reserve(reserve: &Path) -> io::Result<()> {
    fill_reserve(&mut open_private_file(reserve, |options| {
        options.write(true).create(true).truncate(true)
    })?)
}

/// With room that is really taken: a hole would hold none.
fn fill_reserve(file: &mut File) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if rustix::fs::fallocate(
        &*file,
        rustix::fs::FallocateFlags::empty(),
        0,
        DISK_RESERVE_BYTES,
    )
    .is_ok()
    {
        return Ok(());
    }
    // Not zeros, which some file systems store as a hole.
    let block = vec![0x5a_u8; 64 << 10];
    for _ in 0..DISK_RESERVE_BYTES / block.len() as u64 {
        file.write_all(&block)?;
    }
    Ok(())
}

/// Returns whether so many bytes are free for this user where the file is; yes where that cannot be told.
#[cfg(unix)]
fn has_free_bytes(path: &Path, least: u64) -> bool {
    let folder = path.parent().unwrap_or(Path::new("."));
    match rustix::fs::statvfs(folder) {
        Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize) >= least,
        Err(_) => true,
    }
}

#[cfg(not(unix))]
fn has_free_bytes(_path: &Path, _least: u64) -> bool {
    true
}
