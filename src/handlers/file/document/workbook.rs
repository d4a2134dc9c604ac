//! The sheets of an Excel workbook: a line per row, its cells separated by tabs. Not here:
//! OpenDocument sheets (office_text).

use quick_xml::events::BytesStart;

use super::cell_format::CellFormats;
use super::office_parts::{OfficeArchive, XmlStep, attribute_value, open_part, read_relations};
use super::office_text::TextLines;

/// The part that names the sheets.
pub(super) const WORKBOOK_PART: &str = "xl/workbook.xml";
const STRINGS_PART: &str = "xl/sharedStrings.xml";
/// The most text of shared strings.
const MAX_SHARED_BYTES: usize = 32 << 20;
/// The most columns of a sheet, as in Excel.
const MAX_COLUMNS: usize = 16_384;
/// Longer runs of empty rows are counted, not shown.
const MAX_EMPTY_ROWS: u64 = 5;

/// Adds all sheets to the lines.
///
/// # Errors
/// The workbook is damaged; the lines before the damage were added.
pub(super) fn read_workbook(
    archive: &mut OfficeArchive,
    lines: &mut TextLines<'_>,
) -> Result<(), String> {
    let mut formats = CellFormats::read_styles(archive)?;
    let sheets = read_sheet_names(archive, &mut formats)?;
    let strings = if archive.index_for_name(STRINGS_PART).is_some() {
        read_shared_strings(archive)?
    } else {
        Vec::new()
    };
    for (number, (name, part)) in (1..).zip(&sheets) {
        lines.push_heading(&format!("[sheet {number}: {name}]"));
        let heading = lines.lines.len();
        let columns = read_sheet(archive, part, (&strings, &formats), lines)?;
        lines.lines.insert(heading, column_letters(columns));
        if lines.is_cut {
            break;
        }
    }
    Ok(())
}

/// The letters above the columns, as Excel shows them.
fn column_letters(count: usize) -> String {
    let letters = |mut column: usize| {
        let mut name = Vec::new();
        loop {
            name.insert(0, char::from(b'A' + u8::try_from(column % 26).unwrap_or(0)));
            match (column / 26).checked_sub(1) {
                Some(rest) => column = rest,
                None => return name.into_iter().collect::<String>(),
            }
        }
    };
    let all: Vec<String> = (0..count).map(letters).collect();
    all.join("\t")
}

/// Returns the names of the sheets and of their parts, and reads how the workbook counts days.
fn read_sheet_names(
    archive: &mut OfficeArchive,
    formats: &mut CellFormats,
) -> Result<Vec<(String, String)>, String> {
    let relations = read_relations(archive, WORKBOOK_PART)?;
    let mut part = open_part(archive, WORKBOOK_PART)?;
    let mut sheets = Vec::new();
    loop {
        match part.next_step()? {
            XmlStep::Start(start) if start.local_name().as_ref() == "sheet" => {
                let relation = attribute_value(&start, "id").and_then(|id| relations.get(&id));
                // A chart sheet has no cells.
                if let Some(relation) = relation.filter(|relation| relation.kind == "worksheet") {
                    let name = attribute_value(&start, "name").unwrap_or_default();
                    let state = attribute_value(&start, "state");
                    let is_hidden = state.is_some_and(|state| state.ends_with("idden"));
                    let hidden = if is_hidden { ", hidden" } else { "" };
                    sheets.push((name + hidden, relation.target.clone()));
                }
            }
            XmlStep::Start(start) if start.local_name().as_ref() == "workbookPr" => {
                let mac = attribute_value(&start, "date1904");
                formats.has_mac_days = matches!(mac.as_deref(), Some("1" | "true"));
            }
            XmlStep::AtEnd => return Ok(sheets),
            _ => {}
        }
    }
}

fn read_shared_strings(archive: &mut OfficeArchive) -> Result<Vec<String>, String> {
    let mut part = open_part(archive, STRINGS_PART)?;
    let mut strings: Vec<String> = Vec::new();
    let mut is_in_text = false;
    let mut is_phonetic = false;
    let mut bytes = 0;
    loop {
        match part.next_step()? {
            XmlStep::Start(start) => match start.local_name().as_ref() {
                "si" => strings.push(String::new()),
                "t" => is_in_text = !is_phonetic,
                "rPh" => is_phonetic = true,
                _ => {}
            },
            XmlStep::End(name) => match name.as_str() {
                "t" => is_in_text = false,
                "rPh" => is_phonetic = false,
                _ => {}
            },
            XmlStep::Text(text) if is_in_text => {
                bytes += text.len();
                if bytes > MAX_SHARED_BYTES {
                    return Err("its cells share too much text".to_owned());
                }
                if let Some(string) = strings.last_mut() {
                    string.push_str(&text);
                }
            }
            XmlStep::AtEnd => return Ok(strings),
            _ => {}
        }
    }
}

