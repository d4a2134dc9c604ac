//! Renders an office document as a page of lines, or the listing of another ZIP archive.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufReader, Read as _};

use zip::ZipArchive;

use super::super::rendered_page::RenderedPage;
use super::office_parts::{OfficeArchive, XmlStep, open_part, read_relations};
use super::office_text::{MAX_TEXT_BYTES, TextLines, TextMarkup, read_part_text};
use super::{archive_entries, archive_page, workbook};
use punie_text::output::number_format::{format_count, format_size};

const WORD_PART: &str = "word/document.xml";
const SLIDES_PART: &str = "ppt/presentation.xml";
const OPEN_DOCUMENT_PART: &str = "content.xml";

/// A format of office documents.
#[derive(Debug, Clone, Copy)]
enum OfficeFormat {
    Word,
    Excel,
    PowerPoint,
    OpenDocument(TextMarkup),
}

impl OfficeFormat {
    fn detect(archive: &mut OfficeArchive) -> Option<Self> {
        let has = |name| archive.index_for_name(name).is_some();
        if has(WORD_PART) {
            return Some(Self::Word);
        }
        if has(workbook::WORKBOOK_PART) {
            return Some(Self::Excel);
        }
        if has(SLIDES_PART) {
            return Some(Self::PowerPoint);
        }
        if !has(OPEN_DOCUMENT_PART) {
            return None;
        }
        let mut mime_type = String::new();
        let declared = archive.by_name("mimetype").ok()?;
        declared.take(200).read_to_string(&mut mime_type).ok()?;
        let kind = mime_type.strip_prefix("application/vnd.oasis.opendocument.")?;
        // A template has the same content.
        match kind.trim().trim_end_matches("-template") {
            "text" => Some(Self::OpenDocument(TextMarkup::OdfText)),
            "spreadsheet" => Some(Self::OpenDocument(TextMarkup::OdfSheets)),
            "presentation" => Some(Self::OpenDocument(TextMarkup::OdfSlides)),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Word => "Word document",
            Self::Excel => "Excel workbook",
            Self::PowerPoint => "PowerPoint presentation",
            Self::OpenDocument(TextMarkup::OdfSheets) => "OpenDocument spreadsheet",
            Self::OpenDocument(TextMarkup::OdfSlides) => "OpenDocument presentation",
            Self::OpenDocument(_) => "OpenDocument text",
        }
    }

    /// The name of its sections, if it has any.
    fn section_noun(self) -> Option<&'static str> {
        match self {
            Self::Excel | Self::OpenDocument(TextMarkup::OdfSheets) => Some("sheet"),
            Self::PowerPoint | Self::OpenDocument(TextMarkup::OdfSlides) => Some("slide"),
            _ => None,
        }
    }

    /// Adds the document's text to the lines.
    fn read_text(
        self,
        archive: &mut OfficeArchive,
        lines: &mut TextLines<'_>,
    ) -> Result<(), String> {
        match self {
            Self::Word => read_word_document(archive, lines),
            Self::Excel => workbook::read_workbook(archive, lines),
            Self::PowerPoint => read_slides(archive, lines),
            Self::OpenDocument(markup) => {
                read_part_text(&mut open_part(archive, OPEN_DOCUMENT_PART)?, markup, lines)
            }
        }
    }
}

/// Renders an office document as text, and any other ZIP archive as a listing.
pub(super) fn render_zip(
    shown: &str,
    size: u64,
    file: File,
    has_time_left: &dyn Fn() -> bool,
) -> Result<RenderedPage, String> {
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|cause| cause.to_string())?;
    let mut lines = TextLines::new(has_time_left);
    let mut fault = None;
    if let Some(format) = OfficeFormat::detect(&mut archive) {
        fault = format.read_text(&mut archive, &mut lines).err();
        let has_text = lines.lines.iter().any(|line| !line.is_empty());
        if fault.is_none() || has_text {
            return Ok(render_document(
                shown,
                size,
                format,
                lines,
                fault.as_deref(),
            ));
        }
    }
    let listing = archive_entries::list_zip(&archive)?;
    let mut page = archive_page::render_zip_listing(shown, size, &listing);
    if let Some(why) = fault {
        page.notes
            .insert(0, format!("Its text could not be read: {why}."));
    }
    Ok(page)
}

