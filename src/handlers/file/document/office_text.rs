//! The text of an office document: its paragraphs as lines, its tables as rows with tabs.

use super::office_parts::{XmlPart, XmlStep, attribute_value};
use punie_text::output::number_format::format_count;
use quick_xml::events::BytesStart;

/// The most text of a document.
pub(super) const MAX_TEXT_BYTES: usize = 4 << 20;
/// The most copies of a repeated cell or row.
const MAX_REPEATS: usize = 1_000;

/// The lines of a document, up to a limit.
pub(super) struct TextLines<'c> {
    pub(super) lines: Vec<String>,
    bytes: usize,
    /// True if the limit or the deadline was reached.
    pub(super) is_cut: bool,
    /// True if it was the deadline.
    pub(super) is_late: bool,
    pub(super) has_time_left: &'c dyn Fn() -> bool,
}

impl<'c> TextLines<'c> {
    pub(super) fn new(has_time_left: &'c dyn Fn() -> bool) -> Self {
        Self {
            lines: Vec::new(),
            bytes: 0,
            is_cut: false,
            is_late: false,
            has_time_left,
        }
    }

    /// Adds a text of one or more lines.
    pub(super) fn push_text(&mut self, text: &str) {
        for line in text.split('\n') {
            self.bytes += line.len() + 1;
            if self.bytes > MAX_TEXT_BYTES {
                self.is_cut = true;
                return;
            }
            self.lines.push(line.to_owned());
            if self.lines.len().is_multiple_of(1_024) && !(self.has_time_left)() {
                (self.is_cut, self.is_late) = (true, true);
                return;
            }
        }
    }

    /// Adds the heading of a section, with an empty line before it.
    pub(super) fn push_heading(&mut self, heading: &str) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.push_text("");
        }
        self.push_text(heading);
    }

    /// Adds a row of cells without the empty ones at its end.
    pub(super) fn push_row(&mut self, cells: &[String]) {
        self.push_text(&join_cells(cells));
    }
}

fn join_cells(cells: &[String]) -> String {
    let used = cells.iter().rposition(|cell| !cell.is_empty());
    cells[..used.map_or(0, |last| last + 1)].join("\t")
}

/// The value of an attribute that says how often a cell or a row stands there.
fn repeat_count(start: &BytesStart<'_>, name: &str) -> usize {
    let count = attribute_value(start, name).and_then(|count| count.parse().ok());
    count.unwrap_or(1)
}

/// The XML vocabulary of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextMarkup {
    /// Word and PowerPoint.
    OpenXml,
    OdfText,
    OdfSheets,
    OdfSlides,
}

/// A row that is being read; tables may be nested.
#[derive(Default)]
struct OpenRow {
    cells: Vec<String>,
    /// The cell that is being read, with its repeat count.
    cell: Option<(String, usize)>,
    repeats: usize,
}

/// Reads the text of a part.
///
/// # Errors
/// The part is damaged; the lines before the damage were added.
pub(super) fn read_part_text(
    part: &mut XmlPart<'_>,
    markup: TextMarkup,
    lines: &mut TextLines<'_>,
) -> Result<(), String> {
    let mut reader = TextReader {
        markup,
        lines,
        paragraphs: Vec::new(),
        rows: Vec::new(),
        skipped: 0,
        is_in_text: markup != TextMarkup::OpenXml,
        sections: 0,
    };
    while !reader.lines.is_cut {
        match part.next_step()? {
            XmlStep::Start(start) => reader.start_element(&start),
            XmlStep::End(name) => reader.end_element(&name),
            XmlStep::Text(text) => reader.add_characters(&text),
            XmlStep::Ignored => {}
            XmlStep::AtEnd => break,
        }
    }
    Ok(())
}

struct TextReader<'l, 'c> {
    markup: TextMarkup,
    lines: &'l mut TextLines<'c>,
    /// The open paragraphs: a text box is nested in another paragraph.
    paragraphs: Vec<String>,
    rows: Vec<OpenRow>,
    /// The depth within a skipped element.
    skipped: usize,
    is_in_text: bool,
    sections: usize,
}

