//! The contents of files in snapshots, compressed, each once under its hash. They are not synced: a crash of the runner
//! leaves them whole, a power cut may not.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use sha2::{Digest as _, Sha256};

use super::super::LARGEST_KEPT;
use punie_core::ids::to_hex;

/// The letters of a hash that name its folder.
const FOLDER_LETTERS: usize = 2;

/// The store of contents.
#[derive(Debug)]
pub(crate) struct SnapshotContents {
    folder: PathBuf,
    /// The bytes that may still be written.
    room: AtomicU64,
    /// The bytes that were written and not yet counted.
    uncounted: AtomicU64,
    /// Something was not stored for want of room.
    is_full: AtomicBool,
}

impl SnapshotContents {
    /// The store in this folder, which may grow by so many bytes.
    pub fn in_folder(folder: PathBuf, room: u64) -> Self {
        Self {
            folder,
            room: AtomicU64::new(room),
            uncounted: AtomicU64::new(0),
            is_full: AtomicBool::new(false),
        }
    }

    /// Sets the bytes that may still be written.
    pub fn set_room(&self, room: u64) {
        self.room.store(room, Ordering::Relaxed);
    }

    /// Returns the bytes that may still be written.
    pub fn room(&self) -> u64 {
        self.room.load(Ordering::Relaxed)
    }

    /// Notes that something is not stored for want of room.
    pub fn mark_full(&self) {
        self.is_full.store(true, Ordering::Relaxed);
    }

    /// Returns whether something was not stored for want of room since the last call.
    pub fn take_full(&self) -> bool {
        self.is_full.swap(false, Ordering::Relaxed)
    }

    /// Returns the bytes that were written since the last call.
    pub fn take_uncounted_bytes(&self) -> u64 {
        self.uncounted.swap(0, Ordering::Relaxed)
    }

    fn content_path(&self, sha256: &str) -> PathBuf {
        let (folder, name) = sha256
            .split_at_checked(FOLDER_LETTERS)
            .unwrap_or(("", sha256));
        self.folder.join(folder).join(name)
    }

    /// Stores a content and returns its hash. A store that is full is `QuotaExceeded`.
    pub fn store_content(&self, content: &[u8]) -> io::Result<String> {
        let sha256 = to_hex(&Sha256::digest(content));
        let path = self.content_path(&sha256);
        if fs::symlink_metadata(&path).is_ok() {
            return Ok(sha256);
        }
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content)?;
        let compressed = encoder.finish()?;
        let taken = self
            .room
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| {
                room.checked_sub(compressed.len() as u64)
            });
        if taken.is_err() {
            self.mark_full();
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let draft = self
            .folder
            .join(format!(".{}.tmp", uuid::Uuid::new_v4().simple()));
        let placed = write_private_file(&draft, &compressed).and_then(|()| {
            fs::rename(&draft, &path).or_else(|_| {
                fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
                fs::rename(&draft, &path)
            })
        });
        if placed.is_err() {
            let _ = fs::remove_file(&draft);
        }
        placed?;
        self.uncounted
            .fetch_add(compressed.len() as u64, Ordering::Relaxed);
        Ok(sha256)
    }

    /// Returns whether there is a content of this hash.
    pub fn has_content(&self, sha256: &str) -> bool {
        self.content_path(sha256).is_file()
    }

    /// Returns the content of this hash.
    pub fn read_content(&self, sha256: &str) -> io::Result<Vec<u8>> {
        let file = File::open(self.content_path(sha256))?;
        let mut content = Vec::new();
        ZlibDecoder::new(file)
            .take(LARGEST_KEPT + 1)
            .read_to_end(&mut content)?;
        if to_hex(&Sha256::digest(&content)) == sha256 {
            return Ok(content);
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "what a snapshot kept is damaged",
        ))
    }

    /// Lists the stored contents with the bytes that each takes, and the drafts that a crash left.
    pub fn list_stored(&self) -> io::Result<Vec<(String, u64)>> {
        let mut all = Vec::new();
        for folder in fs::read_dir(&self.folder)? {
            let folder = folder?;
            let Ok(prefix) = folder.file_name().into_string() else {
                continue;
            };
            if !folder.file_type()?.is_dir() {
                all.push((prefix, folder.metadata()?.len()));
                continue;
            }
            for entry in fs::read_dir(folder.path())? {
                let entry = entry?;
                if let Ok(name) = entry.file_name().into_string() {
                    all.push((format!("{prefix}{name}"), entry.metadata()?.len()));
                }
            }
        }
        Ok(all)
    }

    /// Deletes one of those that are listed.
    pub fn delete_stored(&self, name: &str) -> io::Result<()> {
        let is_draft = name.starts_with('.');
        fs::remove_file(if is_draft {
            self.folder.join(name)
        } else {
            self.content_path(name)
        })
    }
}

fn write_private_file(path: &std::path::Path, content: &[u8]) -> io::Result<()> {
    punie_core::durable::open_private_file(path, |options| options.write(true).create_new(true))?
        .write_all(content)
}
