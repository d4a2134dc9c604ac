//! What a ZIP archive says of itself in the directory at its end. Nothing is unpacked. Not here: showing it.

use std::io::{self, BufReader, Read, SeekFrom};

use super::archive::{ArchiveEntry, ArchiveListing};
use crate::acp::files::ReadSeek;

/// The end record is looked for in so much of the end: its own length and the longest comment.
const MAX_END_RECORD_BYTES: u64 = 22 + 0xFFFF;

fn read_little_endian(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes
        .get(at..at + len)
        .unwrap_or_default()
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

fn damaged_archive(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Where the directory begins and how many entries it says to have.
fn locate_directory(file: &mut dyn ReadSeek, size: u64) -> io::Result<(u64, u64)> {
    let from = size.saturating_sub(MAX_END_RECORD_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    (&mut *file)
        .take(MAX_END_RECORD_BYTES)
        .read_to_end(&mut end)?;
    let at = (0..end.len().saturating_sub(21))
        .rev()
        .find(|at| end[*at..].starts_with(b"PK\x05\x06"))
        .ok_or_else(|| damaged_archive("it has no directory at its end; it may be cut off"))?;
    let record = &end[at..];
    let (mut count, mut length, start) = (
        read_little_endian(record, 10, 2),
        read_little_endian(record, 12, 4),
        read_little_endian(record, 16, 4),
    );
    let mut behind = from + at as u64;
    if (count == 0xFFFF || length == 0xFFFF_FFFF || start == 0xFFFF_FFFF)
        && at >= 20
        && end[at - 20..].starts_with(b"PK\x06\x07")
    {
        behind = read_little_endian(&end[at - 20..], 8, 8);
        let mut wide = [0; 56];
        file.seek(SeekFrom::Start(behind))?;
        file.read_exact(&mut wide)?;
        if !wide.starts_with(b"PK\x06\x06") {
            return Err(damaged_archive("its directory cannot be found"));
        }
        (count, length) = (
            read_little_endian(&wide, 32, 8),
            read_little_endian(&wide, 40, 8),
        );
    }
    // Where it says to begin is not asked: something may stand before the archive, as in one that unpacks itself.
    let first = behind
        .checked_sub(length)
        .ok_or_else(|| damaged_archive("its directory is longer than it"))?;
    Ok((first, count))
}

/// Reads the directory; no more than `most` names are kept, all are counted.
pub(super) fn list_zip(
    file: &mut dyn ReadSeek,
    size: u64,
    most: usize,
    go_on: &dyn Fn() -> bool,
) -> io::Result<ArchiveListing> {
    let (first, count) = locate_directory(file, size)?;
    file.seek(SeekFrom::Start(first))?;
    let mut reader = BufReader::new(file);
    let mut listing = ArchiveListing::default();
    while listing.total < count {
        if !go_on() {
            listing.stopped = true;
            break;
        }
        let mut head = [0; 46];
        reader.read_exact(&mut head)?;
        if !head.starts_with(b"PK\x01\x02") {
            return Err(damaged_archive("its directory is damaged"));
        }
        let mut read = |len: u64| {
            let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
            reader.read_exact(&mut bytes).map(|()| bytes)
        };
        let name = read(read_little_endian(&head, 28, 2))?;
        let extra = read(read_little_endian(&head, 30, 2))?;
        read(read_little_endian(&head, 32, 2))?;
        let mut size = read_little_endian(&head, 24, 4);
        if size == 0xFFFF_FFFF {
            size = zip64_size(&extra).unwrap_or(size);
        }
        let encrypted = head[8] & 1 != 0;
        let is_link = read_little_endian(&head, 38, 4) >> 28 == 0xA;
        let note = match (encrypted, is_link) {
            (true, _) => ", encrypted",
            (_, true) => ", a link",
            _ => "",
        };
        listing.add_entry(
            most,
            || ArchiveEntry {
                folder: name.ends_with(b"/"),
                name,
                suffix: note.to_owned(),
                size,
            },
            size,
        );
    }
    Ok(listing)
}

/// The size in the extra field for sizes that need eight bytes.
fn zip64_size(mut extra: &[u8]) -> Option<u64> {
    while extra.len() >= 4 {
        let (id, len) = (
            read_little_endian(extra, 0, 2),
            usize::try_from(read_little_endian(extra, 2, 2)).ok()?,
        );
        let field = extra.get(4..4 + len)?;
        if id == 1 && len >= 8 {
            return Some(read_little_endian(field, 0, 8));
        }
        extra = &extra[4 + len..];
    }
    None
}
