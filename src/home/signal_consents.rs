//! The owner's consents to user signals: a file to which each consent and each withdrawal is added, with its text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::HomeError;
use super::layout::Home;
use punie_core::durable::{allow_missing, append_json_lines};

/// What the owner decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConsentAct {
    /// Agents may read the category.
    Given,
    /// They may not any more.
    Withdrawn,
}

/// A consent, or its withdrawal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsentRecord {
    /// The time in milliseconds since 1970.
    pub at_ms: i64,
    /// The category's name.
    pub category: String,
    /// What was decided.
    pub act: ConsentAct,
    /// The text to which the owner agreed; of a withdrawal, that of the consent.
    pub text: String,
    /// Where it was decided: `terminal`, or the id of the request that asked.
    pub place: String,
}

/// The consents in force.
#[derive(Debug, Default)]
pub struct ConsentsInForce {
    /// The last consent to each category that was not withdrawn, by the category's name.
    pub by_category: BTreeMap<String, ConsentRecord>,
    /// The last line of the file that cannot be read, counted from 1. It may have been a withdrawal, so that no consent before
    /// it is in force.
    pub unreadable_line: Option<usize>,
}

/// The consents of one home.
#[derive(Debug, Clone)]
pub struct SignalConsents {
    file: PathBuf,
}

impl SignalConsents {
    /// Returns the consents of this home.
    pub fn in_home(home: &Home) -> Self {
        Self {
            file: home.signal_consents_file(),
        }
    }

    /// Returns the path of the file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Adds a consent or a withdrawal, durable when this returns.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    pub fn add_record(&self, record: &ConsentRecord) -> Result<(), HomeError> {
        append_json_lines(&self.file, std::slice::from_ref(record))
            .map(drop)
            .map_err(HomeError::unwritable(&self.file))
    }

    /// Returns the consents in force.
    ///
    /// # Errors
    /// [`HomeError`] when the file cannot be read.
    pub fn list_in_force(&self) -> Result<ConsentsInForce, HomeError> {
        let read = allow_missing(std::fs::read(&self.file));
        let bytes = read.map_err(HomeError::unreadable(&self.file))?;
        let bytes = bytes.unwrap_or_default();
        let mut in_force = ConsentsInForce::default();
        for (line, number) in bytes.split(|byte| *byte == b'\n').zip(1..) {
            match serde_json::from_slice::<ConsentRecord>(line) {
                Ok(record) if record.act == ConsentAct::Given => {
                    let category = record.category.clone();
                    in_force.by_category.insert(category, record);
                }
                Ok(record) => {
                    in_force.by_category.remove(&record.category);
                }
                Err(_) if line.is_empty() => {}
                Err(_) => {
                    in_force = ConsentsInForce {
                        unreadable_line: Some(number),
                        ..ConsentsInForce::default()
                    };
                }
            }
        }
        Ok(in_force)
    }

    /// Returns whether the owner has agreed to exactly this text.
    ///
    /// # Errors
    /// [`HomeError`] when the consents cannot be read.
    pub fn has_consent(&self, category: &str, text: &str) -> Result<bool, HomeError> {
        let in_force = self.list_in_force()?;
        let given = in_force.by_category.get(category);
        Ok(given.is_some_and(|one| one.text == text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(category: &str, act: ConsentAct) -> ConsentRecord {
        ConsentRecord {
            at_ms: 1,
            category: category.to_owned(),
            act,
            text: "You agree.".to_owned(),
            place: "terminal".to_owned(),
        }
    }

    #[test]
    fn a_consent_holds_for_its_text_until_it_is_withdrawn() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("consents.jsonl");
        let consents = SignalConsents { file: file.clone() };
        let has = |category| consents.has_consent(category, "You agree.").expect("read");
        assert!(!has("apps_system"));
        for category in ["apps_system", "dev_environment"] {
            let given = record(category, ConsentAct::Given);
            consents.add_record(&given).expect("written");
        }
        assert!(has("apps_system") && has("dev_environment") && !has("messages_notes"));
        let more = consents.has_consent("apps_system", "You agree to more.");
        assert!(!more.expect("read"), "another text is another consent");
        let withdrawn = record("apps_system", ConsentAct::Withdrawn);
        consents.add_record(&withdrawn).expect("written");
        assert!(!has("apps_system") && has("dev_environment"));
        let whole = std::fs::read_to_string(&file).expect("the file");
        assert_eq!(whole.lines().count(), 3);
        std::fs::write(&file, format!("{whole}{{\"category\":")).expect("a torn line");
        assert!(!has("dev_environment"));
        let in_force = consents.list_in_force().expect("read");
        assert_eq!(in_force.unreadable_line, Some(4));
        let again = record("dev_environment", ConsentAct::Given);
        consents.add_record(&again).expect("written");
        assert!(has("dev_environment"), "added after the torn line");
    }
}
