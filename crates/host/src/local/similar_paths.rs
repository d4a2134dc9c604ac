//! Suggests existing paths for a path that does not exist.

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::WorkspacePath;
use punie_text::output::path_text::path_text;
use punie_tool::ToolError;

/// The lowest similarity of a suggested name (0 to 1).
const MIN_SIMILARITY: f64 = 0.7;
/// The largest number of suggestions.
const MAX_SUGGESTIONS: usize = 3;
/// The time limit for searching the tree.
const SEARCH_TIMEOUT: Duration = Duration::from_millis(200);

/// Returns the error for a missing path, with suggestions.
pub(super) fn missing_path_error(path: &WorkspacePath) -> ToolError {
    let shown = path.display_text();
    if let Some(link) = path.dangling_link() {
        return ToolError::not_found(format!(
            "{} is a link to {}, which does not exist.",
            link.link.display(),
            link.target.display()
        ));
    }
    let mut text = format!("{shown} does not exist.");
    let near = find_similar_paths(path);
    if !near.is_empty() {
        text.push_str(" Did you mean ");
        text.push_str(&near.join(" or "));
        text.push('?');
    }
    if let Some(parent) = deepest_existing_folder(path) {
        text.push_str(" The deepest folder on the way that exists is ");
        text.push_str(&path_text(parent));
        text.push('.');
    }
    ToolError::not_found(text)
}

fn deepest_existing_folder(path: &WorkspacePath) -> Option<&Path> {
    path.absolute_path()
        .ancestors()
        .skip(1)
        .take_while(|at| at.starts_with(path.root_path()))
        .find(|at| at.is_dir())
}

fn find_similar_paths(path: &WorkspacePath) -> Vec<String> {
    let mut found = similar_in_folder(path);
    if found.len() < MAX_SUGGESTIONS
        && let Some(name) = path.absolute_path().file_name()
    {
        find_same_name(path.root_path(), name, &mut found);
    }
    found
}

/// Suggests the names beside one misspelt name in the path that are similar and lead to an existing path.
fn similar_in_folder(path: &WorkspacePath) -> Vec<String> {
    let Some(folder) = deepest_existing_folder(path) else {
        return Vec::new();
    };
    let Ok(rest) = path.absolute_path().strip_prefix(folder) else {
        return Vec::new();
    };
    let mut parts = rest.components();
    let Some(wrong) = parts.next() else {
        return Vec::new();
    };
    let beyond = parts.as_path();
    let wanted = wrong.as_os_str().to_string_lossy().to_lowercase();
    let mut scored: Vec<(f64, std::path::PathBuf)> = list_names(folder)
        .into_iter()
        .filter_map(|name| {
            let text = name.to_string_lossy().to_lowercase();
            let score = strsim::normalized_damerau_levenshtein(&wanted, &text);
            let mut candidate = folder.join(name);
            if !beyond.as_os_str().is_empty() {
                candidate.push(beyond);
            }
            (score >= MIN_SIMILARITY && candidate.exists()).then_some((score, candidate))
        })
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored
        .into_iter()
        .take(MAX_SUGGESTIONS)
        .map(|(_, at)| path_text(&at))
        .collect()
}

/// Lists names only, and no more than a hand-made folder has.
fn list_names(folder: &Path) -> Vec<std::ffi::OsString> {
    let walk = ignore::WalkBuilder::new(folder)
        .standard_filters(false)
        .max_depth(Some(1))
        .build();
    walk.take(10_000)
        .flatten()
        .filter(|entry| entry.depth() == 1)
        .map(|entry| entry.file_name().to_owned())
        .collect()
}

/// Searches the whole workspace for files of this name, except those that ignore files exclude.
fn find_same_name(root: &Path, name: &OsStr, found: &mut Vec<String>) {
    let until = Instant::now() + SEARCH_TIMEOUT;
    let walk = ignore::WalkBuilder::new(root)
        .hidden(false)
        .filter_entry(|at| at.file_name() != ".git")
        .build();
    for entry in walk.take_while(|_| Instant::now() < until).flatten() {
        if found.len() >= MAX_SUGGESTIONS {
            return;
        }
        if entry.file_name().eq_ignore_ascii_case(name) {
            let shown = path_text(entry.path());
            if !found.contains(&shown) {
                found.push(shown);
            }
        }
    }
}
