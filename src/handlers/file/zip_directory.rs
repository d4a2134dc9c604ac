//! What a ZIP archive says of itself in the directory at its end. Nothing is unpacked. Not here: showing it.

use std::io::{self, BufReader, Read, SeekFrom};

use super::archive::{Entry, Listing};
use crate::acp::files::ReadSeek;

/// The end record is looked for in so much of the end: its own length and the longest comment.
const END: u64 = 22 + 0xFFFF;

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes.get(at..at + len).unwrap_or_default().iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Where the directory begins and how many entries it says to have.
fn directory(file: &mut dyn ReadSeek, size: u64) -> io::Result<(u64, u64)> {
    let from = size.saturating_sub(END);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    (&mut *file).take(END).read_to_end(&mut end)?;
    let at = (0..end.len().saturating_sub(21))
        .rev()
        .find(|at| end[*at..].starts_with(b"PK\x05\x06"))
        .ok_or_else(|| damaged("it has no directory at its end; it may be cut off"))?;
    let record = &end[at..];
    let (mut count, mut length, start) =
        (number(record, 10, 2), number(record, 12, 4), number(record, 16, 4));
    let mut behind = from + at as u64;
    if (count == 0xFFFF || length == 0xFFFF_FFFF || start == 0xFFFF_FFFF)
        && at >= 20
        && end[at - 20..].starts_with(b"PK\x06\x07")
    {
        behind = number(&end[at - 20..], 8, 8);
        let mut wide = [0; 56];
        file.seek(SeekFrom::Start(behind))?;
        file.read_exact(&mut wide)?;
        if !wide.starts_with(b"PK\x06\x06") {
            return Err(damaged("its directory cannot be found"));
        }
        (count, length) = (number(&wide, 32, 8), number(&wide, 40, 8));
    }
    // Where it says to begin is not asked: something may stand before the archive, as in one that unpacks itself.
    let first = behind.checked_sub(length).ok_or_else(|| damaged("its directory is longer than it"))?;
    Ok((first, count))
}

/// Reads the directory; no more than `most` names are kept, all are counted.
pub(super) fn list(
    file: &mut dyn ReadSeek,
    size: u64,
    most: usize,
    go_on: &dyn Fn() -> bool,
) -> io::Result<Listing> {
    let (first, count) = directory(file, size)?;
    file.seek(SeekFrom::Start(first))?;
    let mut reader = BufReader::new(file);
    let mut listing = Listing::default();
    while listing.total < count {
        if !go_on() {
            listing.stopped = true;
            break;
        }
        let mut head = [0; 46];
        reader.read_exact(&mut head)?;
        if !head.starts_with(b"PK\x01\x02") {
            return Err(damaged("its directory is damaged"));
        }
        let mut read = |len: u64| {
            let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
            reader.read_exact(&mut bytes).map(|()| bytes)
        };
        let name = read(number(&head, 28, 2))?;
        let extra = read(number(&head, 30, 2))?;
        read(number(&head, 32, 2))?;
        let mut size = number(&head, 24, 4);
        if size == 0xFFFF_FFFF {
            size = wide_size(&extra).unwrap_or(size);
        }
        let encrypted = head[8] & 1 != 0;
        let is_link = number(&head, 38, 4) >> 28 == 0xA;
        let note = match (encrypted, is_link) {
            (true, _) => ", encrypted",
            (_, true) => ", a link",
            _ => "",
        };
        listing.add(most, || Entry { folder: name.ends_with(b"/"), name, note: note.to_owned(), size }, size);
    }
    Ok(listing)
}

/// The size in the extra field for sizes that need eight bytes.
fn wide_size(mut extra: &[u8]) -> Option<u64> {
    while extra.len() >= 4 {
        let (id, len) = (number(extra, 0, 2), usize::try_from(number(extra, 2, 2)).ok()?);
        let field = extra.get(4..4 + len)?;
        if id == 1 && len >= 8 {
            return Some(number(field, 0, 8));
        }
        extra = &extra[4 + len..];
    }
    None
}
