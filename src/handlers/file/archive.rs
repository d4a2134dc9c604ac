//! Read of an archive: a listing of its names and sizes. Nothing is unpacked to the disk. Not here: the formats.

use std::io::{self, BufReader, Read, SeekFrom};

use flate2::read::MultiGzDecoder;

use super::rendered_page::{RenderedPage, escape_entry_name};
use super::{tar_headers, zip_directory};
use crate::acp::file_content::BinaryFormat;
use crate::acp::files::{OpenedFile, ReadSeek};
use crate::output::number_format::{format_size, group_digits};

/// So many names are shown.
const MAX_SHOWN_ENTRIES: usize = 500;
/// So many are kept, for a later page.
const MAX_STORED_ENTRIES: usize = 50_000;
/// So much of packed data is unpacked to look for names in it.
const MAX_UNPACKED_BYTES: u64 = 256 << 20;
/// So much of a single packed file is unpacked to say how big it is.
const MAX_MEASURED_BYTES: u64 = 64 << 20;

/// One name in an archive.
#[derive(Debug)]
pub(super) struct ArchiveEntry {
    pub name: Vec<u8>,
    pub folder: bool,
    pub size: u64,
    /// What else is to be said, behind the size.
    pub suffix: String,
}

/// What is in an archive.
#[derive(Debug, Default)]
pub(super) struct ArchiveListing {
    pub entries: Vec<ArchiveEntry>,
    pub total: u64,
    pub bytes: u64,
    /// It was not looked at to its end.
    pub stopped: bool,
}

impl ArchiveListing {
    pub(super) fn add_entry(
        &mut self,
        most: usize,
        entry: impl FnOnce() -> ArchiveEntry,
        size: u64,
    ) {
        self.total += 1;
        self.bytes = self.bytes.saturating_add(size);
        if self.entries.len() < most {
            self.entries.push(entry());
        }
    }
}

/// How many entries a page has.
pub(super) fn archive_page_size(limit: Option<u64>) -> u64 {
    limit
        .unwrap_or(MAX_SHOWN_ENTRIES as u64)
        .min(MAX_SHOWN_ENTRIES as u64)
}

/// The listing as lines. `go_on` says whether there is time left.
pub(super) fn render_archive(
    shown: &str,
    opened: &mut OpenedFile,
    format: BinaryFormat,
    go_on: &dyn Fn() -> bool,
) -> io::Result<RenderedPage> {
    let packed = opened.size;
    let file: &mut dyn ReadSeek = &mut *opened.bytes;
    let (kind, listing, hint) = match format {
        BinaryFormat::Zip => {
            let listing = zip_directory::list_zip(file, packed, MAX_STORED_ENTRIES, go_on)?;
            let kind = describe_zip_kind(&listing);
            (
                kind,
                listing,
                format!("unzip -p {} NAME", quote_for_shell(shown)),
            )
        }
        BinaryFormat::Gzip => return render_gzip(shown, file, packed, go_on),
        _ => {
            let listing = tar_headers::list_tar(
                &mut BufReader::new(file),
                skip_by_seeking,
                MAX_STORED_ENTRIES,
                go_on,
            )?;
            (
                "tar archive",
                listing,
                format!("tar xOf {} NAME", quote_for_shell(shown)),
            )
        }
    };
    Ok(render_listing(shown, kind, packed, &listing, &hint))
}

/// In a file, what is passed over is not read.
fn skip_by_seeking(reader: &mut BufReader<&mut dyn ReadSeek>, bytes: u64) -> io::Result<()> {
    let bytes = i64::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    reader.seek_relative(bytes)
}

/// Documents are archives with names that are agreed.
fn describe_zip_kind(listing: &ArchiveListing) -> &'static str {
    let has = |start: &[u8]| {
        listing
            .entries
            .iter()
            .any(|entry| entry.name.starts_with(start))
    };
    match () {
        () if has(b"word/document") => "Word document (a ZIP archive)",
        () if has(b"xl/workbook") => "Excel workbook (a ZIP archive)",
        () if has(b"ppt/presentation") => "PowerPoint presentation (a ZIP archive)",
        () if has(b"META-INF/manifest.xml") && has(b"content.xml") => {
            "OpenDocument file (a ZIP archive)"
        }
        () if has(b"META-INF/container.xml") => "EPUB book (a ZIP archive)",
        () if has(b"AndroidManifest.xml") => "Android package (a ZIP archive)",
        () if has(b"META-INF/MANIFEST.MF") => "Java archive (a ZIP archive)",
        () => "ZIP archive",
    }
}

