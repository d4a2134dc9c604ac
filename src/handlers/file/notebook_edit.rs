//! Edits of the cells of a Jupyter notebook, as Read shows them: a change of a cell's source becomes one of the file's
//! JSON, which stays as it is elsewhere.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::edit_sequence::apply_splices;
use super::requested_edit::{RequestedEdit, ResolvedEdit};
use punie_host::files::ByteSplice;
use punie_text::output::number_format::format_count;
use punie_tool::{ErrorCode, ToolError};

pub(super) struct CellSource<'t> {
    pub(super) text: String,
    /// The place of its JSON value in the file.
    pub(super) range: Range<usize>,
    json: &'t str,
}

#[derive(Deserialize)]
struct Notebook<'t> {
    #[serde(borrow)]
    cells: Vec<Cell<'t>>,
}

#[derive(Deserialize)]
struct Cell<'t> {
    #[serde(borrow)]
    source: Option<&'t RawValue>,
}

/// A text as nbformat stores it: whole, or line by line.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredText {
    Whole(String),
    Lines(Vec<String>),
}

/// Returns whether a file of this name is a notebook.
pub(super) fn has_notebook_name(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("ipynb"))
}

/// Returns the sources of a notebook's cells; none if the file is no notebook.
pub(super) fn cell_sources(file: &[u8]) -> Vec<CellSource<'_>> {
    let Ok(file) = str::from_utf8(file) else {
        return Vec::new();
    };
    let Ok(notebook) = serde_json::from_str::<Notebook<'_>>(file) else {
        return Vec::new();
    };
    let sources = notebook.cells.iter().filter_map(|cell| cell.source);
    let read = |source: &'_ RawValue| {
        let json = source.get();
        let text = match serde_json::from_str(json).ok()? {
            StoredText::Whole(text) => text,
            StoredText::Lines(lines) => lines.concat(),
        };
        Some((text, place_in(file, json)))
    };
    sources
        .filter_map(read)
        .map(|(text, range)| CellSource {
            text,
            json: &file[range.clone()],
            range,
        })
        .collect()
}

impl CellSource<'_> {
    /// Writes another source as the cell has its own: as one text or line by line, with unchanged lines as they are.
    pub(super) fn json_with(&self, source: &str) -> String {
        let has_escapes = self.json.is_ascii() && !self.text.is_ascii();
        let json_text = |text: &str| json_text(text, has_escapes);
        let Ok(lines) = serde_json::from_str::<Vec<&RawValue>>(self.json) else {
            return json_text(source);
        };
        if source.is_empty() {
            return "[]".to_owned();
        }
        let places: Vec<Range<usize>> = lines
            .iter()
            .map(|line| place_in(self.json, line.get()))
            .collect();
        let decoded = lines.iter().filter_map(|line| {
            Some((
                serde_json::from_str::<String>(line.get()).ok()?,
                line.get().to_owned(),
            ))
        });
        let known: HashMap<String, String> = decoded.collect();
        let (head, tail) = match (places.first(), places.last()) {
            (Some(first), Some(last)) => (&self.json[1..first.start], &self.json[last.end..]),
            _ => ("", "]"),
        };
        let separator = match places.as_slice() {
            [first, second, ..] => self.json[first.end..second.start].to_owned(),
            _ => format!(",{head}"),
        };
        let lines = source.split_inclusive('\n');
        let lines: Vec<String> = lines
            .map(|line| known.get(line).cloned().unwrap_or_else(|| json_text(line)))
            .collect();
        format!("[{head}{}{tail}", lines.join(&separator))
    }
}

