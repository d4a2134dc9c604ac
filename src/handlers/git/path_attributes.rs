//! Queries about paths to stage: the ignored ones, and those with a filter.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::display_text::escape_line;
use super::git_command::GitRunOptions;
use super::repository::{GitRepository, RepoPath};
use punie_text::output::path_text::path_text_from_bytes;
use punie_tool::ToolError;

/// Returns the requested paths that are ignored, each with the rule.
pub(super) async fn find_ignored_paths(
    repository: &GitRepository,
    parts: &[RepoPath],
) -> Result<BTreeMap<Vec<u8>, String>, ToolError> {
    // With `./` before it, git does not read a path as a pattern.
    let asked: Vec<Vec<u8>> = parts
        .iter()
        .filter(|part| !part.path.is_empty())
        .map(|part| [b"./", part.path.as_bytes()].concat())
        .collect();
    if asked.is_empty() {
        return Ok(BTreeMap::new());
    }
    let options = GitRunOptions {
        with_patterns: true,
        ..GitRunOptions::with_paths(asked.iter().map(Vec::as_slice))
    };
    let arguments = ["check-ignore", "--verbose", "-z", "--stdin"];
    let answer = repository.git.run_with_options(&arguments, options).await?;
    // 1 means that none is ignored.
    if !matches!(answer.exit_code, Some(0 | 1)) {
        return Err(answer.git_error());
    }
    // A rule outside the repository may reveal private settings, so it is not quoted.
    let is_own_rule = |rules: PathBuf| {
        rules.starts_with(&repository.top) || rules.starts_with(&repository.git_dir)
    };
    let fields: Vec<&[u8]> = answer.output.split(|byte| *byte == 0).collect();
    let mut found = BTreeMap::new();
    for record in fields.chunks_exact(4) {
        let source = path_text_from_bytes(record[0]);
        let pattern = escape_line(&String::from_utf8_lossy(record[2]));
        if pattern.starts_with('!') {
            continue;
        }
        let rules_file = repository.top.join(&source).canonicalize();
        let rule = if rules_file.is_ok_and(is_own_rule) {
            format!(
                "{source}:{} `{pattern}`",
                String::from_utf8_lossy(record[1])
            )
        } else {
            "a rule of the user's own".to_owned()
        };
        let path = record[3].strip_prefix(b"./").unwrap_or(record[3]);
        found.insert(path.to_vec(), format!("it is ignored by {rule}"));
    }
    Ok(found)
}

/// Returns the files whose attributes ask for a filter, each with its name. Whether a setting says what it is does not
/// matter: without it, other content would be staged.
pub(super) async fn find_filtered_files(
    repository: &GitRepository,
    paths: impl Iterator<Item = &[u8]>,
) -> Result<BTreeMap<Vec<u8>, String>, ToolError> {
    let paths: Vec<&[u8]> = paths.collect();
    if paths.is_empty() {
        return Ok(BTreeMap::new());
    }
    let arguments = ["check-attr", "-z", "--stdin", "filter"];
    let options = GitRunOptions::with_paths(paths.iter().copied());
    let answer = repository.git.run_with_options(&arguments, options).await?;
    if !answer.is_success() || answer.cut {
        return Err(answer.git_error());
    }
    let fields: Vec<&[u8]> = answer.output.split(|byte| *byte == 0).collect();
    // Not named: no such attribute, `-filter`, and `filter` without a value.
    let named = |record: &&[&[u8]]| !matches!(record[2], b"unspecified" | b"unset" | b"set" | b"");
    let entry = |record: &[&[u8]]| {
        (
            record[0].to_vec(),
            String::from_utf8_lossy(record[2]).into_owned(),
        )
    };
    Ok(fields.chunks_exact(3).filter(named).map(entry).collect())
}
