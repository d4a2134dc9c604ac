//! Imports skills, agents and plugins from folders, archives and git repositories, and updates them when their source
//! changes. Each is copied into a staging folder, checked, and put in place with one rename.

mod archive;
mod document_search;
mod import_index;
mod import_run;
mod import_source;
mod staging;

pub use import_index::list_import_sources;
pub use import_run::{DocumentImport, ImportHelp, ImportOptions};
pub use import_source::ImportSource;

use serde::Serialize;

/// The result for one document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportLine {
    /// The id in the home; empty where a whole source fails.
    pub id: String,
    /// The result.
    pub result: ImportResult,
    /// The source as it was named.
    pub source: String,
    /// The path in the source.
    pub path: String,
    /// The reason, or flaws of a document that was imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The result of an import for one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportResult {
    /// It is new in the home.
    Imported,
    /// A newer version replaced the one in the home.
    Updated,
    /// The home has it.
    Unchanged,
    /// The one in the home stays, although the source has another.
    Kept,
    /// The source has another one under the same id, which was taken.
    LeftOut,
    /// It cannot be imported.
    Refused,
    /// Its source does not have it any more.
    Gone,
}

impl ImportResult {
    /// Returns the result as a word of a table.
    pub fn as_word(self) -> &'static str {
        match self {
            Self::Imported => "imported",
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
            Self::Kept => "kept",
            Self::LeftOut => "left out",
            Self::Refused => "refused",
            Self::Gone => "source gone",
        }
    }
}
