//! Tables for people: columns that fit the terminal, numbers on the right, colours.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Effects, Style};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, Row, Table, Width};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The blanks between two columns.
const GAP: usize = 2;
/// The width below which other columns shrink, too.
const LEAST_FLEXIBLE: usize = 16;
/// The length of a shortened id. The beginnings of ids of one day are alike.
const SHORT_ID: usize = 8;

/// A column of a table: its heading, and how its cells are shown.
#[derive(Debug, Clone, Copy)]
pub struct Column<'h> {
    heading: &'h str,
    kind: ColumnKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnKind {
    Text,
    Number,
    Flexible,
    Path,
    Wrapped,
    Outcome,
    Id,
}

impl<'h> Column<'h> {
    /// Creates a column of short texts.
    pub fn text(heading: &'h str) -> Self {
        Self::of_kind(heading, ColumnKind::Text)
    }

    /// Creates a column of numbers and durations, aligned on the right.
    pub fn number(heading: &'h str) -> Self {
        Self::of_kind(heading, ColumnKind::Number)
    }

    /// Creates a column that is cut where the terminal has no room for all of it.
    pub fn flexible(heading: &'h str) -> Self {
        Self::of_kind(heading, ColumnKind::Flexible)
    }

    /// Creates a column of paths, which are cut in the middle: the file's name stays.
    pub fn path(heading: &'h str) -> Self {
        Self::of_kind(heading, ColumnKind::Path)
    }

    /// Creates a column whose texts go on in the next line where the terminal has no room for them.
    pub fn wrapped(heading: &'h str) -> Self {
        Self::of_kind(heading, ColumnKind::Wrapped)
    }

    /// Creates a column of outcomes: green where all is well, red for errors and denials.
    pub fn outcome(heading: &'h str) -> Self {
        Self::of_kind(heading, ColumnKind::Outcome)
    }

    /// Creates a column of ids, which a terminal shows by their ends.
    pub fn id(heading: &'h str) -> Self {
        Self::of_kind(heading, ColumnKind::Id)
    }

    fn of_kind(heading: &'h str, kind: ColumnKind) -> Self {
        Self { heading, kind }
    }

    fn shrinks(self) -> bool {
        matches!(
            self.kind,
            ColumnKind::Flexible | ColumnKind::Path | ColumnKind::Wrapped
        )
    }

    /// Returns whether a part of its cells still says something.
    fn may_be_cut(self) -> bool {
        !matches!(self.kind, ColumnKind::Outcome | ColumnKind::Id)
    }

    /// Returns the style of a cell with this text.
    fn cell_style(self, text: &str) -> Style {
        let color = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
        let begins_with = |words: &[&str]| words.iter().any(|word| text.starts_with(word));
        match self.kind {
            ColumnKind::Id => Style::new().effects(Effects::DIMMED),
            ColumnKind::Outcome if begins_with(&["ok", "allow", "yes"]) => color(AnsiColor::Green),
            ColumnKind::Outcome
                if begins_with(&["error", "exit", "deny", "denied", "failed", "NOT "]) =>
            {
                color(AnsiColor::Red)
            }
            _ => Style::new(),
        }
    }
}

impl<'h> From<&'h str> for Column<'h> {
    fn from(heading: &'h str) -> Self {
        Self::text(heading)
    }
}

/// Returns the last characters of an id, which are enough for every command.
pub fn short_id(id: &str) -> &str {
    let cut = id.char_indices().rev().nth(SHORT_ID - 1);
    cut.map_or(id, |(at, _)| &id[at..])
}

