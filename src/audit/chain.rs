//! Adding to the file: under the lock, at its end, a batch of rows by one write. Whoever finds it otherwise than they
//! left it reads its end anew. Not here: when rows are added (log).

use std::fs::{File, Metadata, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::lines::Lines;
use super::row::{self, Link, Row};
use super::{Entry, Event, Places, Who};
use crate::durable::{open_lock_file, open_private_file, sync_parent_folder};

/// How much of the file's end is looked at for its last row: many times the longest.
const TAIL: u64 = 256 << 10;

/// How long the lock is waited for: whoever else has it writes one row, or leaves out old ones.
const PATIENCE: Duration = Duration::from_secs(2);

/// The file as it was left.
#[derive(Debug)]
pub(super) struct Chain {
    pub places: Places,
    left: Option<Left>,
    /// Its name is durable.
    is_named: bool,
}

/// What is remembered of the file.
#[derive(Debug)]
struct Left {
    length: u64,
    /// Its device and number, where the system tells.
    who: Option<(u64, u64)>,
    last: Link,
}

/// The file, open and ours alone for a moment.
pub(super) struct Held {
    pub file: File,
    pub length: u64,
    pub last: Link,
    /// What the file ended with that is no row, and is cut off.
    torn: u64,
    _lock: File,
}

impl Chain {
    pub(super) fn new(places: Places) -> Self {
        Self { places, left: None, is_named: false }
    }

    /// Adds these rows, all or none; where the chain then stands.
    pub(super) fn append(&mut self, entries: &[Entry]) -> io::Result<Link> {
        let mut held = self.hold()?;
        let mut text = String::with_capacity(512 * entries.len());
        let torn = (held.torn > 0).then(|| Entry {
            count: Some(held.torn),
            ..Entry::new(Event::Torn, Who::Runner, entries.first().map_or(0, |entry| entry.at_ms))
        });
        for entry in torn.iter().chain(entries) {
            let (line, last) = row::line(&held.last, entry);
            text.push_str(&line);
            held.last = last;
        }
        if let Err(error) = held.file.write_all(text.as_bytes()) {
            // Half a row would be cut off by whoever comes next; where even this fails, it is.
            let _ = held.file.set_len(held.length);
            self.another();
            return Err(error);
        }
        held.length += text.len() as u64;
        let last = held.last.clone();
        self.leave(&held);
        Ok(last)
    }

    /// Makes what was added durable, the file's name the first time too.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        open_private_file(&self.places.rows, |options| options.append(true))?.sync_data()?;
        if !std::mem::replace(&mut self.is_named, true) {
            sync_parent_folder(&self.places.rows)?;
        }
        Ok(())
    }

    /// Where the chain stands: what the next row follows.
    pub(super) fn last(&mut self) -> io::Result<Link> {
        let held = self.hold()?;
        Ok(held.last)
    }

    /// Takes the lock, opens the file and finds its last row.
    pub(super) fn hold(&mut self) -> io::Result<Held> {
        let lock = lock(&self.places.lock)?;
        let mut file =
            open_private_file(&self.places.rows, |options| options.read(true).append(true).create(true))?;
        let meta = file.metadata()?;
        let (length, who) = (meta.len(), who(&meta));
        if let Some(left) = &self.left
            && left.who.is_some()
            && (left.length, left.who) == (length, who)
        {
            return Ok(Held { file, length, last: left.last.clone(), torn: 0, _lock: lock });
        }
        let (mut last, torn) = last_row(&mut file, length)?;
        if let Some(left) = &self.left {
            if left.last.seq >= last.seq {
                // Somebody took rows away under our hands, or put others there: what follows shows it.
                last = left.last.clone();
            } else if row_at(&file, length - torn, left.last.seq)?.is_some_and(|hash| hash != left.last.hash)
            {
                // More came, but not after ours.
                last.hash.clone_from(&left.last.hash);
            }
        }
        let length = length - torn;
        if torn > 0 {
            file.set_len(length)?;
        }
        Ok(Held { file, length, last, torn, _lock: lock })
    }

    /// Remembers how the file is left.
    pub(super) fn leave(&mut self, held: &Held) {
        let who = held.file.metadata().ok().and_then(|meta| who(&meta));
        self.left = Some(Left { length: held.length, who, last: held.last.clone() });
    }

    /// The next row follows this, whatever stands in the file.
    pub(super) fn follows(&mut self, last: Link) {
        self.left = Some(Left { length: 0, who: None, last });
    }

    /// The file is not as it was left; its last row still is.
    pub(super) fn another(&mut self) {
        if let Some(left) = &mut self.left {
            left.who = None;
        }
    }
}

/// The last row, and how many bytes behind the last end of a line are part of none.
fn last_row(file: &mut File, length: u64) -> io::Result<(Link, u64)> {
    let from = length.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail)?;
    let whole = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let torn = (tail.len() - whole) as u64;
    let lines = tail[..whole].split(|byte| *byte == b'\n').rev();
    // What is no row, or a changed one, stays where it is: `verify` finds it there.
    let last = lines.filter(|line| !line.is_empty()).find_map(Row::read);
    Ok((last.map_or_else(Link::none, |row| row.link()), torn))
}

/// The hash of the row of this number, looked for from the end; none where there is no such row.
pub(super) fn row_at(file: &File, length: u64, seq: u64) -> io::Result<Option<String>> {
    let mut reading = file.try_clone()?;
    reading.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    reading.take(TAIL).read_to_end(&mut tail)?;
    for row in tail.split(|byte| *byte == b'\n').rev().filter_map(Row::read) {
        if row.seq == seq {
            return Ok(Some(row.link().hash));
        }
    }
    for row in rows(file)? {
        let row = row?;
        if row.seq == seq {
            return Ok(Some(row.link().hash));
        }
    }
    Ok(None)
}

/// All that is a row, from the beginning.
pub(super) fn rows(file: &File) -> io::Result<impl Iterator<Item = io::Result<Row>>> {
    let mut reading = file.try_clone()?;
    reading.seek(SeekFrom::Start(0))?;
    Ok(Lines::of(reading).filter_map(|line| line.map(|line| Row::read(&line.bytes)).transpose()))
}

/// Waits for whoever else adds rows, but not for ever: a stopped process must not hold up calls.
fn lock(path: &Path) -> io::Result<File> {
    let file = open_lock_file(path)?;
    let until = Instant::now() + PATIENCE;
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

/// Which file it is, where the system tells.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems do not tell")]
fn who(meta: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((meta.dev(), meta.ino()))
}

#[cfg(not(unix))]
fn who(_: &Metadata) -> Option<(u64, u64)> {
    None
}