fn render_document(
    shown: &str,
    size: u64,
    format: OfficeFormat,
    lines: TextLines<'_>,
    fault: Option<&str>,
) -> RenderedPage {
    let (noun, count) = match format.section_noun() {
        Some(noun) => {
            let start = format!("[{noun} ");
            let headings = lines.lines.iter().filter(|line| line.starts_with(&start));
            (noun, headings.count())
        }
        None => ("line", lines.lines.len()),
    };
    let mut notes = Vec::new();
    if let Some(why) = fault {
        notes.push(format!(
            "The document is not shown to its end: {why}. The text before that is shown."
        ));
    }
    if lines.is_late {
        notes.push("The time for reading was over: the text goes on.".to_owned());
    } else if lines.is_cut {
        notes.push(format!(
            "Only the first {} of its text can be shown.",
            format_size(MAX_TEXT_BYTES as u64)
        ));
    }
    notes.push(
        "This is its text, without pictures and formatting. The lines are those of the text, not of the file."
            .to_owned(),
    );
    RenderedPage {
        header: format!(
            "{shown} ({}, {}, {})",
            format.name(),
            format_size(size),
            format_count(count as u64, noun)
        ),
        lines: lines.lines,
        notes,
        cut_short: lines.is_cut || fault.is_some(),
        ..RenderedPage::default()
    }
}

fn read_word_document(
    archive: &mut OfficeArchive,
    lines: &mut TextLines<'_>,
) -> Result<(), String> {
    read_part_text(
        &mut open_part(archive, WORD_PART)?,
        TextMarkup::OpenXml,
        lines,
    )?;
    let names = archive.file_names().filter_map(Result::ok);
    let names: Vec<String> = names.map(Cow::into_owned).collect();
    for (start, heading) in [
        ("word/header", "[header]"),
        ("word/footer", "[footer]"),
        ("word/footnotes", "[footnotes]"),
        ("word/endnotes", "[endnotes]"),
        ("word/comments.", "[comments]"),
    ] {
        // Several sections have headers of their own, often with the same text.
        let mut shown: Vec<Vec<String>> = Vec::new();
        for name in names.iter().filter(|name| name.starts_with(start)) {
            let mut part = TextLines::new(lines.has_time_left);
            read_part_text(
                &mut open_part(archive, name)?,
                TextMarkup::OpenXml,
                &mut part,
            )?;
            let is_blank = |line: &String| line.trim().is_empty();
            let text: Vec<String> = part.lines.into_iter().skip_while(is_blank).collect();
            let end = text
                .iter()
                .rposition(|line| !is_blank(line))
                .map_or(0, |last| last + 1);
            if end > 0 && !shown.contains(&text[..end].to_vec()) {
                shown.push(text[..end].to_vec());
            }
        }
        if !shown.is_empty() {
            lines.push_heading(heading);
        }
        shown
            .iter()
            .flatten()
            .for_each(|line| lines.push_text(line));
    }
    Ok(())
}

/// Adds the slides in order, each with its notes.
fn read_slides(archive: &mut OfficeArchive, lines: &mut TextLines<'_>) -> Result<(), String> {
    let relations = read_relations(archive, SLIDES_PART)?;
    let mut slides = Vec::new();
    let mut part = open_part(archive, SLIDES_PART)?;
    loop {
        match part.next_step()? {
            XmlStep::Start(start) if start.local_name().as_ref() == "sldId" => {
                // The attribute `id` without a prefix is an unrelated number, not a relation.
                let ids = start.attributes().flatten();
                let ids = ids.map(|attribute| attribute.value.into_owned());
                slides.extend(ids.filter_map(|id| relations.get(&id)));
            }
            XmlStep::AtEnd => break,
            _ => {}
        }
    }
    drop(part);
    for (number, slide) in (1..).zip(slides) {
        lines.push_heading(&format!("[slide {number}]"));
        let mut part = open_part(archive, &slide.target)?;
        read_part_text(&mut part, TextMarkup::OpenXml, lines)?;
        drop(part);
        let related = read_relations(archive, &slide.target)?;
        if let Some(notes) = related.values().find(|other| other.kind == "notesSlide") {
            lines.push_text("[notes]");
            let mut part = open_part(archive, &notes.target)?;
            read_part_text(&mut part, TextMarkup::OpenXml, lines)?;
        }
        if lines.is_cut {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_that_takes_too_long_says_so() {
        let mut lines = TextLines::new(&|| false);
        lines.push_text(&"a\n".repeat(2_000));
        assert!(lines.is_cut);
        let page = render_document("a.docx", 9, OfficeFormat::Word, lines, None);
        let notes = page.notes.join("\n");
        assert!(notes.contains("time for reading"), "{notes}");
        assert!(!notes.contains("4 MB") && page.cut_short, "{notes}");
    }
}