fn render_gzip(
    shown: &str,
    file: &mut dyn ReadSeek,
    packed: u64,
    go_on: &dyn Fn() -> bool,
) -> io::Result<RenderedPage> {
    let mut first = [0; 512];
    let mut unpacked = MultiGzDecoder::new(BufReader::new(&mut *file));
    let is_tar = unpacked.read_exact(&mut first).is_ok() && tar_headers::is_tar_header(&first);
    file.seek(SeekFrom::Start(0))?;
    let mut bounded = MultiGzDecoder::new(BufReader::new(file)).take(MAX_UNPACKED_BYTES);
    if is_tar {
        let pass = |from: &mut io::Take<_>, bytes: u64| {
            io::copy(&mut from.take(bytes), &mut io::sink()).map(drop)
        };
        let mut listing = tar_headers::list_tar(&mut bounded, pass, MAX_STORED_ENTRIES, go_on)?;
        listing.stopped |= bounded.limit() == 0;
        return Ok(render_listing(
            shown,
            "tar archive packed with gzip",
            packed,
            &listing,
            &format!("tar xzOf {} NAME", quote_for_shell(shown)),
        ));
    }
    bounded.set_limit(MAX_MEASURED_BYTES);
    let mut buffer = vec![0; 64 << 10];
    let mut bytes = 0;
    let complete = loop {
        match bounded.read(&mut buffer)? {
            0 => break bounded.limit() > 0,
            n => bytes += n as u64,
        }
        if !go_on() {
            break false;
        }
    };
    let more = if complete { "" } else { "more than " };
    Ok(RenderedPage {
        header: format!(
            "{shown} (gzip data, {}, {more}{} unpacked)",
            format_size(packed),
            format_size(bytes)
        ),
        notes: vec![format!(
            "It is one packed file, not an archive. Unpack it with Bash, for example `gzip -dc {} | head -c 10000`.",
            quote_for_shell(shown)
        )],
        line_noun: "entry",
        ..RenderedPage::default()
    })
}

/// As a word of a shell.
fn quote_for_shell(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+@,=".contains(c);
    if path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}

fn render_listing(
    shown: &str,
    kind: &str,
    packed: u64,
    listing: &ArchiveListing,
    extract: &str,
) -> RenderedPage {
    let more = if listing.stopped { "more than " } else { "" };
    let noun = if listing.total == 1 {
        "entry"
    } else {
        "entries"
    };
    let mut rendered = RenderedPage {
        header: format!(
            "{shown} ({kind}, {}, {more}{} {noun}, {} unpacked)",
            format_size(packed),
            group_digits(listing.total),
            format_size(listing.bytes)
        ),
        line_noun: "entry",
        cut_short: listing.stopped || listing.total > listing.entries.len() as u64,
        ..RenderedPage::default()
    };
    for entry in &listing.entries {
        let name = escape_entry_name(&entry.name);
        rendered.lines.push(if entry.folder {
            format!("{name}{}", entry.suffix)
        } else {
            format!("{name} ({}){}", format_size(entry.size), entry.suffix)
        });
    }
    let leads_out = |name: &[u8]| {
        name.starts_with(b"/")
            || name
                .split(|byte| matches!(byte, b'/' | b'\\'))
                .any(|part| part == b"..")
    };
    let hostile = listing
        .entries
        .iter()
        .filter(|entry| leads_out(&entry.name))
        .count();
    if hostile > 0 {
        rendered.notes.push(format!(
            "{} of the names lead out of the folder it would be unpacked in (they begin with / or hold ..): be careful.",
            group_digits(hostile as u64)
        ));
    }
    if listing.stopped {
        rendered
            .notes
            .push("It was not looked at to its end: that would have taken too long.".to_owned());
    }
    rendered.notes.push(format!(
        "To see one of them use Bash, for example `{extract}`."
    ));
    rendered
}
