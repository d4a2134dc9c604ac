//! The most that a tool may do.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use serde::{Deserialize, Serialize};

/// The most that a tool may do, declared once. It decides about approval, about parallel calls, and about repeating a
/// call after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum ToolEffect {
    /// Changes nothing; may run beside other calls and again after a crash.
    #[default]
    Reads,
    /// Changes files; runs at most once.
    Writes,
    /// Runs programs; runs at most once.
    Executes,
    /// Waits for a person; occupies no queue, and asks again after a crash.
    AsksUser,
}

impl ToolEffect {
    /// Returns the name in the catalog and the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Executes => "executes",
            Self::AsksUser => "asks_user",
        }
    }

    /// Returns whether a second run could do harm.
    pub fn runs_at_most_once(self) -> bool {
        !matches!(self, Self::Reads | Self::AsksUser)
    }
}

/// An effect that the owner or a plugin can name. Only the program's own tools wait for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are those of the effects")]
pub enum NamedEffect {
    Reads,
    Writes,
    Executes,
}

impl From<NamedEffect> for ToolEffect {
    fn from(named: NamedEffect) -> Self {
        match named {
            NamedEffect::Reads => Self::Reads,
            NamedEffect::Writes => Self::Writes,
            NamedEffect::Executes => Self::Executes,
        }
    }
}

/// As [`ToolEffect::as_str`] in a column of the journal.
impl FromSql for ToolEffect {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_str()? {
            "reads" => Ok(Self::Reads),
            "writes" => Ok(Self::Writes),
            "executes" => Ok(Self::Executes),
            "asks_user" => Ok(Self::AsksUser),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}
