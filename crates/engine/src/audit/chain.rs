//! Appends rows to the audit file: under a lock, at its end, one write for a batch. A process that finds the file
//! changed since its own last write reads the end again.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::line_reader::AuditLineReader;
use super::row::{self, AuditRow, ChainLink};
use super::{AuditActor, AuditEntry, AuditEvent, AuditPaths};
use punie_core::durable::{open_lock_file, open_private_file, sync_parent_folder};
use punie_core::file_metadata::file_identity;

/// The bytes at the file's end that are searched for the last row: many times the longest row.
const TAIL_BYTES: u64 = 256 << 10;

/// The longest wait for the lock. Another process holds it only to write one row or to remove old ones.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// The audit file and its state after this process's last write.
#[derive(Debug)]
pub(super) struct AuditChain {
    pub places: AuditPaths,
    known_state: Option<KnownFileState>,
    /// The file's name is durable.
    is_named: bool,
}

/// The file's state after this process's last write.
#[derive(Debug)]
struct KnownFileState {
    length: u64,
    /// The file's device and inode number, on systems that have them.
    who: Option<(u64, u64)>,
    last: ChainLink,
}

/// The file, open and locked.
pub(super) struct LockedAuditFile {
    pub file: File,
    pub length: u64,
    pub last: ChainLink,
    /// The bytes of an incomplete row at the file's end; they are cut off.
    torn: u64,
    _lock: File,
}

impl AuditChain {
    pub(super) fn new(places: AuditPaths) -> Self {
        Self {
            places,
            known_state: None,
            is_named: false,
        }
    }

    /// Appends these rows, all or none, and returns the new last link.
    pub(super) fn append_entries(&mut self, entries: &[AuditEntry]) -> io::Result<ChainLink> {
        let mut locked = self.lock_file()?;
        let mut text = String::with_capacity(512 * entries.len());
        let torn = (locked.torn > 0).then(|| AuditEntry {
            count: Some(locked.torn),
            ..AuditEntry::new(
                AuditEvent::Torn,
                AuditActor::Runner,
                entries.first().map_or(0, |entry| entry.at_ms),
            )
        });
        for entry in torn.iter().chain(entries) {
            let (line, last) = row::format_row(&locked.last, entry);
            text.push_str(&line);
            locked.last = last;
        }
        if let Err(error) = locked.file.write_all(text.as_bytes()) {
            // The next process would cut off half a row; it does so where even this fails.
            let _ = locked.file.set_len(locked.length);
            self.mark_file_changed();
            return Err(error);
        }
        locked.length += text.len() as u64;
        let last = locked.last.clone();
        self.remember_file_state(&locked);
        Ok(last)
    }

    /// Makes the appended rows durable, and the first time also the file's name.
    pub(super) fn sync_rows(&mut self) -> io::Result<()> {
        open_private_file(&self.places.rows, |options| options.append(true))?.sync_data()?;
        if !std::mem::replace(&mut self.is_named, true) {
            sync_parent_folder(&self.places.rows)?;
        }
        Ok(())
    }

    /// Returns the last link, which the next row follows.
    pub(super) fn last_link(&mut self) -> io::Result<ChainLink> {
        let locked = self.lock_file()?;
        Ok(locked.last)
    }

    /// Takes the lock, opens the file and finds its last row.
    pub(super) fn lock_file(&mut self) -> io::Result<LockedAuditFile> {
        let lock = acquire_lock(&self.places.lock)?;
        let mut file = open_private_file(&self.places.rows, |options| {
            options.read(true).append(true).create(true)
        })?;
        let meta = file.metadata()?;
        let length = meta.len();
        let who = file_identity(&meta);
        if let Some(left) = &self.known_state
            && left.who.is_some()
            && (left.length, left.who) == (length, who)
        {
            return Ok(LockedAuditFile {
                file,
                length,
                last: left.last.clone(),
                torn: 0,
                _lock: lock,
            });
        }
        let (mut last, torn) = find_last_row(&mut file, length)?;
        if let Some(left) = &self.known_state {
            if left.last.seq >= last.seq {
                // Another process removed or replaced rows meanwhile: the next row's hash shows it.
                last = left.last.clone();
            } else if find_row_hash(&file, length - torn, left.last.seq)?
                .is_some_and(|hash| hash != left.last.hash)
            {
                // More rows came, but they do not follow ours.
                last.hash.clone_from(&left.last.hash);
            }
        }
        let length = length - torn;
        if torn > 0 {
            file.set_len(length)?;
        }
        Ok(LockedAuditFile {
            file,
            length,
            last,
            torn,
            _lock: lock,
        })
    }

    /// Remembers the file's state after a write.
    pub(super) fn remember_file_state(&mut self, locked: &LockedAuditFile) {
        let metadata = locked.file.metadata().ok();
        let who = metadata.as_ref().and_then(file_identity);
        self.known_state = Some(KnownFileState {
            length: locked.length,
            who,
            last: locked.last.clone(),
        });
    }

    /// Makes the next row follow this link, regardless of the file's content.
    pub(super) fn set_last_link(&mut self, last: ChainLink) {
        self.known_state = Some(KnownFileState {
            length: 0,
            who: None,
            last,
        });
    }

    /// Marks the file as changed; its last row is still known.
    pub(super) fn mark_file_changed(&mut self) {
        if let Some(left) = &mut self.known_state {
            left.who = None;
        }
    }
}

/// Finds the last row, and counts the bytes after the last line end, which belong to no row.
fn find_last_row(file: &mut File, length: u64) -> io::Result<(ChainLink, u64)> {
    let tail = read_tail(file, length)?;
    let whole = tail
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    let torn = (tail.len() - whole) as u64;
    let lines = tail[..whole].split(|byte| *byte == b'\n').rev();
    // An unreadable or changed row stays in place, where `verify` finds it.
    let last = lines
        .filter(|line| !line.is_empty())
        .find_map(AuditRow::parse);
    Ok((
        last.map_or_else(ChainLink::before_first, |row| row.chain_link()),
        torn,
    ))
}

/// Returns the hash of the row with this number, searching from the end; `None` if there is no such row.
pub(super) fn find_row_hash(file: &File, length: u64, seq: u64) -> io::Result<Option<String>> {
    let mut reading = file.try_clone()?;
    let tail = read_tail(&mut reading, length)?;
    let mut near_end = tail
        .split(|byte| *byte == b'\n')
        .rev()
        .filter_map(AuditRow::parse);
    if let Some(row) = near_end.find(|row| row.seq == seq) {
        return Ok(Some(row.chain_link().hash));
    }
    for row in read_rows(file)? {
        let row = row?;
        if row.seq == seq {
            return Ok(Some(row.chain_link().hash));
        }
    }
    Ok(None)
}

fn read_tail(file: &mut File, length: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    Ok(tail)
}

/// Reads all rows from the beginning.
pub(super) fn read_rows(file: &File) -> io::Result<impl Iterator<Item = io::Result<AuditRow>>> {
    let mut reading = file.try_clone()?;
    reading.seek(SeekFrom::Start(0))?;
    Ok(AuditLineReader::from_file(reading)
        .filter_map(|line| line.map(|line| AuditRow::parse(&line.bytes)).transpose()))
}

/// Takes the lock, waiting a bounded time: a stopped process must not block calls.
fn acquire_lock(path: &Path) -> io::Result<File> {
    let file = open_lock_file(path)?;
    let until = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "another process keeps the audit locked",
                ));
            }
            Err(TryLockError::WouldBlock) => std::thread::park_timeout(Duration::from_millis(2)),
        }
    }
}
