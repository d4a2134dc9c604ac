//! Writes a new file's content: new bytes, or the old ones with ranges replaced, and the hashes of both. Hashing runs
//! in parallel with writing and syncing, which wait for the disk.

use std::fs::File;
use std::io::{self, Write};

use sha2::{Digest, Sha256};

use super::file_open::sha256_hex;
use crate::files::ByteSplice;
use punie_core::ids::to_hex;

/// From this size on, hashes are computed in parallel with writing.
const PARALLEL_HASH_BYTES: usize = 1 << 20;
/// The bytes to write.
pub(super) enum NewBytes<'a> {
    /// The whole new content.
    Whole(&'a [u8]),
    /// Loaded content with ranges replaced.
    Spliced(&'a [u8], &'a [ByteSplice]),
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
        NewBytes::Spliced(..) => None,
    }
}

/// Hashes loaded content, and the content with its ranges replaced.
fn hash_spliced(loaded: &[u8], splices: &[ByteSplice], known: Option<&str>) -> FilledFile {
    let mut hasher = Sha256::new();
    let mut size = 0;
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
    }
    sync(file)
}

/// Writes the bytes and syncs them, and hashes them meanwhile. `known` is the hash of the old bytes, if a caller has it.
pub(super) fn write_with_hashes(
    file: &mut File,
    content: &NewBytes<'_>,
    known: Option<&str>,
    sync: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<FilledFile> {
    std::thread::scope(|threads| {
        let (loaded, splices): (&[u8], &[ByteSplice]) = match content {
            NewBytes::Whole(bytes) => (bytes, &[]),
            NewBytes::Spliced(loaded, splices) => (loaded, splices),
        };
        let hashing = threads.spawn(move || hash_spliced(loaded, splices, known));
        write_and_sync(file, content, sync)?;
        let broke_off = |_| io::Error::other("the hashing broke off");
        hashing.join().map_err(broke_off)
    })
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn splices_change_exactly_their_places(
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
            let content = NewBytes::Spliced(&old, &splices);
            let mut file = tempfile::tempfile().unwrap();
            let filled = write_with_hashes(&mut file, &content, None, |_| Ok(())).unwrap();
            prop_assert_eq!(read_all(&mut file), expect.as_slice());
            prop_assert_eq!(filled, FilledFile {
                before: Some(sha256_hex(&old)), after: sha256_hex(&expect), size: expect.len() as u64,
            });
        }
    }
}
