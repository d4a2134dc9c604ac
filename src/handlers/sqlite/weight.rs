//! How large a value may be in one statement, by how many of them it can hold at a time. Not here: time, and memory
//! that grows from row to row (guard).
//!
//! SQLite looks at its guard where its machine jumps back, so not within one row: two hundred columns that are each
//! computed from nothing are made whole, whatever they take of memory and time, before anybody can stop it. So the
//! program of the statement is looked through first (EXPLAIN lists it), and what may be large in it shares one room.

use std::collections::BTreeSet;

use rusqlite::Connection;
use rusqlite::limits::Limit;

/// The longest text, blob or row that SQLite makes; what would be longer is an error at once. In bytes.
pub(super) const MAX_VALUE: i32 = 16 << 20;
/// What the values of one row may hold together, in bytes.
const MAX_ROOM: i32 = 256 << 20;
/// What functions and `||` may make for one row, in bytes: it takes a second or so to make.
const MAX_MADE: i32 = 128 << 20;

/// Instructions that make a value of any length.
const MAKING: [&str; 9] =
    ["Function", "PureFunc", "Concat", "Cast", "AggStep", "AggStep1", "AggInverse", "AggValue", "AggFinal"];

/// SQLite has no more columns in a row than this.
const MOST_PLACES: i64 = 32_767;

/// Functions whose value is small, whatever they are given.
const SMALL: [&str; 15] = [
    "abs",
    "avg",
    "count",
    "date",
    "datetime",
    "julianday",
    "length",
    "random",
    "rank",
    "round",
    "row_number",
    "sum",
    "total",
    "typeof",
    "unixepoch",
];

/// How many values of any length a statement's program makes and holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Weight {
    /// By functions and operators.
    made: i32,
    /// Of rows that it reads or puts together: one for every cursor that reads, for every table and index that it
    /// writes, and for every column and copy that has a place of its own.
    held: i32,
}

impl Weight {
    /// Looks through the program of a statement, and of the triggers that it sets off.
    pub(super) fn of(connection: &Connection, sql: &str) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare(&format!("EXPLAIN {sql}"))?;
        let mut program = statement.raw_query();
        let mut weight = Self::default();
        let mut places = BTreeSet::new();
        while let Some(row) = program.next()? {
            let instruction = row.get_ref(1)?.as_str().unwrap_or_default();
            let function = row.get_ref(5)?.as_str().unwrap_or_default();
            let small = function.split_once('(').is_some_and(|(name, _)| SMALL.contains(&name));
            if MAKING.contains(&instruction) && !small {
                weight.made = weight.made.saturating_add(1);
            } else if instruction == "MakeRecord"
                || (instruction.contains("Open") && instruction != "OpenWrite")
            {
                weight.held = weight.held.saturating_add(1);
            } else if instruction == "Column" {
                places.insert(row.get::<_, i64>(4)?);
            } else if instruction == "Copy" {
                // So many more than one.
                let (first, more) = (row.get::<_, i64>(3)?, row.get::<_, i64>(4)?);
                places.extend(first..=first.saturating_add(more.min(MOST_PLACES)));
            }
        }
        let places = i32::try_from(places.len()).unwrap_or(i32::MAX);
        weight.held = weight.held.saturating_add(places);
        Ok(weight)
    }

    /// How long each value may be, in bytes.
    pub(super) fn longest(self) -> i32 {
        let all = self.made.saturating_add(self.held).max(1);
        MAX_VALUE.min(MAX_ROOM / all).min(MAX_MADE / self.made.max(1))
    }

    /// Holds a connection's next statement to it.
    pub(super) fn apply(self, connection: &Connection) -> rusqlite::Result<()> {
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, self.longest()).map(drop)
    }

    /// Whether it makes values, so that a few instructions may take long.
    pub(super) fn makes(self) -> bool {
        self.made > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weigh(sql: &str) -> Weight {
        let connection = Connection::open_in_memory().expect("a database");
        connection
            .execute_batch("CREATE TABLE t (a, b); CREATE VIEW v AS SELECT hex(a) || hex(b) AS c FROM t;")
            .expect("a schema");
        Weight::of(&connection, sql).expect("a program")
    }

    #[test]
    fn what_a_view_makes_counts_wherever_it_is_used() {
        assert_eq!(weigh("SELECT a FROM t"), Weight { made: 0, held: 2 });
        assert_eq!(weigh("SELECT count(*), sum(length(a)) FROM t"), Weight { made: 0, held: 4 });
        assert_eq!(weigh("SELECT c FROM v"), Weight { made: 3, held: 3 });
        assert_eq!(weigh("INSERT INTO t VALUES (1, 2)"), Weight { made: 0, held: 1 });
        assert_eq!(weigh("SELECT x.c, y.c FROM v x, v y"), Weight { made: 6, held: 5 });
    }

    #[test]
    fn every_column_of_a_row_counts_as_often_as_it_is_given() {
        let many = vec!["a, b"; 300].join(", ");
        assert_eq!(weigh(&format!("SELECT {many} FROM t")), Weight { made: 0, held: 601 });
        let grouped = weigh(&format!("SELECT {many} FROM t GROUP BY a, b"));
        assert!(grouped.held > 600, "{grouped:?}");
    }

    #[test]
    fn few_values_have_the_whole_room_and_many_share_it() {
        assert_eq!(Weight { made: 0, held: 0 }.longest(), MAX_VALUE);
        assert_eq!(Weight { made: 8, held: 8 }.longest(), MAX_VALUE);
        assert_eq!(Weight { made: 0, held: 64 }.longest(), MAX_ROOM / 64);
        assert_eq!(Weight { made: 200, held: 0 }.longest(), MAX_MADE / 200);
    }
}
