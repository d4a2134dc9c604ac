//! The configuration file as parsed TOML: keys with their lines.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use toml::de::{DeTable, DeValue};

/// The part of a declared path that stands for the name of a caller.
pub(super) const CALLER_PLACEHOLDER: &str = "NAME";

/// Returns the declared path of a table of callers.
fn declared_table(path: &str) -> &str {
    match path.strip_prefix("callers.") {
        Some(_) => "callers.NAME",
        None => path,
    }
}

/// Returns the declared path of a key. The name of a caller may contain dots.
pub(super) fn declared_key(path: &str) -> Cow<'_, str> {
    match path
        .strip_prefix("callers.")
        .and_then(|rest| rest.rsplit_once('.'))
    {
        Some((_, key)) => Cow::Owned(format!("callers.{CALLER_PLACEHOLDER}.{key}")),
        None => Cow::Borrowed(path),
    }
}

/// One fault in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFault {
    /// The line, from 1.
    pub line: Option<usize>,
    /// The fault and the remedy.
    pub text: String,
}

/// A value and its line.
#[derive(Debug, Clone)]
pub(super) struct ConfigEntry {
    pub(super) line: usize,
    pub(super) value: TomlValue,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TomlValue {
    Text(String),
    /// `None` if out of range.
    Integer(Option<i64>),
    Float(Option<f64>),
    Boolean(bool),
    List(Vec<TomlValue>),
    Datetime,
    Table,
}

impl From<DeValue<'_>> for TomlValue {
    fn from(value: DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.into_owned()),
            DeValue::Integer(whole) => {
                Self::Integer(i64::from_str_radix(whole.as_str(), whole.radix()).ok())
            }
            DeValue::Float(fraction) => Self::Float(fraction.as_str().parse().ok()),
            DeValue::Boolean(truth) => Self::Boolean(truth),
            DeValue::Datetime(_) => Self::Datetime,
            DeValue::Array(list) => Self::List(
                list.into_iter()
                    .map(|value| value.into_inner().into())
                    .collect(),
            ),
            DeValue::Table(_) => Self::Table,
        }
    }
}

impl fmt::Display for TomlValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(
                f,
                "the text {:?}",
                text.chars().take(40).collect::<String>()
            ),
            Self::Integer(Some(whole)) => write!(f, "{whole}"),
            Self::Integer(None) => f.write_str("a number beyond all bounds"),
            Self::Float(Some(fraction)) => write!(f, "{fraction:?}"),
            Self::Float(None) => f.write_str("a number"),
            Self::Boolean(truth) => write!(f, "{truth}"),
            Self::List(_) => f.write_str("a list"),
            Self::Datetime => f.write_str("a time"),
            Self::Table => f.write_str("a table"),
        }
    }
}

/// The file with its tables flattened: `[backend.poll]` and `hold_ms` give the key `backend.poll.hold_ms`.
#[derive(Debug, Clone, Default)]
pub(super) struct ConfigDocument {
    entries: BTreeMap<String, ConfigEntry>,
    tables: BTreeMap<String, usize>,
    /// The text, for tables that are not read by fixed keys.
    pub(super) text: String,
}

