//! The rows of one answer: stepped through within bounds, and how many there are. Not here: how they are laid out.

use std::fmt::Write as _;

use rusqlite::Statement;

use super::guard::{Guard, Scope};
use super::value::{Shown, Taker};
use crate::output::figures::{counted, grouped};
use crate::redact::Redactor;

/// How many rows one answer shows at most.
const MAX_ROWS: u64 = 1_000;
/// How much text of values is collected; more would be clipped anyway.
const MAX_TEXT: usize = 2 << 20;
/// How much of a text is given once that is reached within a row, in characters.
const MAX_SHORT: usize = 200;

/// Which rows are asked for.
pub(super) struct Wanted {
    /// How many, [`MAX_ROWS`] at most.
    pub(super) limit: u64,
    /// How many are left out at the beginning.
    pub(super) offset: u64,
    /// How much of each text is given, in characters.
    pub(super) longest: usize,
}

/// The rows of an answer.
pub(super) struct Page {
    pub(super) rows: Vec<Vec<Shown>>,
    skipped: u64,
    pub(super) more: bool,
    /// The rows are what a change returned.
    pub(super) is_of_change: bool,
    /// Rows of a change that are not shown; asking for them would repeat it.
    pub(super) beyond: u64,
    /// The text collected is enough.
    full: bool,
    /// How many characters were no valid text.
    pub(super) lossy: u64,
    /// How many secrets were masked.
    pub(super) masked: u64,
}

impl Page {
    /// Steps through the rows and stops: a LIMIT glued to the caller's text would change what it means. A change is
    /// stepped to its end, however many of its rows are shown.
    pub(super) fn collect(
        statement: &mut Statement<'_>,
        wanted: &Wanted,
        guard: &Guard,
        redactor: &Redactor,
    ) -> rusqlite::Result<Self> {
        let limit = usize::try_from(wanted.limit.clamp(1, MAX_ROWS)).unwrap_or(1);
        let columns = statement.column_count();
        let mut page = Self {
            rows: Vec::new(),
            skipped: 0,
            more: false,
            is_of_change: guard.scope() == Scope::Changing,
            beyond: 0,
            full: false,
            lossy: 0,
            masked: 0,
        };
        let mut size = 0;
        let mut taker = Taker::new(redactor);
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            // A row that costs no steps of the machine is not seen by the progress handler.
            if guard.over() {
                return Err(interrupted());
            }
            if page.skipped < wanted.offset {
                page.skipped += 1;
                continue;
            }
            if page.rows.len() == limit || page.full {
                page.more = true;
                if guard.scope() == Scope::Reading {
                    break;
                }
                page.beyond += 1;
                continue;
            }
            let mut values = Vec::with_capacity(columns);
            for at in 0..columns {
                // Long texts in many columns would make one row of any size.
                let longest = if size > MAX_TEXT { MAX_SHORT } else { wanted.longest };
                let value = taker.take(row.get_ref(at)?, longest);
                size += if let Shown::Text { text, .. } = &value { text.len() + 16 } else { 32 };
                values.push(value);
            }
            page.rows.push(values);
            page.full = size > MAX_TEXT;
        }
        (page.lossy, page.masked) = (taker.lossy, taker.masked);
        Ok(page)
    }

    /// How many rows there are, and how to ask for the next.
    pub(super) fn footer(&self, wanted: &Wanted) -> String {
        let shown = self.rows.len() as u64;
        if shown == 0 && wanted.offset > 0 {
            return format!(
                "[no rows: there are {}, and offset={} is past the end]",
                counted(self.skipped, "row"),
                wanted.offset
            );
        }
        let next = wanted.offset + shown;
        let range = if wanted.offset > 0 || self.more {
            format!(" ({}-{})", grouped(wanted.offset + 1), grouped(next))
        } else {
            String::new()
        };
        let mut text = format!("[{}{range}", counted(shown, "row"));
        if self.beyond > 0 {
            let _ = write!(text, "; {} more were changed and are not shown", grouped(self.beyond));
        } else if self.more {
            let _ = write!(text, "; more rows exist: offset={next}");
        }
        if self.full {
            text.push_str(
                "; stopped early because the values are large: choose fewer columns or use substr()",
            );
        }
        let is_cut = |value: &&Shown| matches!(value, Shown::Text { of: Some(_), .. });
        let cut = self.rows.iter().flatten().filter(is_cut).count() as u64;
        if cut > 0 {
            let more = if wanted.longest == MAX_SHORT {
                "format=\"json\" shows 20,000 characters of each, "
            } else {
                ""
            };
            let _ = write!(
                text,
                "; {} cut: {more}substr(column, {}, 20000) the rest",
                counted(cut, "value"),
                wanted.longest + 1
            );
        }
        text + "]"
    }
}

/// As SQLite says it of a query that its guard stops.
pub(super) fn interrupted() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT), None)
}
