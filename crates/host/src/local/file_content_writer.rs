//! Writes a new file's content: new bytes, or the old ones with ranges replaced, and the hashes of both. Hashing runs
//! in parallel with writing and syncing, which wait for the disk.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::file_open::sha256_hex;
use crate::files::{ByteSplice, DiskSplice};
use punie_core::ids::to_hex;
use punie_text::output::line_index::READ_CHUNK_BYTES;

/// From this size on, hashes are computed in parallel with writing.
const PARALLEL_HASH_BYTES: usize = 1 << 20;
/// The bytes copied in one step, so that a cancellation is noticed soon.
const COPY_STEP_BYTES: u64 = 8 << 20;

/// The bytes to write.
pub(super) enum NewBytes<'a> {
    /// The whole new content.
    Whole(&'a [u8]),
    /// Loaded content with ranges replaced.
    Spliced(&'a [u8], &'a [ByteSplice]),
    /// An open file of this size with ranges replaced, each of which ends with `ends`.
    Copied {
        file: &'a File,
        size: u64,
        ends: &'a [u8],
        splices: &'a [DiskSplice],
    },
}

/// The result of a write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FilledFile {
    /// SHA-256 of the old content, in hex.
    pub before: Option<String>,
    /// SHA-256 of the new content, in hex.
    pub after: String,
    pub size: u64,
}

/// Returns the hashes if they are computed before writing: for small content, or content given as a whole. `None` if
/// they are computed in parallel with it.
pub(super) fn hash_before_writing(
    content: &NewBytes<'_>,
    known: Option<&str>,
) -> Option<FilledFile> {
    match content {
        NewBytes::Whole(bytes) => Some(FilledFile {
            before: known.map(str::to_owned),
            after: sha256_hex(bytes),
            size: bytes.len() as u64,
        }),
        NewBytes::Spliced(loaded, splices) if loaded.len() < PARALLEL_HASH_BYTES => {
            Some(hash_spliced(loaded, splices, known))
        }
        _ => None,
    }
}

/// Hashes loaded content, and the content with its ranges replaced.
fn hash_spliced(loaded: &[u8], splices: &[ByteSplice], known: Option<&str>) -> FilledFile {
    let (mut hasher, mut size) = (Sha256::new(), 0);
    for piece in spliced_pieces(loaded, splices) {
        hasher.update(piece);
        size += piece.len() as u64;
    }
    FilledFile {
        before: Some(known.map_or_else(|| sha256_hex(loaded), str::to_owned)),
        after: to_hex(&hasher.finalize()),
        size,
    }
}

/// Writes bytes whose hashes are known, and syncs them.
pub(super) fn write_and_sync(
    file: &mut File,
    content: &NewBytes<'_>,
    sync: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    match content {
        NewBytes::Whole(bytes) => file.write_all(bytes)?,
        NewBytes::Spliced(loaded, splices) => {
            spliced_pieces(loaded, splices).try_for_each(|piece| file.write_all(piece))?;
        }
        NewBytes::Copied { .. } => return Err(io::ErrorKind::Unsupported.into()),
    }
    sync(file)
}

/// Writes the bytes and syncs them, and hashes them meanwhile. Returns `InvalidData` if a replaced range does not end as expected any more.
/// `known` is the hash of the old bytes, if a caller has it.
pub(super) fn write_with_hashes(
    file: &mut File,
    content: &NewBytes<'_>,
    known: Option<&str>,
    sync: impl FnOnce(&File) -> io::Result<()>,
    cancel: &CancellationToken,
) -> io::Result<FilledFile> {
    std::thread::scope(|threads| {
        let (loaded, splices): (&[u8], &[ByteSplice]) = match content {
            NewBytes::Whole(bytes) => (bytes, &[]),
            NewBytes::Spliced(loaded, splices) => (loaded, splices),
            NewBytes::Copied {
                file: old,
                size,
                ends,
                splices,
            } => {
                check_replaced_ends(old, ends, splices)?;
                let hashing =
                    threads.spawn(move || hash_both_versions(old, *size, splices, cancel));
                let written = copy_spliced(old, *size, splices, file, cancel)
                    .and_then(|size| sync(file).map(|()| size));
                let hashed = hashing.join().map_err(|_| hashing_failed_error())?;
                let (size, (before, after)) = (written?, hashed?);
                return Ok(FilledFile {
                    before: Some(before),
                    after,
                    size,
                });
            }
        };
        let hashing = threads.spawn(move || hash_spliced(loaded, splices, known));
        write_and_sync(file, content, sync)?;
        hashing.join().map_err(|_| hashing_failed_error())
    })
}

fn hashing_failed_error() -> io::Error {
    io::Error::other("the hashing broke off")
}

