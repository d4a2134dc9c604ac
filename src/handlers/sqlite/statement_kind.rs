//! The verb of a statement, and whether it needs to be confirmed. Not here: the actions it may take (statement_guard).
//!
//! SQLite does not tell whether an UPDATE had a WHERE, so the text is cut into SQLite's tokens. Strings, quoted names
//! and comments hide words. Brackets hide the words of subqueries and of common table expressions. WHERE, UPDATE,
//! DELETE and DROP are reserved words, so outside of all these they are keywords.

use std::sync::LazyLock;

use regex::Regex;

/// The verb of a statement, as far as its answer depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementVerb {
    Insert,
    Update,
    Delete,
    Vacuum,
    Pragma,
    /// CREATE, DROP or ALTER.
    Schema,
    /// ANALYZE, REINDEX and their like.
    Other,
}

/// A statement by its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StatementKind {
    pub(super) verb: StatementVerb,
    /// It has a WHERE of its own.
    has_where: bool,
    /// It is a DROP, or an ALTER TABLE that drops something.
    pub(super) drops: bool,
}

impl StatementKind {
    /// Reads a statement that SQLite accepts.
    pub(super) fn from_sql(sql: &str) -> Self {
        let words: Vec<String> = outer_words(sql).map(str::to_ascii_lowercase).collect();
        let verb = |word: &String| match word.as_str() {
            "insert" => Some(StatementVerb::Insert),
            "update" => Some(StatementVerb::Update),
            "delete" => Some(StatementVerb::Delete),
            _ => None,
        };
        let verb = match words.first().map(String::as_str) {
            Some("replace") => StatementVerb::Insert,
            Some("vacuum") => StatementVerb::Vacuum,
            Some("pragma") => StatementVerb::Pragma,
            Some("create" | "drop" | "alter") => StatementVerb::Schema,
            // Without one of the three verbs it is a SELECT, or a REPLACE, which may also name a table expression.
            Some("with") => words.iter().find_map(verb).unwrap_or(StatementVerb::Insert),
            _ => words.first().and_then(verb).unwrap_or(StatementVerb::Other),
        };
        Self {
            verb,
            has_where: words.iter().any(|word| word == "where"),
            drops: match words.first().map(String::as_str) {
                Some("drop") => true,
                Some("alter") => words.iter().any(|word| word == "drop"),
                _ => false,
            },
        }
    }

    /// Returns whether the statement changes every row of its table.
    pub(super) fn changes_every_row(self) -> bool {
        matches!(self.verb, StatementVerb::Update | StatementVerb::Delete) && !self.has_where
    }
}

