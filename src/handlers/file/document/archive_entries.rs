//! Reads the names and sizes in an archive, in the worker. Nothing is unpacked to disk.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use tar::EntryType;
use zip::ZipArchive;

use super::super::rendered_page::escape_entry_name;
use super::document_protocol::Packing;
use super::zstd_frames::ZstdFrames;

/// The most names that are stored, for later pages.
const MAX_STORED_ENTRIES: usize = 50_000;
/// The most bytes of stored names. JSON makes up to seven of one, and the answer has a limit.
const MAX_STORED_BYTES: usize = 8 << 20;
/// The most packed data that is unpacked to find names in it.
const MAX_UNPACKED_BYTES: u64 = 256 << 20;
/// The most data of a single packed file that is unpacked to measure it.
const MAX_MEASURED_BYTES: u64 = 64 << 20;
/// The largest decompression window.
const MAX_WINDOW_BYTES: u64 = 128 << 20;

/// The longest plausible name.
const MAX_NAME_BYTES: u64 = 64 << 10;

/// One name in an archive.
#[derive(Debug)]
pub(super) struct ArchiveEntry {
    pub(super) name: Vec<u8>,
    pub(super) is_folder: bool,
    pub(super) size: u64,
    /// Further properties, shown after the size.
    pub(super) suffix: String,
}

/// The content of an archive.
#[derive(Debug, Default)]
pub(super) struct ArchiveListing {
    pub(super) entries: Vec<ArchiveEntry>,
    pub(super) total: u64,
    /// The total size of all files.
    pub(super) bytes: u64,
    /// The bytes of the names, up to the first that is not stored.
    name_bytes: usize,
    /// True if the archive was not read to its end.
    pub(super) is_stopped: bool,
    /// True if the archive's end is missing.
    pub(super) is_cut_off: bool,
    /// True if names occur more than once, and only their last entry is listed.
    pub(super) has_duplicates: bool,
}

/// The content of packed data.
#[derive(Debug)]
pub(super) enum PackedContent {
    Tar(ArchiveListing),
    /// One file, and a flag for whether it was unpacked to its end.
    File {
        bytes: u64,
        is_complete: bool,
    },
}

impl ArchiveListing {
    fn add_entry(&mut self, entry: ArchiveEntry, unpacked: u64) {
        self.total += 1;
        self.bytes = self.bytes.saturating_add(unpacked);
        self.name_bytes += entry.name.len() + entry.suffix.len();
        if self.entries.len() < MAX_STORED_ENTRIES && self.name_bytes <= MAX_STORED_BYTES {
            self.entries.push(entry);
        }
    }
}

/// Lists the directory of a ZIP archive.
pub(super) fn list_zip<R: Read + Seek>(archive: &ZipArchive<R>) -> Result<ArchiveListing, String> {
    let mut listing = ArchiveListing {
        has_duplicates: archive.has_duplicate_names(),
        ..ArchiveListing::default()
    };
    for index in 0..archive.len() {
        let entry = archive
            .by_index_data(index)
            .map_err(|cause| cause.to_string())?;
        let suffix = match (entry.encrypted(), entry.is_symlink()) {
            (true, _) => ", encrypted",
            (_, true) => ", a link",
            _ => "",
        };
        let listed = ArchiveEntry {
            name: entry.name_raw().to_vec(),
            is_folder: entry.is_dir(),
            size: entry.size(),
            suffix: suffix.to_owned(),
        };
        listing.add_entry(listed, entry.size());
    }
    Ok(listing)
}

/// Lists an uncompressed tar archive. The contents of its files are skipped.
pub(super) fn list_plain_tar(
    file: File,
    has_time_left: &dyn Fn() -> bool,
) -> Result<ArchiveListing, String> {
    let mut archive = tar::Archive::new(EndWatch::new(file));
    let mut listing = ArchiveListing::default();
    let read = archive
        .entries_with_seek()
        .and_then(|entries| add_tar_entries(&mut listing, entries, has_time_left));
    let mut watch = archive.into_inner();
    // The content of a file is passed over, even beyond the end.
    let passed = watch.stream_position().unwrap_or(0);
    listing.is_cut_off = watch.seek(SeekFrom::End(0)).is_ok_and(|end| passed > end);
    finish_listing(listing, read, watch.is_ended)
}

/// Lists a compressed tar archive, or measures a single compressed file.
pub(super) fn list_packed(
    mut file: File,
    packing: Packing,
    has_time_left: &dyn Fn() -> bool,
) -> Result<PackedContent, String> {
    let unpacked = open_packed(&file, packing);
    let mut archive = tar::Archive::new(EndWatch::new(unpacked.take(MAX_UNPACKED_BYTES)));
    let mut listing = ArchiveListing::default();
    let read = archive
        .entries()
        .and_then(|entries| add_tar_entries(&mut listing, entries, has_time_left));
    let EndWatch { reader, is_ended } = archive.into_inner();
    let is_bound_reached = reader.limit() == 0;
    drop(reader);
    if listing.total > 0 {
        listing.is_stopped |= is_bound_reached;
        return finish_listing(listing, read, is_ended).map(PackedContent::Tar);
    }
    let measured = file
        .rewind()
        .and_then(|()| measure_file(open_packed(&file, packing), has_time_left));
    measured.map_err(|cause| cause.to_string())
}

