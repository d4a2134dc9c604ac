//! The faults in the owner's files, each with its effect.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// A fault in the owner's files that stopped nothing else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HomeProblem {
    /// The file or folder.
    pub path: PathBuf,
    /// The fault, and how to mend it.
    pub message: String,
    /// The effect of the fault.
    pub effect: ProblemEffect,
}

/// The effect of a fault on the file that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemEffect {
    /// It is not loaded.
    NotLoaded,
    /// The version before the last change stays in force.
    EarlierVersion,
    /// It is loaded all the same.
    Warning,
}

impl ProblemEffect {
    /// Returns the word before the problem on a screen.
    pub fn as_heading(self) -> &'static str {
        match self {
            Self::NotLoaded => "not loaded",
            Self::EarlierVersion => "earlier version used",
            Self::Warning => "warning",
        }
    }
}

impl HomeProblem {
    /// Creates the problem of a file that is not loaded.
    pub(super) fn not_loaded(path: PathBuf, message: String) -> Self {
        Self {
            path,
            message,
            effect: ProblemEffect::NotLoaded,
        }
    }
}

impl fmt::Display for HomeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.message)
    }
}