/// Writes a text as JSON; with escapes for what is not ASCII if the source has them.
fn json_text(text: &str, has_escapes: bool) -> String {
    let json = serde_json::Value::from(text).to_string();
    if !has_escapes {
        return json;
    }
    let mut escaped = String::new();
    for c in json.chars() {
        if c.is_ascii() {
            escaped.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    escaped
}

/// The place of a part within the text that it is cut from.
fn place_in(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - text.as_ptr().addr();
    start..start + part.len()
}

impl RequestedEdit {
    /// Resolves the places in the cells of a notebook. `None` if no cell has the quote: it may be one of the JSON.
    pub(super) fn resolve_in_cells(
        &self,
        shown: &str,
        text: &[u8],
    ) -> Result<Option<ResolvedEdit>, ToolError> {
        let cells = cell_sources(text);
        let found: Vec<(usize, &CellSource<'_>, u64)> = (1..)
            .zip(&cells)
            .filter_map(|(n, cell)| Some((n, cell, self.find(cell.text.as_bytes())?.found.count)))
            .collect();
        let count: u64 = found.iter().map(|(.., count)| count).sum();
        let is_counted = self.replace_all || self.expected_count == Some(count);
        if found.is_empty() {
            return Ok(None);
        }
        if !is_counted && (count != 1 || self.expected_count.is_some()) {
            let cells: Vec<String> = found.iter().map(|(n, ..)| n.to_string()).collect();
            let text = format!(
                "old_string stands at {} in the cells of {shown}, not {}: cell {}. Nothing was changed. Quote more lines \
                 around the one you mean, or set replace_all=true.",
                format_count(count, "place"),
                self.expected_count.unwrap_or(1),
                cells.join(", ")
            );
            return Err(ToolError::new(ErrorCode::Ambiguous, text));
        }
        let in_cell = Self {
            is_notebook: false,
            replace_all: is_counted,
            expected_count: None,
            ..self.clone()
        };
        let mut splices = Vec::new();
        let mut all_notes = Vec::new();
        let mut done = None;
        for (n, cell, _) in found {
            let cell_text = cell.text.as_bytes();
            match in_cell.resolve(&format!("cell {n} of {shown}"), cell_text)? {
                ResolvedEdit::AlreadyDone(words) => done = Some(words),
                ResolvedEdit::Splices {
                    splices: changes,
                    notes,
                } => {
                    let source = apply_splices(cell_text, &changes);
                    splices.push(ByteSplice {
                        range: cell.range.clone(),
                        with: cell
                            .json_with(&String::from_utf8_lossy(&source))
                            .into_bytes(),
                    });
                    all_notes.extend(notes);
                    all_notes.push(format!("It is the source of cell {n}."));
                }
            }
        }
        Ok(Some(match done.filter(|_| splices.is_empty()) {
            Some(words) => ResolvedEdit::AlreadyDone(words),
            None => ResolvedEdit::Splices {
                splices,
                notes: all_notes,
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_written_as_it_was() {
        let file = "{\"cells\": [\n {\"source\": [\n   \"a = '\\u00e9'\\n\",\n   \"b\"\n  ], \"outputs\": []},\n \
                    {\"source\": \"x\\ny\"}, {\"source\": []}, {}]}";
        let cells = cell_sources(file.as_bytes());
        let texts: Vec<&str> = cells.iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!(texts, ["a = 'é'\nb", "x\ny", ""]);
        assert!(
            cells
                .iter()
                .all(|cell| file[cell.range.clone()] == *cell.json)
        );
        assert_eq!(
            cells[0].json_with("a = 'é'\n\"q\"\nb"),
            "[\n   \"a = '\\u00e9'\\n\",\n   \"\\\"q\\\"\\n\",\n   \"b\"\n  ]"
        );
        assert_eq!(cells[1].json_with("x\nz"), "\"x\\nz\"");
        assert_eq!(cells[2].json_with("new\nline"), "[\"new\\n\",\"line\"]");
        assert_eq!(cells[0].json_with("é"), "[\n   \"\\u00e9\"\n  ]");
        assert_eq!(cells[0].json_with(""), "[]");
        for broken in ["", "[]", "{\"cells\": 1}", "{\"cells\": [{\"source\": 1}]}"] {
            assert!(cell_sources(broken.as_bytes()).is_empty(), "{broken}");
        }
    }
}
