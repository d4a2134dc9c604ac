//! Renders an archive's listing as lines.

use super::super::rendered_page::{LineNoun, RenderedPage, escape_entry_name};
use super::archive_entries::{ArchiveListing, PackedContent};
use super::document_protocol::Packing;
use punie_home::shell_word;
use punie_text::output::number_format::{format_size, group_digits};

/// The program that unpacks a format, and its option in `tar`.
fn unpacking_program(packing: Packing) -> (&'static str, &'static str) {
    match packing {
        Packing::Gzip => ("gzip", "xzOf"),
        Packing::Bzip2 => ("bzip2", "xjOf"),
        Packing::Xz => ("xz", "xJOf"),
        Packing::Zstd => ("zstd", "--zstd -xOf"),
    }
}

/// Names the kind of archive, such as a document.
fn describe_zip_kind(listing: &ArchiveListing) -> &'static str {
    const KINDS: [(&[&str], &str); 7] = [
        (&["word/document"], "Word document (a ZIP archive)"),
        (&["xl/workbook"], "Excel workbook (a ZIP archive)"),
        (
            &["ppt/presentation"],
            "PowerPoint presentation (a ZIP archive)",
        ),
        (
            &["META-INF/manifest.xml", "content.xml"],
            "OpenDocument file (a ZIP archive)",
        ),
        (&["META-INF/container.xml"], "EPUB book (a ZIP archive)"),
        (&["AndroidManifest.xml"], "Android package (a ZIP archive)"),
        (&["META-INF/MANIFEST.MF"], "Java archive (a ZIP archive)"),
    ];
    let has = |start: &&str| {
        let mut entries = listing.entries.iter();
        entries.any(|entry| entry.name.starts_with(start.as_bytes()))
    };
    KINDS
        .iter()
        .find(|(names, _)| names.iter().all(has))
        .map_or("ZIP archive", |(_, kind)| kind)
}

/// Renders the listing of a ZIP archive.
pub(super) fn render_zip_listing(shown: &str, size: u64, listing: &ArchiveListing) -> RenderedPage {
    let extract = format!("unzip -p {} NAME", shell_word(shown));
    render_listing(shown, describe_zip_kind(listing), size, listing, &extract)
}

/// Renders the listing of a tar archive, which may be compressed.
pub(super) fn render_tar(
    shown: &str,
    size: u64,
    listing: &ArchiveListing,
    packing: Option<Packing>,
) -> RenderedPage {
    let quoted = shell_word(shown);
    let (kind, options) = match packing.map(unpacking_program) {
        None => ("tar archive".to_owned(), "xOf"),
        Some((program, options)) => (format!("tar archive packed with {program}"), options),
    };
    let extract = format!("tar {options} {quoted} NAME");
    render_listing(shown, &kind, size, listing, &extract)
}

/// Renders packed data: a tar archive, or the size of a single file.
pub(super) fn render_packed(
    shown: &str,
    size: u64,
    packing: Packing,
    content: &PackedContent,
) -> RenderedPage {
    let (bytes, is_complete) = match content {
        PackedContent::Tar(listing) => return render_tar(shown, size, listing, Some(packing)),
        PackedContent::File { bytes, is_complete } => (*bytes, *is_complete),
    };
    let (program, _) = unpacking_program(packing);
    let more = if is_complete { "" } else { "more than " };
    RenderedPage {
        header: format!(
            "{shown} ({program} data, {}, {more}{} unpacked)",
            format_size(size),
            format_size(bytes)
        ),
        notes: vec![format!(
            "It is one packed file, not an archive. Unpack it with Bash, for example `{program} -dc {} | head -c 10000`.",
            shell_word(shown)
        )],
        line_noun: LineNoun::Entry,
        ..RenderedPage::default()
    }
}

fn render_listing(
    shown: &str,
    kind: &str,
    size: u64,
    listing: &ArchiveListing,
    extract: &str,
) -> RenderedPage {
    let more = if listing.is_stopped { "more than " } else { "" };
    let noun = if listing.total == 1 {
        "entry"
    } else {
        "entries"
    };
    let mut rendered = RenderedPage {
        header: format!(
            "{shown} ({kind}, {}, {more}{} {noun}, {} unpacked)",
            format_size(size),
            group_digits(listing.total),
            format_size(listing.bytes)
        ),
        line_noun: LineNoun::Entry,
        cut_short: listing.is_stopped
            || listing.is_cut_off
            || listing.has_duplicates
            || listing.total > listing.entries.len() as u64,
        ..RenderedPage::default()
    };
    for entry in &listing.entries {
        let name = escape_entry_name(&entry.name);
        let suffix = &entry.suffix;
        rendered.lines.push(if entry.is_folder {
            format!("{name}{suffix}")
        } else {
            format!("{name} ({}){suffix}", format_size(entry.size))
        });
    }
    let hostile = listing
        .entries
        .iter()
        .filter(|entry| leads_out(&entry.name));
    let hostile = hostile.count();
    if hostile > 0 {
        rendered.notes.push(format!(
            "{} of the names lead out of the folder it would be unpacked in (they begin with / or hold ..): be careful.",
            group_digits(hostile as u64)
        ));
    }
    if listing.has_duplicates {
        let note = "Some names occur more than once; only the last entry of each is listed.";
        rendered.notes.push(note.to_owned());
    }
    if listing.total > listing.entries.len() as u64 {
        rendered.notes.push(format!(
            "Only the first {} of its names can be shown.",
            group_digits(listing.entries.len() as u64)
        ));
    }
    if listing.is_stopped {
        let note = "It was not looked at to its end: that would have taken too long.";
        rendered.notes.push(note.to_owned());
    }
    if listing.is_cut_off {
        let note = "The archive is cut off: its end is missing, and entries may be missing. Get the file again.";
        rendered.notes.push(note.to_owned());
    }
    rendered.notes.push(format!(
        "To see one of them use Bash, for example `{extract}`."
    ));
    rendered
}

fn leads_out(name: &[u8]) -> bool {
    name.starts_with(b"/")
        || name
            .split(|byte| matches!(byte, b'/' | b'\\'))
            .any(|part| part == b"..")
}
