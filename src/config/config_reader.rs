//! Reads the declared keys from the parsed file, each with its origin, and collects all faults.

use std::collections::BTreeMap;
use std::path::Path;

use super::config_setting::ConfigSetting;
use super::mcp_servers::SERVERS_TABLE;
use super::optional_parts::table_refusal;
use super::sources::ValueOrigin;
use super::tables::{CallerTable, tables_built};
use super::toml_document::{CALLER_PLACEHOLDER, ConfigDocument, ConfigFault, TomlValue};
use super::value::{ConfigValue, ValueBounds, ValueError, expected_text};

/// The table of checkers that run after edits, by the pattern of the edited files.
const AFTER_EDIT_TABLE: &str = "after_edit";

/// Reads the values of one file and records their origins and all faults.
pub(super) struct ConfigReader<'a> {
    file: &'a Path,
    written: &'a ConfigDocument,
    /// The caller whose table is read, and its keys as the file has them.
    caller: Option<(String, Vec<String>)>,
    pub(super) faults: Vec<ConfigFault>,
    pub(super) settings: Vec<ConfigSetting>,
}

impl<'a> ConfigReader<'a> {
    pub(super) fn new(file: &'a Path, written: &'a ConfigDocument) -> Self {
        let keys: Vec<&str> = tables_built()
            .flat_map(|table| table.keys)
            .map(|key| key.path)
            .collect();
        let tables: Vec<&str> = tables_built().map(|table| table.path).collect();
        Self {
            file,
            written,
            caller: None,
            faults: written.find_unknown_keys(
                &tables,
                &keys,
                &[SERVERS_TABLE, AFTER_EDIT_TABLE],
                table_refusal,
            ),
            settings: Vec::new(),
        }
    }

    pub(super) fn read_key<T: ConfigValue>(
        &mut self,
        key: &'static str,
        default: T,
        bounds: &dyn ValueBounds<T>,
    ) -> T {
        let in_file = match &self.caller {
            Some((name, _)) => key.replacen(CALLER_PLACEHOLDER, name, 1),
            None => key.to_owned(),
        };
        let Some(entry) = self.written.get(&in_file) else {
            return self.record_setting(key, default, ValueOrigin::Default);
        };
        let origin = ValueOrigin::File {
            path: self.file.to_owned(),
            line: entry.line,
        };
        let why = match T::from_toml(&entry.value) {
            Ok(value) if bounds.allows_value(&value) => {
                return self.record_setting(key, value, origin);
            }
            Ok(_) | Err(ValueError::WrongType) => expected_text::<T>(bounds, &entry.value),
            Err(ValueError::Invalid(why)) => format!("is wrong: {why}"),
        };
        self.faults.push(ConfigFault {
            line: Some(entry.line),
            text: format!("{in_file} {why}"),
        });
        default
    }

    fn record_setting<T: ConfigValue>(
        &mut self,
        key: &'static str,
        value: T,
        origin: ValueOrigin,
    ) -> T {
        let shown = value.to_toml().unwrap_or_else(|| "not set".to_owned());
        if let Some((name, shown_keys)) = &mut self.caller {
            if origin != ValueOrigin::Default {
                shown_keys.push(format!(
                    "{} = {shown}",
                    key.replacen(CALLER_PLACEHOLDER, name, 1)
                ));
            }
            return value;
        }
        self.settings.push(ConfigSetting {
            key,
            value: shown,
            origin,
        });
        value
    }

    /// Reads the table of each caller. All of them are one setting for display.
    pub(super) fn read_callers(&mut self) -> BTreeMap<String, CallerTable> {
        let mut callers = BTreeMap::new();
        let mut shown = Vec::new();
        let mut first = None;
        for (name, line) in self.written.tables_below("callers") {
            let faults = self.faults.len();
            self.caller = Some((name.clone(), Vec::new()));
            let table = CallerTable::read(self);
            let keys = self.caller.take().map(|(_, keys)| keys).unwrap_or_default();
            if keys.is_empty() && self.faults.len() == faults {
                let text = format!(
                    "[callers.{name}] has no key, so it says nothing. A name with a dot or a blank is written in quotes: \
                     [callers.\"my agent\"]"
                );
                self.faults.push(ConfigFault {
                    line: Some(line),
                    text,
                });
            }
            first = first.or(Some(line));
            shown.extend(keys);
            callers.insert(name, table);
        }
        let origin = first.map_or(ValueOrigin::Default, |line| ValueOrigin::File {
            path: self.file.to_owned(),
            line,
        });
        let value = if shown.is_empty() {
            "not set".to_owned()
        } else {
            shown.join("; ")
        };
        self.settings.push(ConfigSetting {
            key: "callers",
            value,
            origin,
        });
        callers
    }

    /// Reads the command lines that check edited files, by the pattern of the files. All of them are one setting for display.
    pub(super) fn read_after_edit(&mut self) -> BTreeMap<String, String> {
        let mut commands = BTreeMap::new();
        let mut first = None;
        for (pattern, entry) in self.written.entries_below(AFTER_EDIT_TABLE) {
            first = first.or(Some(entry.line));
            match &entry.value {
                TomlValue::Text(command) if !command.trim().is_empty() => {
                    commands.insert(pattern, command.clone());
                }
                _ => self.faults.push(ConfigFault {
                    line: Some(entry.line),
                    text: format!(
                        "{AFTER_EDIT_TABLE}.{pattern:?} must be a command line, such as \"ruff check {{file}}\""
                    ),
                }),
            }
        }
        let shown = commands
            .iter()
            .map(|(pattern, command)| format!("{pattern:?} = {command:?}"));
        let shown: Vec<String> = shown.collect();
        self.settings.push(ConfigSetting {
            key: AFTER_EDIT_TABLE,
            value: if shown.is_empty() {
                "not set".to_owned()
            } else {
                shown.join("; ")
            },
            origin: first.map_or(ValueOrigin::Default, |line| ValueOrigin::File {
                path: self.file.to_owned(),
                line,
            }),
        });
        commands
    }

    /// Records a fault between two keys, at the one that the file has.
    pub(super) fn require_fit(&mut self, fits: bool, keys: [&str; 2], text: &str) {
        if !fits {
            let line = keys
                .iter()
                .rev()
                .find_map(|key| self.written.get(key))
                .map(|entry| entry.line);
            self.faults.push(ConfigFault {
                line,
                text: text.to_owned(),
            });
        }
    }
}
