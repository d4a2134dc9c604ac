//! Read of an archive: a listing of its names and sizes. Nothing is unpacked to the disk. Not here: the formats.

use std::io::{self, BufReader, Read, SeekFrom};

use flate2::read::MultiGzDecoder;

use super::rendered::{Rendered, plain_name};
use super::{tar_headers, zip_directory};
use crate::acp::content::Format;
use crate::acp::files::{OpenedFile, ReadSeek};
use crate::output::figures::{grouped, size};

/// So many names are shown.
const SHOWN: usize = 500;
/// So many are kept, for a later page.
const KEPT: usize = 50_000;
/// So much of packed data is unpacked to look for names in it.
const UNPACKED: u64 = 256 << 20;
/// So much of a single packed file is unpacked to say how big it is.
const MEASURED: u64 = 64 << 20;

/// One name in an archive.
#[derive(Debug)]
pub(super) struct Entry {
    pub name: Vec<u8>,
    pub folder: bool,
    pub size: u64,
    /// What else is to be said, behind the size.
    pub note: String,
}

/// What is in an archive.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub entries: Vec<Entry>,
    pub total: u64,
    pub bytes: u64,
    /// It was not looked at to its end.
    pub stopped: bool,
}

impl Listing {
    pub(super) fn add(&mut self, most: usize, entry: impl FnOnce() -> Entry, size: u64) {
        self.total += 1;
        self.bytes = self.bytes.saturating_add(size);
        if self.entries.len() < most {
            self.entries.push(entry());
        }
    }
}

/// How many entries a page has.
pub(super) fn page(limit: Option<u64>) -> u64 {
    limit.unwrap_or(SHOWN as u64).min(SHOWN as u64)
}

/// The listing as lines. `go_on` says whether there is time left.
pub(super) fn render(
    shown: &str,
    opened: &mut OpenedFile,
    format: Format,
    go_on: &dyn Fn() -> bool,
) -> io::Result<Rendered> {
    let packed = opened.size;
    let file: &mut dyn ReadSeek = &mut *opened.bytes;
    let (kind, listing, hint) = match format {
        Format::Zip => {
            let listing = zip_directory::list(file, packed, KEPT, go_on)?;
            let kind = kind_of_zip(&listing);
            (kind, listing, format!("unzip -p {} NAME", quoted(shown)))
        }
        Format::Gzip => return gzip(shown, file, packed, go_on),
        _ => {
            let listing = tar_headers::list(&mut BufReader::new(file), pass_by_seeking, KEPT, go_on)?;
            ("tar archive", listing, format!("tar xOf {} NAME", quoted(shown)))
        }
    };
    Ok(lines(shown, kind, packed, &listing, &hint))
}

/// In a file, what is passed over is not read.
fn pass_by_seeking(reader: &mut BufReader<&mut dyn ReadSeek>, bytes: u64) -> io::Result<()> {
    let bytes = i64::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    reader.seek_relative(bytes)
}

/// Documents are archives with names that are agreed.
fn kind_of_zip(listing: &Listing) -> &'static str {
    let has = |start: &[u8]| listing.entries.iter().any(|entry| entry.name.starts_with(start));
    match () {
        () if has(b"word/document") => "Word document (a ZIP archive)",
        () if has(b"xl/workbook") => "Excel workbook (a ZIP archive)",
        () if has(b"ppt/presentation") => "PowerPoint presentation (a ZIP archive)",
        () if has(b"META-INF/manifest.xml") && has(b"content.xml") => "OpenDocument file (a ZIP archive)",
        () if has(b"META-INF/container.xml") => "EPUB book (a ZIP archive)",
        () if has(b"AndroidManifest.xml") => "Android package (a ZIP archive)",
        () if has(b"META-INF/MANIFEST.MF") => "Java archive (a ZIP archive)",
        () => "ZIP archive",
    }
}

fn gzip(shown: &str, file: &mut dyn ReadSeek, packed: u64, go_on: &dyn Fn() -> bool) -> io::Result<Rendered> {
    let mut first = [0; 512];
    let mut unpacked = MultiGzDecoder::new(BufReader::new(&mut *file));
    let is_tar = unpacked.read_exact(&mut first).is_ok() && tar_headers::sum_is_right(&first);
    file.seek(SeekFrom::Start(0))?;
    let mut bounded = MultiGzDecoder::new(BufReader::new(file)).take(UNPACKED);
    if is_tar {
        let pass =
            |from: &mut io::Take<_>, bytes: u64| io::copy(&mut from.take(bytes), &mut io::sink()).map(drop);
        let mut listing = tar_headers::list(&mut bounded, pass, KEPT, go_on)?;
        listing.stopped |= bounded.limit() == 0;
        return Ok(lines(
            shown,
            "tar archive packed with gzip",
            packed,
            &listing,
            &format!("tar xzOf {} NAME", quoted(shown)),
        ));
    }
    bounded.set_limit(MEASURED);
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
    Ok(Rendered {
        header: format!("{shown} (gzip data, {}, {more}{} unpacked)", size(packed), size(bytes)),
        notes: vec![format!(
            "It is one packed file, not an archive. Unpack it with Bash, for example `gzip -dc {} | head -c 10000`.",
            quoted(shown)
        )],
        of: "entry",
        ..Rendered::default()
    })
}

/// As a word of a shell.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+@,=".contains(c);
    if path.chars().all(plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

fn lines(shown: &str, kind: &str, packed: u64, listing: &Listing, extract: &str) -> Rendered {
    let more = if listing.stopped { "more than " } else { "" };
    let noun = if listing.total == 1 { "entry" } else { "entries" };
    let mut rendered = Rendered {
        header: format!(
            "{shown} ({kind}, {}, {more}{} {noun}, {} unpacked)",
            size(packed),
            grouped(listing.total),
            size(listing.bytes)
        ),
        of: "entry",
        cut_short: listing.stopped || listing.total > listing.entries.len() as u64,
        ..Rendered::default()
    };
    for entry in &listing.entries {
        let name = plain_name(&entry.name);
        rendered.lines.push(if entry.folder {
            format!("{name}{}", entry.note)
        } else {
            format!("{name} ({}){}", size(entry.size), entry.note)
        });
    }
    let leads_out = |name: &[u8]| {
        name.starts_with(b"/") || name.split(|byte| matches!(byte, b'/' | b'\\')).any(|part| part == b"..")
    };
    let hostile = listing.entries.iter().filter(|entry| leads_out(&entry.name)).count();
    if hostile > 0 {
        rendered.notes.push(format!(
            "{} of the names lead out of the folder it would be unpacked in (they begin with / or hold ..): be careful.",
            grouped(hostile as u64)
        ));
    }
    if listing.stopped {
        rendered.notes.push("It was not looked at to its end: that would have taken too long.".to_owned());
    }
    rendered.notes.push(format!("To see one of them use Bash, for example `{extract}`."));
    rendered
}
