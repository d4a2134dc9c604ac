//! The path arguments of the git tools: the default, paths within a named folder, the declared access.

use std::path::Path;

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

/// Returns a relative path as one in this folder, unless the folder is named in it already.
pub(super) fn path_in_folder(folder: &str, path: &str) -> String {
    let without_dots = |path| Path::new(path).strip_prefix(".").unwrap_or(Path::new(path));
    let inner = without_dots(path);
    let outer = without_dots(folder);
    if path.starts_with(['/', '~']) || inner.starts_with(outer) {
        path.to_owned()
    } else {
        format!("{}/{path}", folder.trim_end_matches('/'))
    }
}