/// Returns the old bytes between the splices and their replacements, in order.
fn spliced_pieces<'a>(old: &'a [u8], splices: &'a [ByteSplice]) -> impl Iterator<Item = &'a [u8]> {
    let mut at = 0;
    let replaced = splices.iter().flat_map(move |splice| {
        let kept = &old[at..splice.range.start];
        at = splice.range.end;
        [kept, splice.with.as_slice()]
    });
    let rest = splices.last().map_or(0, |splice| splice.range.end);
    replaced.chain([&old[rest..]])
}

/// Checks the ends of the replaced ranges: a file's stamp cannot tell two changes at the same moment apart.
fn check_replaced_ends(old: &File, ends: &[u8], splices: &[DiskSplice]) -> io::Result<()> {
    let mut there = vec![0; ends.len()];
    for splice in splices {
        let at = splice
            .range
            .end
            .checked_sub(ends.len() as u64)
            .ok_or(io::ErrorKind::InvalidData)?;
        read_exact_at(old, at, &mut there)?;
        if there != ends {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(())
}

/// Writes the file with its ranges replaced, and returns the new size.
fn copy_spliced(
    old: &File,
    size: u64,
    splices: &[DiskSplice],
    to: &mut File,
    cancel: &CancellationToken,
) -> io::Result<u64> {
    let (mut at, mut written) = (0, 0);
    let mut gathered = Vec::new();
    for splice in splices {
        let kept = splice.range.start.saturating_sub(at);
        // Short ranges are written together: a system call for each would cost more than the bytes.
        if kept + splice.with.len() as u64 <= READ_CHUNK_BYTES as u64 / 4 {
            let from = gathered.len();
            gathered.resize(from + usize::try_from(kept).unwrap_or_default(), 0);
            read_exact_at(old, at, &mut gathered[from..])?;
            gathered.extend_from_slice(&splice.with);
            if gathered.len() >= READ_CHUNK_BYTES {
                to.write_all(&gathered)?;
                gathered.clear();
            }
        } else {
            to.write_all(&gathered)?;
            gathered.clear();
            copy_range(old, at, kept, to, cancel)?;
            to.write_all(&splice.with)?;
        }
        written += kept + splice.with.len() as u64;
        at = splice.range.end;
        if cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
    to.write_all(&gathered)?;
    let rest = size.saturating_sub(at);
    copy_range(old, at, rest, to, cancel)?;
    Ok(written + rest)
}

/// Hashes the old file, and the file with its ranges replaced. Both are the same up to the first range. From there on
/// each has a thread, because hashing takes longer than copying.
fn hash_both_versions(
    old: &File,
    size: u64,
    splices: &[DiskSplice],
    cancel: &CancellationToken,
) -> io::Result<(String, String)> {
    let first = splices.first().map_or(size, |splice| splice.range.start);
    let mut before = Sha256::new();
    hash_range(&mut before, old, 0..first, cancel)?;
    let mut after = before.clone();
    std::thread::scope(|threads| {
        let beside = threads.spawn(move || {
            let next = splices
                .iter()
                .skip(1)
                .map(|splice| splice.range.start)
                .chain([size]);
            for (splice, next) in splices.iter().zip(next) {
                after.update(&splice.with);
                hash_range(&mut after, old, splice.range.end..next, cancel)?;
            }
            Ok::<_, io::Error>(to_hex(&after.finalize()))
        });
        let rest = hash_range(&mut before, old, first..size, cancel);
        let after = beside.join().map_err(|_| hashing_failed_error())?;
        rest?;
        Ok((to_hex(&before.finalize()), after?))
    })
}

fn hash_range(
    hasher: &mut Sha256,
    file: &File,
    part: Range<u64>,
    cancel: &CancellationToken,
) -> io::Result<()> {
    for_each_piece(file, part, cancel, |piece| {
        hasher.update(piece);
        Ok(())
    })
}

/// Reads a range piece by piece.
fn for_each_piece(
    file: &File,
    part: Range<u64>,
    cancel: &CancellationToken,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let length = |left: u64| {
        usize::try_from(left).map_or(READ_CHUNK_BYTES, |left| left.min(READ_CHUNK_BYTES))
    };
    let mut at = part.start;
    let mut buffer = vec![0; length(part.end.saturating_sub(at))];
    while at < part.end {
        if cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let piece = &mut buffer[..length(part.end - at)];
        read_exact_at(file, at, piece)?;
        each(piece)?;
        at += piece.len() as u64;
    }
    Ok(())
}

/// Copies bytes from an offset of one file to the current position of another.
#[cfg(target_os = "linux")]
fn copy_range(
    from: &File,
    mut at: u64,
    len: u64,
    to: &mut File,
    cancel: &CancellationToken,
) -> io::Result<()> {
    let mut left = len;
    while left > 0 {
        if cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let wanted = usize::try_from(left.min(COPY_STEP_BYTES)).unwrap_or(READ_CHUNK_BYTES);
        // The kernel copies from page to page, or only shares the blocks if the file system can.
        match rustix::fs::copy_file_range(from, Some(&mut at), &*to, None, wanted) {
            // Some file systems cannot copy between these files, and report it in several ways.
            Ok(0) | Err(_) => return copy_through_buffer(from, at, left, to, cancel),
            Ok(copied) => left -= copied as u64,
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn copy_range(
    from: &File,
    at: u64,
    len: u64,
    to: &mut File,
    cancel: &CancellationToken,
) -> io::Result<()> {
    copy_through_buffer(from, at, len, to, cancel)
}

fn copy_through_buffer(
    from: &File,
    at: u64,
    len: u64,
    to: &mut File,
    cancel: &CancellationToken,
) -> io::Result<()> {
    for_each_piece(from, at..at + len, cancel, |piece| to.write_all(piece))
}

/// Reads at an offset without moving the file's position, because two threads read the file at once.
#[cfg(unix)]
fn read_exact_at(file: &File, at: u64, buffer: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, at)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut at: u64, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                at += n as u64;
                buffer = &mut buffer[n..];
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use proptest::prelude::*;

    use super::*;

    fn read_all(file: &mut File) -> Vec<u8> {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn copied<'a>(
        file: &'a File,
        size: u64,
        ends: &'a [u8],
        splices: &'a [DiskSplice],
    ) -> NewBytes<'a> {
        NewBytes::Copied {
            file,
            size,
            ends,
            splices,
        }
    }

    #[test]
    fn other_bytes_than_were_quoted_are_not_replaced() {
        let mut stored = tempfile::tempfile().unwrap();
        stored.write_all(b"one two three").unwrap();
        let splice = DiskSplice {
            range: 4..7,
            with: b"2"[..].into(),
        };
        for (ends, goes) in [(b"two", true), (b"TWO", false)] {
            let content = copied(&stored, 13, ends, std::slice::from_ref(&splice));
            let mut file = tempfile::tempfile().unwrap();
            let filled = write_with_hashes(
                &mut file,
                &content,
                None,
                |_| Ok(()),
                &CancellationToken::new(),
            );
            assert_eq!(filled.map_err(|error| error.kind()).is_ok(), goes);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn splices_change_exactly_their_places_held_and_copied(
            pattern in prop::collection::vec(any::<u8>(), 0..200),
            times in prop_oneof![4 => Just(1_usize), 1 => Just(3_000)],
            cuts in prop::collection::vec((0_usize..400_000, 0_usize..200, prop::collection::vec(any::<u8>(), 0..5)), 0..8),
        ) {
            let old = pattern.repeat(times);
            let (mut at, mut expect, mut splices) = (0, Vec::new(), Vec::new());
            for (skip, len, with) in cuts {
                let skip = if times == 1 { skip % 100 } else { skip };
                let start = (at + skip).min(old.len());
                let end = (start + len).min(old.len());
                expect.extend_from_slice(&old[at..start]);
                expect.extend_from_slice(&with);
                splices.push(ByteSplice { range: start..end, with });
                at = end;
            }
            expect.extend_from_slice(&old[at..]);
            let mut stored = tempfile::tempfile().unwrap();
            stored.write_all(&old).unwrap();
            let on_disk: Vec<DiskSplice> = splices.iter().map(|splice| DiskSplice {
                range: splice.range.start as u64..splice.range.end as u64,
                with: splice.with.clone().into(),
            }).collect();
            let cancel = CancellationToken::new();
            for content in [NewBytes::Spliced(&old, &splices), copied(&stored, old.len() as u64, b"", &on_disk)] {
                let mut file = tempfile::tempfile().unwrap();
                let filled = write_with_hashes(&mut file, &content, None, |_| Ok(()), &cancel).unwrap();
                prop_assert_eq!(read_all(&mut file), expect.as_slice());
                prop_assert_eq!(filled, FilledFile {
                    before: Some(sha256_hex(&old)), after: sha256_hex(&expect), size: expect.len() as u64,
                });
            }
        }
    }

    #[test]
    fn a_cancel_ends_the_copying() {
        let mut stored = tempfile::tempfile().unwrap();
        stored.write_all(&[b'x'; 1000]).unwrap();
        let cancel = CancellationToken::new();
        cancel.cancel();
        let content = copied(&stored, 1000, b"", &[]);
        let mut file = tempfile::tempfile().unwrap();
        write_with_hashes(
            &mut file,
            &content,
            None,
            |_| panic!("nothing to sync"),
            &cancel,
        )
        .unwrap_err();
    }
}
