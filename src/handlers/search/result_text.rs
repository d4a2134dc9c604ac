//! Texts that the answers of both search tools have.

use std::path::Path;

use serde_json::{Map, Value};

use punie_text::output::number_format::{format_count, group_digits};
use punie_text::output::path_text::path_text;

/// Formats a path as tools accept it: relative to the first workspace, or absolute outside it.
pub(super) fn workspace_path_text(first: &Path, path: &Path) -> String {
    let rel = path.strip_prefix(first).ok();
    path_text(
        rel.filter(|rel| !rel.as_os_str().is_empty())
            .unwrap_or(path),
    )
}

/// Takes a limit of 0 as all that an answer may have, as other agents' tools do.
pub(super) fn take_zero_as_all(arguments: &mut Map<String, Value>, key: &str, most: u64) {
    if arguments.get(key).is_some_and(|limit| *limit == 0) {
        arguments.insert(key.to_owned(), Value::from(most));
    }
}

/// Returns the prefix of a count that may be too low.
pub(super) fn at_least(is_partial: bool) -> &'static str {
    if is_partial { "at least " } else { "" }
}

/// Formats which of the results a page of `shown` ones holds, and the searched folders.
pub(super) fn page_range_text(offset: u64, shown: u64, total: u64, folders: &str) -> String {
    let last = offset + shown;
    if shown == 0 {
        format!(" {folders}; offset={offset} is past the end")
    } else if offset > 0 || last < total {
        let first = group_digits(offset + 1);
        let last = group_digits(last);
        format!(" (showing {first}-{last}) {folders}")
    } else {
        format!(" {folders}")
    }
}

/// Converts a count, to the largest possible one if it does not fit.
pub(super) fn saturating_usize(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Formats how to find ignored or hidden results, of which a second search found some.
pub(super) fn ignored_matches_hint(
    count: u64,
    noun: &str,
    is_partial: bool,
    includes_hidden: bool,
) -> String {
    let names = format_count(count, &format!("ignored or hidden {noun}"));
    let at_least = at_least(is_partial);
    let verb = if count == 1 { "matches" } else { "match" };
    let hidden = if includes_hidden {
        ""
    } else {
        " and hidden=true"
    };
    format!("But {at_least}{names} {verb}: use include_ignored=true{hidden}.")
}