impl ConfigDocument {
    pub(super) fn parse_document(text: &str) -> Result<Self, ConfigFault> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let table = DeTable::parse(text).map_err(|error| ConfigFault {
            line: error.span().map(|span| line_at_offset(text, span.start)),
            text: format!("this is not TOML: {}", error.message()),
        })?;
        let mut written = Self {
            text: text.to_owned(),
            ..Self::default()
        };
        written.flatten_table(text, "", table.into_inner());
        Ok(written)
    }

    fn flatten_table(&mut self, text: &str, prefix: &str, table: DeTable<'_>) {
        for (key, value) in table {
            let line = line_at_offset(text, key.span().start);
            let path = if prefix.is_empty() {
                key.get_ref().to_string()
            } else {
                format!("{prefix}.{}", key.get_ref())
            };
            match value.into_inner() {
                DeValue::Table(inner) => {
                    self.tables.insert(path.clone(), line);
                    self.flatten_table(text, &path, inner);
                }
                value => {
                    self.entries.insert(
                        path,
                        ConfigEntry {
                            line,
                            value: value.into(),
                        },
                    );
                }
            }
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&ConfigEntry> {
        self.entries.get(key)
    }

    /// Returns the keys of a table whose keys are the owner's.
    pub(super) fn entries_below(&self, table: &str) -> Vec<(String, &ConfigEntry)> {
        let name = |path: &str| Some(path.strip_prefix(table)?.strip_prefix('.')?.to_owned());
        let entries = self.entries.iter();
        entries
            .filter_map(|(path, entry)| Some((name(path)?, entry)))
            .collect()
    }

    /// Returns the tables below this one by their names, each with its line.
    pub(super) fn tables_below(&self, table: &str) -> Vec<(String, usize)> {
        let name = |path: &str| Some(path.strip_prefix(table)?.strip_prefix('.')?.to_owned());
        let tables = self.tables.iter();
        tables
            .filter_map(|(path, line)| Some((name(path)?, *line)))
            .collect()
    }

    /// Finds all unknown keys and tables, each with the nearest known name. All is known below the `open` tables. `refusal`
    /// says why a table has no use.
    pub(super) fn find_unknown_keys(
        &self,
        tables: &[&str],
        keys: &[&str],
        open: &[&str],
        refusal: fn(&str) -> Option<String>,
    ) -> Vec<ConfigFault> {
        let is_open = |path: &str| {
            open.iter()
                .any(|open| path == *open || is_key_below(path, open))
        };
        let is_around = |path: &str| open.iter().any(|open| is_key_below(open, path));
        let mut faults = Vec::new();
        let mut strange: Vec<&str> = Vec::new();
        let above = |path: &str| {
            tables
                .iter()
                .any(|table| table.starts_with(&format!("{path}.")))
        };
        for (path, line) in &self.tables {
            if tables.contains(&declared_table(path))
                || above(path)
                || is_open(path)
                || is_around(path)
                || strange.iter().any(|t| is_key_below(path, t))
            {
                continue;
            }
            let refused = refusal(path);
            // `init` of another build may have written the head of the table.
            if refused.is_some() && self.entries_below(path).is_empty() {
                continue;
            }
            strange.push(path);
            let text = if keys.contains(&path.as_str()) {
                format!("{path} is one value, not a table")
            } else if let Some(why) = refused {
                format!("[{path}] has no use: {why}")
            } else {
                unknown_key_text("table", path, tables)
            };
            faults.push(ConfigFault {
                line: Some(*line),
                text,
            });
        }
        for (path, entry) in &self.entries {
            let declared = declared_key(path);
            if keys.contains(&&*declared)
                || is_open(path)
                || strange.iter().any(|table| is_key_below(path, table))
            {
                continue;
            }
            let text = if tables.contains(&path.as_str()) {
                format!("{path} is a table: write [{path}], and its keys below")
            } else {
                unknown_key_text("key", &declared, keys)
            };
            faults.push(ConfigFault {
                line: Some(entry.line),
                text,
            });
        }
        faults
    }
}

fn is_key_below(path: &str, table: &str) -> bool {
    path.strip_prefix(table)
        .is_some_and(|rest| rest.starts_with('.'))
}

pub(super) fn line_at_offset(text: &str, offset: usize) -> usize {
    1 + memchr::memchr_iter(b'\n', &text.as_bytes()[..offset.min(text.len())]).count()
}

fn split_key_path(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

pub(super) fn unknown_key_text(what: &str, path: &str, known: &[&str]) -> String {
    let (table, leaf) = split_key_path(path);
    let likeness = |candidate: &str| {
        let (its_table, its_leaf) = split_key_path(candidate);
        let near = strsim::normalized_damerau_levenshtein(leaf, its_leaf);
        // Of two equally near names, the one in the same table was probably meant.
        if its_table == table {
            near + 0.25
        } else {
            near
        }
    };
    let best = known
        .iter()
        .map(|candidate| (likeness(candidate), *candidate))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = match best {
        Some((likeness, candidate)) if likeness > 0.6 => format!("Did you mean {candidate}?"),
        _ => {
            let here: Vec<&str> = known
                .iter()
                .copied()
                .filter(|candidate| split_key_path(candidate).0 == table)
                .collect();
            format!(
                "There are: {}",
                if here.is_empty() {
                    known.join(", ")
                } else {
                    here.join(", ")
                }
            )
        }
    };
    format!("there is no {what} {path}. {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_equal_names_the_one_in_the_same_table_was_meant() {
        let written = ConfigDocument::parse_document("[b]\nleve = 1").expect("TOML");
        for keys in [
            ["a.level", "b.level"],
            ["b.level", "a.level"],
            ["b.level", "c.level"],
        ] {
            let faults = written.find_unknown_keys(&["a", "b", "c"], &keys, &["d.e"], |_| None);
            assert_eq!(
                faults[0].text, "there is no key b.leve. Did you mean b.level?",
                "{keys:?}"
            );
        }
    }

    #[test]
    fn lines_are_counted_behind_a_mark_and_foreign_line_ends() {
        let written = ConfigDocument::parse_document("\u{feff}# one\r\n\r\n[a]\r\nx = 0x1F\r\n")
            .expect("TOML");
        let entry = written.get("a.x").expect("there");
        assert_eq!(
            (entry.line, &entry.value),
            (4, &TomlValue::Integer(Some(31)))
        );
    }
}
