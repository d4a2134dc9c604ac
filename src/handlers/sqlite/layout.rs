//! Rows as a table, as JSON or as CSV. Not here: single values.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

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

    /// The rows under their columns' names.
    pub(super) fn lay_out(self, columns: &[String], rows: &[Vec<Shown>]) -> String {
        match self {
            Self::Table => table(columns, rows),
            Self::Json => as_json(columns, rows),
            Self::Csv => csv(columns, rows),
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

/// Columns and rows apart, so that two columns of one name both stay; one row a line, so that a cut is between rows.
fn as_json(columns: &[String], rows: &[Vec<Shown>]) -> String {
    let rows: Vec<String> =
        rows.iter().map(|row| Value::Array(row.iter().map(Shown::json).collect()).to_string()).collect();
    let body = if rows.is_empty() { String::new() } else { format!("\n{}\n", rows.join(",\n")) };
    format!("{{\"columns\":{},\"rows\":[{body}]}}", json!(columns))
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
            Format::Table.lay_out(&columns, &rows),
            "id | name | id\n---+------+-----\n 1 | ann  | NULL\n20 | b,c  |  0.5"
        );
    }

    #[test]
    fn json_keeps_both_columns_of_one_name() {
        let (columns, rows) = sample();
        let text = Format::Json.lay_out(&columns, &rows);
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["columns"], json!(["id", "name", "id"]));
        assert_eq!(value["rows"][1], json!([20, "b,c", 0.5]));
        assert!(serde_json::from_str::<Value>(&Format::Json.lay_out(&columns, &[])).is_ok());
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let (columns, rows) = sample();
        assert_eq!(Format::Csv.lay_out(&columns, &rows), "id,name,id\n1,ann,\n20,\"b,c\",0.5");
    }
}