/// SQLite's tokens, as far as they matter: strings, quoted names, comments, placeholders, words, brackets.
static TOKENS: LazyLock<Regex> = LazyLock::new(|| {
    // SQLite takes every character beyond ASCII for a letter.
    let tokens = r#"(?xs) '(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\] | --[^\n]*
        | /\*.*?(?:\*/|\z) | [:@$\#][A-Za-z0-9_$[^\x00-\x7F]]* | (?<word>[A-Za-z0-9_$[^\x00-\x7F]]+)
        | (?<bracket>[()])"#;
    Regex::new(tokens).expect("a valid pattern")
});

/// The words outside of brackets, quotes and comments.
fn outer_words(sql: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    TOKENS.captures_iter(sql).filter_map(move |token| {
        match token.name("bracket").map(|bracket| bracket.as_str()) {
            Some("(") => depth += 1,
            Some(_) => depth = depth.saturating_sub(1),
            None => {}
        }
        token
            .name("word")
            .filter(|_| depth == 0)
            .map(|word| word.as_str())
    })
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// Statements over the tables `t (a, b)` and `u (a)`, which SQLite takes, and whether they touch every row.
    const CASES: &[(&str, StatementVerb, bool)] = &[
        ("DELETE FROM t", StatementVerb::Delete, true),
        ("delete from t where a = 1", StatementVerb::Delete, false),
        ("DELETE FROM t -- where a = 1", StatementVerb::Delete, true),
        (
            "DELETE FROM t /* where a = 1 */",
            StatementVerb::Delete,
            true,
        ),
        ("DELETE FROM t /* where", StatementVerb::Delete, true),
        (
            "/* where */ -- where\n DELETE\nFROM t WHERE(a)",
            StatementVerb::Delete,
            false,
        ),
        ("UPDATE t SET a = 'where'", StatementVerb::Update, true),
        (
            "UPDATE t SET a = 'it''s where it is'",
            StatementVerb::Update,
            true,
        ),
        (
            "UPDATE t SET a = (SELECT max(a) FROM u WHERE a > 1)",
            StatementVerb::Update,
            true,
        ),
        (
            "UPDATE t SET a = (SELECT max(a) FROM u WHERE a > 1) WHERE b = 2",
            StatementVerb::Update,
            false,
        ),
        (
            "UPDATE t SET a = 1 FROM u WHERE u.a = t.a RETURNING b",
            StatementVerb::Update,
            false,
        ),
        (
            "UPDATE t SET a = 1 RETURNING b",
            StatementVerb::Update,
            true,
        ),
        (
            "UPDATE OR IGNORE t SET a = :where",
            StatementVerb::Update,
            true,
        ),
        ("UPDATE t SET a = $where", StatementVerb::Update, true),
        (
            "WITH x AS (SELECT 1 WHERE 1) DELETE FROM t",
            StatementVerb::Delete,
            true,
        ),
        (
            "WITH x(c) AS (SELECT 1), y AS (SELECT 2) UPDATE t SET a = 1 WHERE b IN y",
            StatementVerb::Update,
            false,
        ),
        (
            "WITH replace AS (SELECT 1) DELETE FROM t",
            StatementVerb::Delete,
            true,
        ),
        (
            "WITH x AS (SELECT 1) REPLACE INTO u SELECT * FROM x",
            StatementVerb::Insert,
            false,
        ),
        (
            "WITH \"delete\" AS (SELECT 1) INSERT INTO u SELECT * FROM \"delete\"",
            StatementVerb::Insert,
            false,
        ),
        (
            "WITH [update] AS (SELECT 1) INSERT INTO u SELECT * FROM [update]",
            StatementVerb::Insert,
            false,
        ),
        (
            "INSERT INTO u VALUES (1) ON CONFLICT DO UPDATE SET a = 2",
            StatementVerb::Insert,
            false,
        ),
        ("REPLACE INTO u VALUES (1)", StatementVerb::Insert, false),
        (
            "CREATE TRIGGER g AFTER DELETE ON t BEGIN UPDATE u SET a = 1; DELETE FROM u; END",
            StatementVerb::Schema,
            false,
        ),
        (
            "CREATE TABLE n AS SELECT * FROM t",
            StatementVerb::Schema,
            false,
        ),
        ("DROP TABLE u", StatementVerb::Schema, false),
        ("VACUUM INTO 'where'", StatementVerb::Vacuum, false),
        ("pragma journal_mode", StatementVerb::Pragma, false),
        ("ANALYZE", StatementVerb::Other, false),
        ("ALTER TABLE t ADD COLUMN wo", StatementVerb::Schema, false),
        (
            "UPDATE t SET a = 1 FROM u AS 😀where",
            StatementVerb::Update,
            true,
        ),
        (
            "UPDATE t SET `a` = 1, [b] = 2, \"a\" = 3",
            StatementVerb::Update,
            true,
        ),
    ];

    #[test]
    fn every_statement_that_drops_something_is_known() {
        let connection = Connection::open_in_memory().expect("a database");
        let schema = "CREATE TABLE t (a, b); CREATE VIEW v AS SELECT 1; CREATE INDEX i ON t (a);
            CREATE TRIGGER g AFTER DELETE ON t BEGIN SELECT 1; END; CREATE TABLE \"drop\" (\"drop\", c);";
        connection.execute_batch(schema).expect("a schema");
        for (sql, drops) in [
            ("DROP TABLE t", true),
            ("/* x */ drop table if exists main.t", true),
            ("DROP VIEW v", true),
            ("DROP INDEX i", true),
            ("DROP TRIGGER g", true),
            ("ALTER TABLE t DROP COLUMN b", true),
            ("ALTER TABLE [t]/**/DROP b", true),
            ("ALTER TABLE \"drop\" DROP \"drop\"", true),
            ("ALTER TABLE \"drop\" ADD COLUMN d DEFAULT 'drop'", false),
            ("ALTER TABLE \"drop\" RENAME COLUMN \"drop\" TO e", false),
            ("INSERT INTO \"drop\" SELECT 1, 'drop' -- drop", false),
        ] {
            connection
                .prepare(sql)
                .unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert_eq!(StatementKind::from_sql(sql).drops, drops, "{sql}");
        }
    }

    #[test]
    fn every_statement_that_changes_all_rows_is_known() {
        let connection = Connection::open_in_memory().expect("a database");
        connection
            .execute_batch("CREATE TABLE t (a, b); CREATE TABLE u (a UNIQUE);")
            .expect("a schema");
        for (sql, verb, every_row) in CASES {
            connection
                .prepare(sql)
                .unwrap_or_else(|error| panic!("{sql}: {error}"));
            let kind = StatementKind::from_sql(sql);
            assert_eq!(
                (kind.verb, kind.changes_every_row()),
                (*verb, *every_row),
                "{sql}"
            );
        }
    }
}