/// The cell that is being read.
#[derive(Default)]
struct OpenCell {
    kind: String,
    style: usize,
    value: String,
    formula: String,
}

/// The element whose text is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CellPart {
    Other,
    Value,
    Formula,
}

/// Reads the rows of a sheet. Returns the number of its columns.
fn read_sheet(
    archive: &mut OfficeArchive,
    part: &str,
    (strings, formats): (&[String], &CellFormats),
    lines: &mut TextLines<'_>,
) -> Result<usize, String> {
    let mut part = open_part(archive, part)?;
    let mut cells: Vec<String> = Vec::new();
    let mut cell = OpenCell::default();
    let mut within = CellPart::Other;
    let mut last_row = 0;
    let mut columns = 0;
    while !lines.is_cut {
        match part.next_step()? {
            XmlStep::Start(start) => match start.local_name().as_ref() {
                "row" => {
                    cells.clear();
                    last_row = start_row(&start, last_row, lines);
                }
                "c" => {
                    if let Some(column) = cell_column(&start) {
                        cells.resize(column.max(cells.len()), String::new());
                    }
                    cell = OpenCell {
                        kind: attribute_value(&start, "t").unwrap_or_default(),
                        style: attribute_value(&start, "s")
                            .and_then(|style| style.parse().ok())
                            .unwrap_or(0),
                        ..OpenCell::default()
                    };
                }
                "v" | "t" => within = CellPart::Value,
                "f" => within = CellPart::Formula,
                _ => {}
            },
            XmlStep::End(name) => match name.as_str() {
                "row" => {
                    columns = columns.max(cells.len());
                    lines.push_row(&cells);
                }
                "c" => cells.push(cell_text(&cell, strings, formats)),
                "v" | "t" | "f" => within = CellPart::Other,
                _ => {}
            },
            XmlStep::Text(text) => match within {
                CellPart::Value => cell.value.push_str(&text),
                CellPart::Formula => cell.formula.push_str(&text),
                CellPart::Other => {}
            },
            XmlStep::Ignored => {}
            XmlStep::AtEnd => break,
        }
    }
    Ok(columns)
}

/// Adds the empty rows before this one. Returns its number.
fn start_row(start: &BytesStart<'_>, last_row: u64, lines: &mut TextLines<'_>) -> u64 {
    let row = attribute_value(start, "r").and_then(|row| row.parse().ok());
    let row = row.unwrap_or(last_row + 1);
    let empty = row.saturating_sub(last_row + 1);
    if empty > MAX_EMPTY_ROWS {
        lines.push_text(&format!("[rows {}-{} are empty]", last_row + 1, row - 1));
    } else {
        (0..empty).for_each(|_| lines.push_text(""));
    }
    row
}

/// The column of a cell reference such as `AB12`, from 0.
fn cell_column(start: &BytesStart<'_>) -> Option<usize> {
    let place = attribute_value(start, "r")?;
    let letters = place.bytes().take_while(u8::is_ascii_uppercase);
    let column = letters.take(4).fold(0, |column, letter| {
        column * 26 + usize::from(letter - b'A') + 1
    });
    column.checked_sub(1).filter(|column| *column < MAX_COLUMNS)
}

fn cell_text(cell: &OpenCell, strings: &[String], formats: &CellFormats) -> String {
    let value = cell.value.as_str();
    if matches!(cell.kind.as_str(), "" | "n")
        && let Some(shown) = formats.show_number(cell.style, value)
    {
        return shown;
    }
    let text = match cell.kind.as_str() {
        "s" => {
            let index: Option<usize> = value.trim().parse().ok();
            index
                .and_then(|index| strings.get(index))
                .map_or("", String::as_str)
        }
        "b" if value == "1" => "TRUE",
        "b" => "FALSE",
        _ => value,
    };
    if text.is_empty() && !cell.formula.is_empty() {
        return format!("={}", cell.formula);
    }
    text.replace(['\n', '\t', '\r'], " ")
}