/// Returns the lines of a table, the headings first. With a width every line fits it and ids are short. Columns without
/// any text are left out. Where no column shrinks, the last one does.
pub fn render_table(
    columns: &[Column<'_>],
    rows: &[Vec<String>],
    width: Option<usize>,
    is_colored: bool,
) -> Vec<String> {
    let used: Vec<usize> = (0..columns.len())
        .filter(|at| {
            rows.iter()
                .any(|row| row.get(*at).is_some_and(|cell| !cell.is_empty()))
        })
        .collect();
    let mut columns: Vec<Column<'_>> = used.iter().map(|at| columns[*at]).collect();
    if !columns.iter().any(|column| column.shrinks())
        && let Some(last) = columns
            .last_mut()
            .filter(|column| column.kind == ColumnKind::Text)
    {
        last.kind = ColumnKind::Flexible;
    }
    let cell = |row: &Vec<String>, (column, at): (&Column<'_>, &usize)| {
        let text = row.get(*at).map_or("", String::as_str);
        let shortens = column.kind == ColumnKind::Id && width.is_some();
        if shortens { short_id(text) } else { text }.to_owned()
    };
    let cells = rows.iter().map(|row| {
        columns
            .iter()
            .zip(&used)
            .map(|pair| cell(row, pair))
            .collect()
    });
    let headings = columns.iter().map(|column| column.heading.to_owned());
    let cells: Vec<Vec<String>> = std::iter::once(headings.collect()).chain(cells).collect();
    let widths = fit_widths(&columns, &cells, width);
    let table = lay_out(&columns, &cells, &widths);
    let lines = table.lines().enumerate().map(|(number, line)| {
        let line = line.trim_end();
        if is_colored && number > 0 {
            paint_line(line, &columns, &widths)
        } else {
            line.to_owned()
        }
    });
    lines.collect()
}

/// Returns a width for each column. As long as the line is too long, the columns that shrink give up theirs down to a
/// least width, then the widest column does. Outcomes and ids are cut last.
fn fit_widths(columns: &[Column<'_>], cells: &[Vec<String>], width: Option<usize>) -> Vec<usize> {
    let widest = |at: usize| cells.iter().map(|row| row[at].width()).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..columns.len()).map(widest).collect();
    let Some(width) = width else {
        return widths;
    };
    let gaps = GAP * columns.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > width {
        let is_flexible = |at: &usize| columns[*at].shrinks() && widths[*at] > LEAST_FLEXIBLE;
        let by_width = |at: &usize| widths[*at];
        let flexible = (0..widths.len()).filter(is_flexible).max_by_key(by_width);
        let others = || (0..widths.len()).filter(|at| columns[*at].may_be_cut() && widths[*at] > 1);
        let widest = flexible.or_else(|| others().max_by_key(by_width));
        match widest.or_else(|| (0..widths.len()).max_by_key(by_width)) {
            Some(at) if widths[at] > 1 => widths[at] -= 1,
            _ => break,
        }
    }
    widths
}

fn lay_out(columns: &[Column<'_>], cells: &[Vec<String>], widths: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    let is_wrapped = columns
        .iter()
        .any(|column| column.kind == ColumnKind::Wrapped);
    for (number, texts) in cells.iter().enumerate() {
        let texts = columns.iter().zip(texts).zip(widths);
        let shown: Vec<String> = texts
            .map(|((column, text), width)| match column.kind {
                ColumnKind::Path => cut_middle(text, *width),
                _ => text.clone(),
            })
            .collect();
        let mut row = Row::from(shown);
        if !is_wrapped || number == 0 {
            row.max_height(1);
        }
        table.add_row(row);
    }
    let last = columns.len().saturating_sub(1);
    for (at, (column, width)) in columns.iter().zip(widths).enumerate() {
        let Some(shown) = table.column_mut(at) else {
            continue;
        };
        let gap = if at == last { 0 } else { GAP };
        shown.set_padding((0, u16::try_from(gap).unwrap_or(0)));
        let width = u16::try_from(width + gap).unwrap_or(u16::MAX);
        shown.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
        if column.kind == ColumnKind::Number {
            shown.set_cell_alignment(CellAlignment::Right);
        }
        if column.kind != ColumnKind::Wrapped {
            // Cut in the middle of a word, too: as much as possible is shown.
            shown.set_delimiter('\0');
        }
    }
    table
}

/// Cuts a text in its middle to this width. More of its end stays than of its beginning.
fn cut_middle(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let mut head = String::new();
    let mut tail = String::new();
    for c in text.chars().rev() {
        if tail.width() + c.width().unwrap_or(0) > room - room / 3 {
            break;
        }
        tail.insert(0, c);
    }
    for c in text.chars() {
        if head.width() + tail.width() + c.width().unwrap_or(0) > room {
            break;
        }
        head.push(c);
    }
    format!("{head}…{tail}")
}

/// Adds the colours to a line whose columns have these widths.
fn paint_line(line: &str, columns: &[Column<'_>], widths: &[usize]) -> String {
    let byte_at = |column: usize| {
        let mut starts = line.char_indices().map(|(at, _)| at);
        starts
            .find(|at| line[..*at].width() >= column)
            .unwrap_or(line.len())
    };
    let mut painted = String::new();
    let mut done = 0;
    let mut at = 0;
    for (column, width) in columns.iter().zip(widths) {
        let start = byte_at(at);
        let end = byte_at(at + width);
        let text = line[start..end].trim_end();
        let style = column.cell_style(text.trim_start());
        painted.push_str(&line[done..start]);
        let _ = write!(painted, "{style}{text}{style:#}");
        done = start + text.len();
        at += width + GAP;
    }
    painted.push_str(&line[done..]);
    painted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    fn history() -> ([Column<'static>; 5], Vec<Vec<String>>) {
        let columns = [
            Column::flexible("WHAT"),
            Column::outcome("RESULT"),
            Column::text("NOTES"),
            Column::number("TOOK"),
            Column::id("ID"),
        ];
        let long = "cargo test --workspace --all-features --no-fail-fast";
        let rows = vec![
            row(&[
                long,
                "ok",
                "",
                "18 ms",
                "01a206c4-c5e3-73d0-948e-bf22665ce19f",
            ]),
            row(&[
                "日本語日本語日本語日本語日本語",
                "error no_match",
                "",
                "1.0 s",
                "01a206c4-c0ee-752e-9ed1-ac65673ff40e",
            ]),
        ];
        (columns, rows)
    }

    #[test]
    fn a_terminal_gets_rows_that_fit_and_a_pipe_gets_everything() {
        let (columns, rows) = history();
        assert_eq!(
            render_table(&columns, &rows, Some(60), false),
            [
                "WHAT                         RESULT           TOOK  ID",
                "cargo test --workspace --a…  ok              18 ms  665ce19f",
                "日本語日本語日本語日本語日…  error no_match  1.0 s  673ff40e",
            ]
        );
        for width in 12..120 {
            for line in render_table(&columns, &rows, Some(width), false) {
                assert!(line.width() <= width, "{width}: {line:?}");
            }
        }
        let piped = render_table(&columns, &rows, None, false);
        assert!(
            piped[1].starts_with(&rows[0][0]) && piped[1].ends_with(&rows[0][4]),
            "{piped:?}"
        );
    }

    #[test]
    fn an_outcome_and_an_id_are_cut_last() {
        let (columns, rows) = history();
        for width in 30..60 {
            let lines = render_table(&columns, &rows, Some(width), false);
            let last = &lines[2];
            assert!(
                last.contains("error no_match") && last.ends_with("673ff40e"),
                "{width}: {last}"
            );
        }
    }

    #[test]
    fn outcomes_have_colours_and_ids_are_dim() {
        let (columns, rows) = history();
        let lines = render_table(&columns, &rows, Some(60), true);
        assert!(!lines[0].contains('\u{1b}'), "{lines:?}");
        assert!(lines[1].contains("\u{1b}[32mok\u{1b}[0m  "), "{lines:?}");
        assert!(
            lines[1].ends_with("\u{1b}[2m665ce19f\u{1b}[0m"),
            "{lines:?}"
        );
        assert!(
            lines[2].contains("\u{1b}[31merror no_match\u{1b}[0m"),
            "{lines:?}"
        );
        let plain = lines.iter().map(|line| {
            let parts = line.split('\u{1b}').enumerate();
            let texts = parts.map(|(number, part)| match number {
                0 => part,
                _ => part.split_once('m').expect("the end of a style").1,
            });
            texts.collect::<String>()
        });
        let without = render_table(&columns, &rows, Some(60), false);
        assert_eq!(plain.collect::<Vec<String>>(), without);
    }

    #[test]
    fn a_path_is_cut_in_the_middle_and_keeps_the_name_of_the_file() {
        let rows = [
            row(&["/home/me/work/some/long/folders/notes.txt", "1"]),
            row(&["/日本語/日本語/日本語/日本.txt", "2"]),
        ];
        assert_eq!(
            render_table(
                &[Column::path("PATHS"), Column::number("FILES")],
                &rows,
                Some(28),
                false
            ),
            [
                "PATHS                  FILES",
                "/home/…ders/notes.txt      1",
                "/日本語…本語/日本.txt      2",
            ]
        );
    }

    #[test]
    fn a_wrapped_column_goes_on_in_the_next_line() {
        let rows = [row(&["path", "The file to read, from its workspace."])];
        assert_eq!(
            render_table(
                &[Column::text("NAME"), Column::wrapped("WHAT")],
                &rows,
                Some(26),
                false
            ),
            [
                "NAME  WHAT",
                "path  The file to read,",
                "      from its workspace.",
            ]
        );
    }

    #[test]
    fn without_a_named_one_the_last_column_is_cut() {
        let rows = [row(&["a", "one two three four five six"])];
        let columns = ["A", "B"].map(Column::from);
        assert_eq!(
            render_table(&columns, &rows, Some(20), false),
            ["A  B", "a  one two three fo…"]
        );
    }
}
