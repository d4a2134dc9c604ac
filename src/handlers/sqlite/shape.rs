//! What a statement is by its words: its verb, and whether it says which rows it means. Not here: whether SQLite takes
//! it, and what it may do (guard).
//!
//! SQLite does not tell a caller whether an UPDATE had a WHERE. So the text is cut into SQLite's own tokens: strings,
//! quoted names and comments hide words, brackets hide the words of subqueries and of common table expressions, and
//! WHERE, UPDATE and DELETE are reserved, so that outside of all these they are what they look like.

/// What a statement does, as far as its answer depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Insert,
    Update,
    Delete,
    Vacuum,
    /// CREATE, DROP, ALTER and their like.
    Other,
}

/// A statement by its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) verb: Verb,
    /// Whether a WHERE of its own says which rows are meant.
    pub(super) has_where: bool,
}

impl Shape {
    /// Looks at a statement that SQLite took.
    pub(super) fn of(sql: &str) -> Self {
        let mut outer = OuterWords { rest: sql, depth: 0 };
        let mut verb = match outer.next() {
            Some("replace" | "insert") => Some(Verb::Insert),
            Some("update") => Some(Verb::Update),
            Some("delete") => Some(Verb::Delete),
            Some("with") => None,
            Some("vacuum") => return Self { verb: Verb::Vacuum, has_where: false },
            _ => return Self { verb: Verb::Other, has_where: false },
        };
        let mut has_where = false;
        for word in outer {
            match (verb, word) {
                // REPLACE may name a common table expression; the other three may not.
                (None, "insert") => verb = Some(Verb::Insert),
                (None, "update") => verb = Some(Verb::Update),
                (None, "delete") => verb = Some(Verb::Delete),
                (Some(_), "where") => has_where = true,
                _ => {}
            }
        }
        // A WITH whose verb is none of the three is a SELECT, or a REPLACE.
        Self { verb: verb.unwrap_or(Verb::Insert), has_where }
    }

    /// Whether it changes every row of its table.
    pub(super) fn is_sweeping(self) -> bool {
        matches!(self.verb, Verb::Update | Verb::Delete) && !self.has_where
    }
}

/// The words outside of brackets, quotes and comments; only those that matter here, in small letters.
struct OuterWords<'a> {
    rest: &'a str,
    depth: usize,
}

impl Iterator for OuterWords<'_> {
    type Item = &'static str;

    fn next(&mut self) -> Option<&'static str> {
        const WORDS: &[&str] = &["with", "insert", "replace", "update", "delete", "vacuum", "where"];
        loop {
            let c = self.rest.chars().next()?;
            let length = match c {
                '\'' | '"' | '`' => quoted(self.rest, c),
                '[' => self.rest.find(']').map_or(self.rest.len(), |at| at + 1),
                '-' if self.rest.starts_with("--") => {
                    self.rest.find('\n').map_or(self.rest.len(), |at| at + 1)
                }
                '/' if self.rest.starts_with("/*") => {
                    self.rest[2..].find("*/").map_or(self.rest.len(), |at| at + 4)
                }
                // A placeholder may be called anything.
                ':' | '@' | '$' | '#' => 1 + name(&self.rest[1..]),
                c if in_name(c) => name(self.rest),
                c => c.len_utf8(),
            };
            let (token, rest) = self.rest.split_at(length);
            self.rest = rest;
            match c {
                '(' => self.depth += 1,
                ')' => self.depth = self.depth.saturating_sub(1),
                c if in_name(c) && self.depth == 0 => {
                    // A word that does not matter still is one: it may be the first.
                    return Some(
                        WORDS.iter().find(|word| word.eq_ignore_ascii_case(token)).copied().unwrap_or("?"),
                    );
                }
                _ => {}
            }
        }
    }
}

/// The length of a text or a name in quotes; the quote itself is written twice.
fn quoted(text: &str, quote: char) -> usize {
    let mut from = 1;
    while let Some(at) = text[from..].find(quote) {
        from += at + 1;
        if !text[from..].starts_with(quote) {
            return from;
        }
        from += 1;
    }
    text.len()
}

fn name(text: &str) -> usize {
    text.find(|c: char| !in_name(c)).unwrap_or(text.len())
}

/// SQLite takes every character beyond ASCII for a letter.
fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii()
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// Statements over the tables `t (a, b)` and `u (a)`, which SQLite takes, and whether they touch every row.
    const CASES: &[(&str, Verb, bool)] = &[
        ("DELETE FROM t", Verb::Delete, true),
        ("delete from t where a = 1", Verb::Delete, false),
        ("DELETE FROM t -- where a = 1", Verb::Delete, true),
        ("DELETE FROM t /* where a = 1 */", Verb::Delete, true),
        ("DELETE FROM t /* where", Verb::Delete, true),
        ("/* where */ -- where\n DELETE\nFROM t WHERE(a)", Verb::Delete, false),
        ("UPDATE t SET a = 'where'", Verb::Update, true),
        ("UPDATE t SET a = 'it''s where it is'", Verb::Update, true),
        ("UPDATE t SET a = (SELECT max(a) FROM u WHERE a > 1)", Verb::Update, true),
        ("UPDATE t SET a = (SELECT max(a) FROM u WHERE a > 1) WHERE b = 2", Verb::Update, false),
        ("UPDATE t SET a = 1 FROM u WHERE u.a = t.a RETURNING b", Verb::Update, false),
        ("UPDATE t SET a = 1 RETURNING b", Verb::Update, true),
        ("UPDATE OR IGNORE t SET a = :where", Verb::Update, true),
        ("UPDATE t SET a = $where", Verb::Update, true),
        ("WITH x AS (SELECT 1 WHERE 1) DELETE FROM t", Verb::Delete, true),
        ("WITH x(c) AS (SELECT 1), y AS (SELECT 2) UPDATE t SET a = 1 WHERE b IN y", Verb::Update, false),
        ("WITH replace AS (SELECT 1) DELETE FROM t", Verb::Delete, true),
        ("WITH x AS (SELECT 1) REPLACE INTO u SELECT * FROM x", Verb::Insert, false),
        ("WITH \"delete\" AS (SELECT 1) INSERT INTO u SELECT * FROM \"delete\"", Verb::Insert, false),
        ("WITH [update] AS (SELECT 1) INSERT INTO u SELECT * FROM [update]", Verb::Insert, false),
        ("INSERT INTO u VALUES (1) ON CONFLICT DO UPDATE SET a = 2", Verb::Insert, false),
        ("REPLACE INTO u VALUES (1)", Verb::Insert, false),
        (
            "CREATE TRIGGER g AFTER DELETE ON t BEGIN UPDATE u SET a = 1; DELETE FROM u; END",
            Verb::Other,
            false,
        ),
        ("CREATE TABLE n AS SELECT * FROM t", Verb::Other, false),
        ("DROP TABLE u", Verb::Other, false),
        ("VACUUM INTO 'where'", Verb::Vacuum, false),
        ("ALTER TABLE t ADD COLUMN wo", Verb::Other, false),
        ("UPDATE t SET `a` = 1, [b] = 2, \"a\" = 3", Verb::Update, true),
    ];

    #[test]
    fn every_statement_that_changes_all_rows_is_known() {
        let connection = Connection::open_in_memory().expect("a database");
        connection.execute_batch("CREATE TABLE t (a, b); CREATE TABLE u (a UNIQUE);").expect("a schema");
        for (sql, verb, sweeping) in CASES {
            connection.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            let shape = Shape::of(sql);
            assert_eq!((shape.verb, shape.is_sweeping()), (*verb, *sweeping), "{sql}");
        }
    }
}
