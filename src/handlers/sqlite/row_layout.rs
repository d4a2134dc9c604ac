//! Rows as a table, as JSON or as CSV.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::cell_value::{CellValue, quote_csv_field};
use super::row_page::{PageRequest, RowPage};

/// A column is padded to at most this width; a longer cell only shifts its own row.
const MAX_PADDING: usize = 40;

/// The layout of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum OutputFormat {
    #[default]
    Table,
    Json,
    Csv,
}

impl OutputFormat {
    /// The characters of one text that are shown.
    pub(super) fn max_text_chars(self) -> usize {
        match self {
            Self::Table => 200,
            Self::Json | Self::Csv => 20_000,
        }
    }

    /// The rows under their columns' names, with the page's footer. JSON, which must not be cut, fits into `max_bytes`.
    pub(super) fn format_rows(
        self,
        columns: &[String],
        page: &RowPage,
        request: &PageRequest,
        max_bytes: usize,
    ) -> String {
        match self {
            Self::Table => format_table(columns, &page.rows) + "\n" + &page.footer(request),
            Self::Csv => format_csv(columns, &page.rows) + "\n" + &page.footer(request),
            Self::Json => json_members(columns, page, request, max_bytes),
        }
    }

    /// The answer: rows and notes; as JSON one object.
    pub(super) fn join_notes(self, rows: &str, notes: &[String]) -> String {
        match self {
            Self::Json => {
                let mut parts: Vec<String> =
                    Vec::from_iter((!rows.is_empty()).then(|| rows.to_owned()));
                if !notes.is_empty() {
                    parts.push(format!("\"notes\":{}", json!(notes)));
                }
                format!("{{{}}}", parts.join(","))
            }
            Self::Table | Self::Csv => {
                let parts = std::iter::once(rows).chain(notes.iter().map(String::as_str));
                parts
                    .filter(|part| !part.is_empty())
                    .collect::<Vec<_>>()
                    .join("\n")
            }
        }
    }
}

fn format_table(columns: &[String], rows: &[Vec<CellValue>]) -> String {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(CellValue::to_table_cell).collect())
        .collect();
    let width = |at: usize| {
        let column = cells
            .iter()
            .filter_map(|row| row.get(at))
            .chain([&columns[at]]);
        let chars = column.map(|cell| cell.chars().count().min(MAX_PADDING));
        chars.max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let heading = columns.iter().zip(&widths);
    let heading: Vec<String> = heading
        .map(|(name, width)| format!("{name:<width$}"))
        .collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let mut text = format!("{}\n{}", heading.join(" | ").trim_end(), rule.join("-+-"));
    for (row, values) in cells.iter().zip(rows) {
        let padded = row.iter().zip(values).zip(&widths);
        let line: Vec<String> = padded
            .map(|((cell, value), width)| {
                if value.is_number() {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            })
            .collect();
        text.extend(["\n", line.join(" | ").trim_end()]);
    }
    text
}

/// The members of an object: columns and rows apart, so that two columns of one name both stay; one row a line.
fn json_members(
    columns: &[String],
    page: &RowPage,
    request: &PageRequest,
    max_bytes: usize,
) -> String {
    let mut body = String::new();
    let mut shown: u64 = 0;
    for row in &page.rows {
        let row = Value::Array(row.iter().map(CellValue::to_json).collect()).to_string();
        if body.len() + row.len() > max_bytes {
            break;
        }
        body.extend([if shown == 0 { "\n" } else { ",\n" }, &row]);
        shown += 1;
    }
    let mut text = format!(
        "\"columns\":{},\"rows\":[{body}],\"row_count\":{shown}",
        json!(columns)
    );
    let left_out = page.rows.len() as u64 - shown;
    if page.hidden > 0 || (left_out > 0 && page.is_of_change) {
        let _ = write!(
            text,
            ",\"changed_and_not_shown\":{}",
            page.hidden + left_out
        );
    } else if page.has_more || left_out > 0 {
        let _ = write!(
            text,
            ",\"more\":true,\"next_offset\":{}",
            request.offset + shown
        );
    }
    if left_out > 0 && shown == 0 {
        text.push_str(",\"too_large\":\"one row is more than max_chars: choose fewer columns, use substr(), or raise it\"");
    }
    text
}

fn format_csv(columns: &[String], rows: &[Vec<CellValue>]) -> String {
    let heading: Vec<String> = columns.iter().map(|name| quote_csv_field(name)).collect();
    let mut text = heading.join(",");
    for row in rows {
        let fields: Vec<String> = row.iter().map(CellValue::to_csv_field).collect();
        let _ = write!(text, "\n{}", fields.join(","));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::cell_value::CutText;
    use super::*;

    fn sample() -> (Vec<String>, Vec<Vec<CellValue>>) {
        let text = |text: &str| CellValue::Text(CutText::new(text, 9, 0));
        (
            vec!["id".to_owned(), "name".to_owned(), "id".to_owned()],
            vec![
                vec![CellValue::Integer(1), text("ann"), CellValue::Null],
                vec![
                    CellValue::Integer(20),
                    text("b,c"),
                    CellValue::Real(0.5_f64.to_bits()),
                ],
            ],
        )
    }

    #[test]
    fn a_table_is_aligned() {
        let (columns, rows) = sample();
        assert_eq!(
            format_table(&columns, &rows),
            "id | name | id\n---+------+-----\n 1 | ann  | NULL\n20 | b,c  |  0.5"
        );
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let (columns, rows) = sample();
        assert_eq!(
            format_csv(&columns, &rows),
            "id,name,id\n1,ann,\n20,\"b,c\",0.5"
        );
    }
}
