//! One key for a person: its meaning, its default, its allowed values and the time at which a change takes effect.

use super::optional_parts::table_refusal;
use super::reload;
use super::tables::{KeyInfo, tables_built};
use super::toml_document::{declared_key, unknown_key_text};

/// One key for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDescription {
    /// The key, with its table.
    pub key: &'static str,
    /// The table.
    pub table: &'static str,
    /// The key within its table.
    pub name: &'static str,
    /// The meaning.
    pub about: String,
    /// The default as a file would have it, if there is one.
    pub default: Option<String>,
    /// The allowed values, such as "a whole number between 1 and 64".
    pub allowed: String,
    /// The time at which a running runner uses a changed value.
    pub takes_effect: &'static str,
}

impl KeyDescription {
    /// Finds a key by its name with the table. The keys of every caller are described once.
    ///
    /// # Errors
    /// A text with the key that was probably meant.
    pub fn find_key(path: &str) -> Result<Self, String> {
        let path = &*declared_key(path);
        let mut keys = tables_built().flat_map(|table| {
            let keys = table.keys.iter();
            keys.map(|key| (table.path, key))
        });
        match keys.find(|(_, key)| key.path == path) {
            Some((table, key)) => Ok(Self::from_info(table, key)),
            None => Err(refuse_key(path)),
        }
    }

    fn from_info(table: &'static str, key: &KeyInfo) -> Self {
        Self {
            key: key.path,
            table,
            name: key.name,
            about: key.comment.concat().trim().to_owned(),
            default: (key.default)(),
            allowed: (key.allowed)(),
            takes_effect: reload::describe_effect(key.path),
        }
    }
}

/// Says that there is no such key, or that its table has no use in this build.
fn refuse_key(path: &str) -> String {
    let table = path.rsplit_once('.').map_or("", |(table, _)| table);
    match table_refusal(table) {
        Some(why) => format!("{path} has no use: {why}"),
        None => unknown_key_text("key", path, &list_keys()),
    }
}

/// Lists all keys with their tables, in the order of the file.
pub fn list_keys() -> Vec<&'static str> {
    let keys = tables_built().flat_map(|table| table.keys);
    keys.map(|key| key.path).collect()
}
