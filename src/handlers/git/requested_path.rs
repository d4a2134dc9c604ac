//! The path argument of the git tools: its default and its declared access. Not here: finding its repository.

use punie_host::RawPath;
use punie_tool::{DeclaredAccess, DefaultLocation};

/// Returns the first workspace folder.
pub(super) fn here() -> RawPath {
    RawPath::from(".")
}

/// Declares reads of these paths, or of the first workspace.
pub(super) fn read_access<'a>(paths: impl IntoIterator<Item = &'a RawPath>) -> DeclaredAccess {
    DeclaredAccess::reading_paths(paths.into_iter().map(RawPath::as_str))
        .with_default_location(DefaultLocation::FirstWorkspace)
}
