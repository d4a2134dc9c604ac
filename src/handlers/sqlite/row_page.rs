//! The rows of one answer: read from a statement within bounds, and the line that says how many there are.

use std::fmt::Write as _;

use rusqlite::Statement;
use serde::{Deserialize, Serialize};

use super::cell_value::{CellReader, CellValue};
use super::statement_guard::StatementGuard;
use punie_text::output::number_format::{format_count, group_digits};
use punie_text::redact::Redactor;

/// The most rows in one answer.
const MAX_ROWS: u64 = 1_000;
/// Bytes of text in one answer; more would be clipped anyway.
const MAX_TEXT: usize = 2 << 20;
/// Bytes that are read beside it, to find secrets across a cut.
const MAX_BEYOND: usize = 16 << 20;
/// Characters that are shown of a text, once a row has reached that.
const MAX_SHORT: usize = 200;

/// The rows that are asked for.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct PageRequest {
    /// Rows, [`MAX_ROWS`] at most.
    pub(super) limit: u64,
    /// Rows that are skipped at the beginning.
    pub(super) offset: u64,
    /// Characters of each text.
    pub(super) max_chars: usize,
}

/// The rows of an answer.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RowPage {
    pub(super) rows: Vec<Vec<CellValue>>,
    skipped: u64,
    pub(super) has_more: bool,
    /// A change returned these rows.
    pub(super) is_of_change: bool,
    /// Rows of a change that are not shown; asking for them would repeat it.
    pub(super) hidden: u64,
    /// The texts are as long as an answer may be.
    is_full: bool,
    /// Characters that were not valid text.
    pub(super) lossy: u64,
}

impl RowPage {
    /// Steps through the rows and stops: a LIMIT added to the caller's text would change its meaning. A change is
    /// stepped to its end, however many of its rows are shown.
    pub(super) fn read(
        statement: &mut Statement<'_>,
        request: &PageRequest,
        guard: &StatementGuard,
        mut reader: CellReader,
    ) -> rusqlite::Result<Self> {
        let limit = usize::try_from(request.limit.clamp(1, MAX_ROWS)).unwrap_or(1);
        let columns = statement.column_count();
        let is_of_change = guard.is_changing();
        let mut page = Self {
            is_of_change,
            ..Self::default()
        };
        let mut size = 0;
        let mut beyond = 0;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            // A row that costs no steps of the machine is not seen by the progress handler.
            if guard.should_stop() {
                return Err(interrupted_error());
            }
            if page.skipped < request.offset {
                page.skipped += 1;
                continue;
            }
            if page.rows.len() == limit || page.is_full {
                page.has_more = true;
                if !is_of_change {
                    break;
                }
                page.hidden += 1;
                continue;
            }
            let mut values = Vec::with_capacity(columns);
            for at in 0..columns {
                // Long texts in many columns would make one row of any size.
                let max_chars = if size > MAX_TEXT {
                    MAX_SHORT
                } else {
                    request.max_chars
                };
                let value = reader.read(row.get_ref(at)?, max_chars);
                let (shown_bytes, cut_bytes) = match &value {
                    CellValue::Text(cut) => (cut.text.len() + 16, cut.beyond.len()),
                    _ => (32, 0),
                };
                size += shown_bytes;
                beyond += cut_bytes;
                values.push(value);
            }
            page.rows.push(values);
            page.is_full = size > MAX_TEXT || beyond > MAX_BEYOND;
        }
        page.lossy = reader.lossy;
        Ok(page)
    }

    /// Masks the owner's secrets in all texts. Returns how many there were.
    pub(super) fn mask_secrets(&mut self, redactor: &Redactor) -> u64 {
        let texts = self
            .rows
            .iter_mut()
            .flatten()
            .filter_map(|value| match value {
                CellValue::Text(cut) => Some(cut),
                _ => None,
            });
        texts.map(|cut| cut.mask_secrets(redactor)).sum()
    }

    /// The number of rows, and how to ask for the next.
    pub(super) fn footer(&self, request: &PageRequest) -> String {
        let shown = self.rows.len() as u64;
        if shown == 0 && request.offset > 0 {
            return format!(
                "[no rows: there are {}, and offset={} is past the end]",
                format_count(self.skipped, "row"),
                request.offset
            );
        }
        let next = request.offset + shown;
        let range = if request.offset > 0 || self.has_more {
            format!(
                " ({}-{})",
                group_digits(request.offset + 1),
                group_digits(next)
            )
        } else {
            String::new()
        };
        let mut text = format!("[{}{range}", format_count(shown, "row"));
        if self.hidden > 0 {
            let _ = write!(
                text,
                "; {} more were changed and are not shown",
                group_digits(self.hidden)
            );
        } else if self.has_more {
            let _ = write!(text, "; more rows exist: offset={next}");
        }
        if self.is_full {
            text.push_str(
                "; stopped early because the values are large: choose fewer columns or use substr()",
            );
        }
        let is_cut =
            |value: &&CellValue| matches!(value, CellValue::Text(cut) if cut.full_chars.is_some());
        let cut = self.rows.iter().flatten().filter(is_cut).count() as u64;
        if cut > 0 {
            let more = if request.max_chars == MAX_SHORT {
                "format=\"json\" shows 20,000 characters of each, "
            } else {
                ""
            };
            let _ = write!(
                text,
                "; {} cut: {more}substr(column, {}, 20000) the rest",
                format_count(cut, "value"),
                request.max_chars + 1
            );
        }
        text + "]"
    }
}

/// The error of a query that its guard stops.
pub(super) fn interrupted_error() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT),
        None,
    )
}
