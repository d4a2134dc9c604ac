//! Rows as a table, as JSON or as CSV. Not here: single values.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::page::{Page, Wanted};
use super::value::{Shown, quoted};

/// A column is padded to at most this width; a longer cell only shifts its own row.
const MAX_PADDING: usize = 40;

/// How rows are laid out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    #[default]
    Table,
    Json,
    Csv,
}

impl Format {
    /// How many characters of one text are shown.
    pub(super) fn max_text(self) -> usize {
        match self {
            Self::Table => 200,
            Self::Json | Self::Csv => 20_000,
        }
    }

    /// The rows under their columns' names, with what the footer says of them. `room` is what JSON, which no cut may go
    /// through, has to fit into, in bytes.
    pub(super) fn lay_out(self, columns: &[String], page: &Page, wanted: &Wanted, room: usize) -> String {
        match self {
            Self::Table => format!("{}\n{}", table(columns, &page.rows), page.footer(wanted)),
            Self::Csv => format!("{}\n{}", csv(columns, &page.rows), page.footer(wanted)),
            Self::Json => as_json(columns, page, wanted, room),
        }
    }

    /// The answer with what is to be said beside the rows; as JSON it is one object.
    pub(super) fn finish(self, rows: &str, notes: &[String]) -> String {
        match self {
            Self::Json => {
                let mut parts: Vec<String> = Vec::from_iter((!rows.is_empty()).then(|| rows.to_owned()));
                if !notes.is_empty() {
                    parts.push(format!("\"notes\":{}", json!(notes)));
                }
                format!("{{{}}}", parts.join(","))
            }
            Self::Table | Self::Csv => {
                let parts = std::iter::once(rows).chain(notes.iter().map(String::as_str));
                parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
            }
        }
    }
}

fn table(columns: &[String], rows: &[Vec<Shown>]) -> String {
    let cells: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(Shown::cell).collect()).collect();
    let mut widths: Vec<usize> = columns.iter().map(|name| name.chars().count().min(MAX_PADDING)).collect();
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count().min(MAX_PADDING));
        }
    }
    let mut text = String::new();
    let heading: Vec<String> =
        columns.iter().zip(&widths).map(|(name, width)| format!("{name:<width$}")).collect();
    text.push_str(heading.join(" | ").trim_end());
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let _ = write!(text, "\n{}", rule.join("-+-"));
    for (row, values) in cells.iter().zip(rows) {
        let line: Vec<String> = row
            .iter()
            .zip(values)
            .zip(&widths)
            .map(
                |((cell, value), width)| {
                    if value.is_number() { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
                },
            )
            .collect();
        let _ = write!(text, "\n{}", line.join(" | ").trim_end());
    }
    text
}

/// The members of an object: columns and rows apart, so that two columns of one name both stay; one row a line.
fn as_json(columns: &[String], page: &Page, wanted: &Wanted, room: usize) -> String {
    let mut body = String::new();
    let mut shown: u64 = 0;
    for row in &page.rows {
        let row = Value::Array(row.iter().map(Shown::json).collect()).to_string();
        if body.len() + row.len() > room {
            break;
        }
        body.extend([if shown == 0 { "\n" } else { ",\n" }, &row]);
        shown += 1;
    }
    let mut text = format!("\"columns\":{},\"rows\":[{body}],\"row_count\":{shown}", json!(columns));
    let left_out = page.rows.len() as u64 - shown;
    if page.beyond > 0 || (left_out > 0 && page.is_of_change) {
        let _ = write!(text, ",\"changed_and_not_shown\":{}", page.beyond + left_out);
    } else if page.more || left_out > 0 {
        let _ = write!(text, ",\"more\":true,\"next_offset\":{}", wanted.offset + shown);
    }
    if left_out > 0 && shown == 0 {
        text.push_str(",\"too_large\":\"one row is more than max_chars: choose fewer columns, use substr(), or raise it\"");
    }
    text
}

fn csv(columns: &[String], rows: &[Vec<Shown>]) -> String {
    let heading: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
    let mut text = heading.join(",");
    for row in rows {
        let fields: Vec<String> = row.iter().map(Shown::field).collect();
        let _ = write!(text, "\n{}", fields.join(","));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Vec<String>, Vec<Vec<Shown>>) {
        let text = |text: &str| Shown::Text { text: text.to_owned(), of: None };
        (
            vec!["id".to_owned(), "name".to_owned(), "id".to_owned()],
            vec![
                vec![Shown::Integer(1), text("ann"), Shown::Null],
                vec![Shown::Integer(20), text("b,c"), Shown::Real(0.5)],
            ],
        )
    }

    #[test]
    fn a_table_is_aligned() {
        let (columns, rows) = sample();
        assert_eq!(
            table(&columns, &rows),
            "id | name | id\n---+------+-----\n 1 | ann  | NULL\n20 | b,c  |  0.5"
        );
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let (columns, rows) = sample();
        assert_eq!(csv(&columns, &rows), "id,name,id\n1,ann,\n20,\"b,c\",0.5");
    }
}
