//! The result of one check.

use std::path::Path;

use serde::Serialize;

use crate::cli::status::attention::AttentionItem;
use punie_home::{HomeError, command_to_type, shell_word};

/// The weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FindingLevel {
    /// All is as it should be.
    Ok,
    /// Worth knowing; nothing has to be done.
    Note,
    /// Something does not work, or will not.
    Problem,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub level: FindingLevel,
    /// A sentence without a period at its end.
    pub found: String,
    /// The command to type, or what else to do.
    pub mend: Option<String>,
}

/// A finding, or the error that kept the check from one.
pub(super) type CheckResult = anyhow::Result<Finding>;

impl Finding {
    pub fn ok(found: impl Into<String>) -> Self {
        Self::new(FindingLevel::Ok, found)
    }

    pub fn note(found: impl Into<String>) -> Self {
        Self::new(FindingLevel::Note, found)
    }

    pub fn problem(found: impl Into<String>) -> Self {
        Self::new(FindingLevel::Problem, found)
    }

    fn new(level: FindingLevel, found: impl Into<String>) -> Self {
        Self {
            level,
            found: found.into(),
            mend: None,
        }
    }

    /// Adds what to do.
    pub fn with_mend(self, mend: impl Into<String>) -> Self {
        Self {
            mend: Some(mend.into()),
            ..self
        }
    }

    /// Adds the command of this program with these arguments.
    pub fn with_command(self, arguments: &str) -> Self {
        self.with_mend(command_to_type(arguments))
    }

    /// Converts a problem that `status` shows too.
    pub fn from_attention(item: AttentionItem) -> Self {
        Self {
            mend: item.command,
            ..Self::problem(item.text)
        }
    }

    /// Converts the error of a file in the home, which says what to do.
    pub fn from_home_error(error: &HomeError) -> Self {
        let quoted = |path: &Path| shell_word(&path.display().to_string()).into_owned();
        let mend = match error {
            HomeError::TooOpen { .. } => command_to_type("doctor --fix"),
            HomeError::NotOurs { path, .. } => {
                format!("sudo chown -R \"$(id -u)\" {}", quoted(path))
            }
            HomeError::WrongKind { path, .. } => {
                format!("mv {path} {path}.old", path = quoted(path))
            }
            HomeError::OtherMachine { .. } => command_to_type("pair --new-device CODE"),
            HomeError::Unwritable { path, .. } | HomeError::Unreadable { path, .. } => {
                format!("chmod u+rwX {}", quoted(path))
            }
            HomeError::Damaged { path, .. }
            | HomeError::HalfIdentity { missing: path, .. }
            | HomeError::MixedIdentity { key: path, .. } => {
                format!("Restore {} from a backup", path.display())
            }
            HomeError::Keychain { .. } => "Unlock the system's keychain".to_owned(),
        };
        Self::problem(error.to_string()).with_mend(mend)
    }
}

/// Joins the first of many texts, and counts the others.
pub(super) fn join_first(texts: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = texts[..texts.len().min(SHOWN)].join("; ");
    match texts.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}
