//! Names of a database that resemble those in a failed statement.

use std::fmt::Write as _;

use rusqlite::Connection;

/// Words of the language that resemble names of tables.
const KEYWORDS: &[&str] = &[
    "all",
    "and",
    "as",
    "asc",
    "between",
    "by",
    "case",
    "cast",
    "cross",
    "delete",
    "desc",
    "distinct",
    "else",
    "end",
    "escape",
    "except",
    "exists",
    "explain",
    "from",
    "group",
    "having",
    "in",
    "inner",
    "insert",
    "intersect",
    "into",
    "is",
    "join",
    "left",
    "like",
    "limit",
    "natural",
    "not",
    "null",
    "offset",
    "on",
    "or",
    "order",
    "outer",
    "over",
    "partition",
    "plan",
    "pragma",
    "query",
    "recursive",
    "right",
    "select",
    "set",
    "then",
    "union",
    "update",
    "using",
    "values",
    "when",
    "where",
    "with",
];

/// Returns the names of the database that resemble those in the query.
pub(super) fn find_similar_names(connection: &Connection, sql: &str) -> rusqlite::Result<String> {
    let list = |sql: &str| -> rusqlite::Result<Vec<String>> {
        connection
            .prepare(sql)?
            .query_map([], |row| row.get(0))?
            .take(2_000)
            .collect()
    };
    let tables = list(
        "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name",
    )?;
    let columns = list(
        "SELECT DISTINCT p.name FROM sqlite_schema m, pragma_table_info(m.name) p WHERE m.type IN ('table', 'view')",
    )
    .unwrap_or_default();
    let mut text = String::new();
    for word in possible_names(sql).into_iter().take(200) {
        let known = || tables.iter().chain(&columns);
        if known().any(|name| name.eq_ignore_ascii_case(&word)) {
            continue;
        }
        let small = word.to_lowercase();
        let score = |name: &String| strsim::jaro_winkler(&small, &name.to_lowercase());
        let nearest = known()
            .map(|name| (score(name), name))
            .filter(|(score, _)| *score > 0.8)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, name)) = nearest {
            let _ = write!(text, "\n`{word}`: did you mean `{name}`?");
        }
    }
    if tables.is_empty() {
        text.push_str("\nThe database has no tables.");
    } else {
        let dots = if tables.len() > 30 { ", ..." } else { "" };
        let shown: Vec<&str> = tables.iter().take(30).map(String::as_str).collect();
        let _ = write!(
            text,
            "\nTables: {}{dots}. An empty query shows their columns.",
            shown.join(", ")
        );
    }
    Ok(text)
}

/// The words of a statement that may be names: neither in a string, nor called, nor keywords.
fn possible_names(sql: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut names_table = false;
    let mut chars = sql.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\'' {
            for inner in chars.by_ref() {
                if inner == '\'' {
                    break;
                }
            }
        } else if c.is_alphabetic() || c == '_' {
            let mut word = String::from(c);
            while let Some(next) = chars.next_if(|next| next.is_alphanumeric() || *next == '_') {
                word.push(next);
            }
            let small = word.to_ascii_lowercase();
            let keyword = KEYWORDS.contains(&small.as_str());
            // `f(x)` calls a function, `INTO t(x)` names a table.
            let called = chars.peek() == Some(&'(') && !names_table;
            if !keyword && word.len() > 1 && !called && !words.contains(&word) {
                words.push(word);
            }
            names_table = ["into", "table", "on", "references"].contains(&small.as_str());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_names_only() {
        assert_eq!(
            possible_names("INSERT INTO itm(nme) VALUES (max(1, 2))"),
            ["itm", "nme"]
        );
        assert_eq!(
            possible_names(
                "SELECT usr.nam, count(x1) FROM usr WHERE a_b = 'text it''s' ORDER BY 1"
            ),
            ["usr", "nam", "x1", "a_b"]
        );
    }
}