fn open_packed(file: &File, packing: Packing) -> Box<dyn Read + '_> {
    let file = BufReader::new(file);
    match packing {
        Packing::Gzip => Box::new(MultiGzDecoder::new(file)),
        Packing::Bzip2 => Box::new(MultiBzDecoder::new(file)),
        Packing::Xz => {
            let kilobytes = u32::try_from(MAX_WINDOW_BYTES >> 10).unwrap_or(u32::MAX);
            Box::new(XzReader::new_mem_limit(file, true, kilobytes))
        }
        Packing::Zstd => Box::new(ZstdFrames::new(file, MAX_WINDOW_BYTES)),
    }
}

fn measure_file(
    unpacked: impl Read,
    has_time_left: &dyn Fn() -> bool,
) -> io::Result<PackedContent> {
    let mut bounded = unpacked.take(MAX_MEASURED_BYTES);
    let mut buffer = vec![0; 64 << 10];
    let mut bytes = 0;
    loop {
        let count = bounded.read(&mut buffer)?;
        bytes += count as u64;
        if count == 0 || !has_time_left() {
            return Ok(PackedContent::File {
                bytes,
                is_complete: count == 0 && bounded.limit() > 0,
            });
        }
    }
}

/// Adds the entries up to the end or to the first error.
fn add_tar_entries<R: Read>(
    listing: &mut ArchiveListing,
    entries: tar::Entries<'_, R>,
    has_time_left: &dyn Fn() -> bool,
) -> io::Result<()> {
    let mut long_name = None;
    for entry in entries {
        if !has_time_left() {
            listing.is_stopped = true;
            break;
        }
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        // The reader resolves these itself if the header names a version of the format. Some
        // programs omit it.
        if kind.is_gnu_longname() {
            let mut name = Vec::new();
            entry.by_ref().take(MAX_NAME_BYTES).read_to_end(&mut name)?;
            name.truncate(memchr::memchr(0, &name).unwrap_or(name.len()));
            long_name = Some(name);
            continue;
        }
        if kind.is_gnu_longlink()
            || kind.is_pax_global_extensions()
            || kind.is_pax_local_extensions()
        {
            continue;
        }
        let suffix = match kind {
            EntryType::Link | EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default();
                format!(" -> {}", escape_entry_name(&target))
            }
            EntryType::Char | EntryType::Block | EntryType::Fifo => {
                ", not a regular file".to_owned()
            }
            _ => String::new(),
        };
        let size = entry.size();
        let unpacked = match kind {
            EntryType::Regular | EntryType::Continuous => size,
            _ => 0,
        };
        let name = long_name
            .take()
            .unwrap_or_else(|| entry.path_bytes().into_owned());
        let listed = ArchiveEntry {
            is_folder: kind.is_dir() || name.ends_with(b"/"),
            name,
            size,
            suffix,
        };
        listing.add_entry(listed, unpacked);
    }
    Ok(())
}

/// Decides about an error. What stands before the end of an archive that is cut off is listed.
fn finish_listing(
    mut listing: ArchiveListing,
    read: io::Result<()>,
    is_ended: bool,
) -> Result<ArchiveListing, String> {
    match read {
        Err(_) if listing.is_stopped => {}
        Err(_) if is_ended && listing.total > 0 => listing.is_cut_off = true,
        Err(_) if is_ended => return Err("it is cut off".to_owned()),
        Err(cause) => return Err(format!("one of its headers is damaged: {cause}")),
        Ok(()) => {}
    }
    Ok(listing)
}

/// A reader that notes whether its end was reached: the errors of `tar` do not tell a cut archive
/// from a damaged one.
struct EndWatch<R> {
    reader: R,
    is_ended: bool,
}

impl<R> EndWatch<R> {
    fn new(reader: R) -> Self {
        Self {
            reader,
            is_ended: false,
        }
    }
}

impl<R: Read> Read for EndWatch<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer);
        self.is_ended |= match &read {
            Ok(count) => *count == 0 && !buffer.is_empty(),
            Err(cause) => is_unexpected_end(cause),
        };
        read
    }
}

impl<R: Seek> Seek for EndWatch<R> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.reader.seek(position)
    }
}

/// Returns whether the cause of an error, or its cause in turn, is the end of the data.
fn is_unexpected_end(error: &io::Error) -> bool {
    let mut cause = Some(error as &dyn Error);
    while let Some(error) = cause {
        let io_error = error.downcast_ref::<io::Error>();
        if io_error.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof) {
            return true;
        }
        // An error of the system's hides the one that it holds.
        cause = match io_error.and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    false
}