impl TextReader<'_, '_> {
    fn start_element(&mut self, start: &BytesStart<'_>) {
        let local = start.local_name();
        let name = local.as_ref();
        // Properties hold tab stops; a fallback repeats a text box; tracked changes hold deleted
        // text.
        let is_skipped = matches!(name, "pPr" | "rPr" | "Fallback" | "tracked-changes");
        if self.skipped > 0 || is_skipped {
            self.skipped += 1;
            return;
        }
        match name {
            "p" | "h" => self.paragraphs.push(String::new()),
            "t" if self.markup == TextMarkup::OpenXml => self.is_in_text = true,
            "tab" => self.push_character("\t"),
            "br" | "cr" | "line-break" => self.push_character("\n"),
            "s" if self.markup != TextMarkup::OpenXml => {
                let count = attribute_value(start, "c").and_then(|count| count.parse().ok());
                let count = count.unwrap_or(1).min(MAX_REPEATS);
                self.push_character(&" ".repeat(count));
            }
            "tr" | "table-row" => self.rows.push(OpenRow {
                repeats: repeat_count(start, "number-rows-repeated"),
                ..OpenRow::default()
            }),
            "tc" | "table-cell" | "covered-table-cell" => self.start_cell(start),
            "table" if self.markup == TextMarkup::OdfSheets => {
                self.sections += 1;
                let sheet = attribute_value(start, "name").unwrap_or_default();
                let heading = format!("[sheet {}: {sheet}]", self.sections);
                self.lines.push_heading(&heading);
            }
            "page" if self.markup == TextMarkup::OdfSlides => {
                self.sections += 1;
                self.lines
                    .push_heading(&format!("[slide {}]", self.sections));
            }
            "notes" if self.markup == TextMarkup::OdfSlides => {
                self.lines.push_text("[notes]");
            }
            _ => {}
        }
    }

    fn start_cell(&mut self, start: &BytesStart<'_>) {
        let count = repeat_count(start, "number-columns-repeated");
        if let Some(row) = self.rows.last_mut() {
            row.cell = Some((String::new(), count));
        }
    }

    fn end_element(&mut self, name: &str) {
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        match name {
            "p" | "h" => {
                if let Some(text) = self.paragraphs.pop() {
                    self.end_paragraph(&text);
                }
            }
            "t" if self.markup == TextMarkup::OpenXml => self.is_in_text = false,
            "tc" | "table-cell" | "covered-table-cell" => self.end_cell(),
            "tr" | "table-row" => {
                if let Some(row) = self.rows.pop() {
                    self.end_row(&row);
                }
            }
            _ => {}
        }
    }

    /// Adds a paragraph to the open cell, otherwise to the lines.
    fn end_paragraph(&mut self, text: &str) {
        let Some((cell, _)) = self.rows.last_mut().and_then(|row| row.cell.as_mut()) else {
            self.lines.push_text(text);
            return;
        };
        let words = text.replace(['\n', '\t'], " ");
        if !cell.is_empty() && !words.is_empty() {
            cell.push(' ');
        }
        cell.push_str(&words);
    }

    fn end_cell(&mut self) {
        let Some(row) = self.rows.last_mut() else {
            return;
        };
        if let Some((text, count)) = row.cell.take() {
            let count = count.min(MAX_REPEATS);
            row.cells.extend(std::iter::repeat_n(text, count));
        }
    }

    fn end_row(&mut self, row: &OpenRow) {
        let text = join_cells(&row.cells);
        let is_in_table = self.rows.last().is_some_and(|row| row.cell.is_some());
        let is_blank = text.is_empty() && self.markup == TextMarkup::OdfSheets;
        if is_in_table {
            self.end_paragraph(&text);
        } else if !is_blank {
            for _ in 0..row.repeats.min(MAX_REPEATS) {
                self.lines.push_text(&text);
            }
            if let Some(more @ 1..) = row.repeats.checked_sub(MAX_REPEATS) {
                let more = format_count(more as u64, "more time");
                let note = format!("[the row above stands here {more}]");
                self.lines.push_text(&note);
            }
        }
    }

    fn push_character(&mut self, text: &str) {
        if let Some(paragraph) = self.paragraphs.last_mut() {
            paragraph.push_str(text);
        }
    }

    fn add_characters(&mut self, text: &str) {
        if !self.is_in_text || self.skipped > 0 {
            return;
        }
        let Some(paragraph) = self.paragraphs.last_mut() else {
            return;
        };
        if self.markup == TextMarkup::OpenXml {
            paragraph.push_str(text);
            return;
        }
        // OpenDocument has an element for each further space.
        for c in text.chars() {
            match c {
                ' ' | '\n' | '\t' | '\r' if paragraph.ends_with(' ') => {}
                ' ' | '\n' | '\t' | '\r' => paragraph.push(' '),
                c => paragraph.push(c),
            }
        }
    }
}
