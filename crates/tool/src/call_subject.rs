//! The subject of a call in one line, for a list in which the tool has its own column: the command, the paths or the
//! query. Not here: the sentence that an editor shows (description).

use std::path::PathBuf;

use serde_json::Value;

use super::description::path_from_root;
use super::{DeclaredAccess, RequestedCommand};

/// The number of paths that are named.
const NAMED_PATHS: usize = 3;

/// Describes the subject of a call: its command, else the files that it changes, else its texts (a query, a path), else
/// the files that it reads. Paths are relative to the workspace folders.
pub(super) fn describe_subject(
    access: Option<&DeclaredAccess>,
    args: &Value,
    roots: &[PathBuf],
) -> String {
    let texts = || plain_texts(args).map(|text| path_from_root(text, roots));
    let Some(access) = access else {
        return texts().collect::<Vec<_>>().join(" ");
    };
    match access.command.as_ref().map(|command| &command.text) {
        Some(RequestedCommand::Line(line)) => return line.clone(),
        Some(RequestedCommand::Program(program, words)) => {
            let line: Vec<&str> = std::iter::once(program)
                .chain(words)
                .map(String::as_str)
                .collect();
            return line.join(" ");
        }
        Some(RequestedCommand::Typed(..)) | None => {}
    }
    if !access.writes.is_empty() {
        return list_paths(&access.writes, roots);
    }
    let texts: Vec<&str> = texts().collect();
    if texts.is_empty() {
        list_paths(&access.reads, roots)
    } else {
        texts.join(" ")
    }
}

/// Returns the texts among the arguments, also those in lists, without empty ones.
fn plain_texts(args: &Value) -> impl Iterator<Item = &str> {
    let values = args.as_object().into_iter().flat_map(|map| map.values());
    values
        .flat_map(|value| match value {
            Value::Array(items) => items.iter().collect(),
            single => vec![single],
        })
        .filter_map(Value::as_str)
        .filter(|text| !text.is_empty())
}

fn list_paths(paths: &[String], roots: &[PathBuf]) -> String {
    let shown: Vec<&str> = paths
        .iter()
        .take(NAMED_PATHS)
        .map(|path| path_from_root(path, roots))
        .collect();
    let more = match paths.len().saturating_sub(NAMED_PATHS) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_comes_before_files_and_files_before_texts() {
        let roots = [PathBuf::from("/work")];
        let args = json!({"file_path": "/work/a.rs", "content": "long text", "n": 3});
        let writes = DeclaredAccess::writing_paths(["/work/a.rs", "b", "c", "d", "e"]);
        let line = |text: &str| RequestedCommand::Line(text.to_owned());
        for (access, subject) in [
            (
                DeclaredAccess::running_command(line("git log | head"), None),
                "git log | head",
            ),
            (writes, "a.rs, b, c and 2 more"),
            (
                DeclaredAccess::reading_paths(["/work/a.rs"]),
                "long text a.rs",
            ),
        ] {
            let found = describe_subject(Some(&access), &args, &roots);
            let mut words: Vec<&str> = found.split(' ').collect();
            let mut expected: Vec<&str> = subject.split(' ').collect();
            // The order of a JSON object's keys is not part of the promise.
            words.sort_unstable();
            expected.sort_unstable();
            assert_eq!(words, expected);
        }
        let listed = DeclaredAccess::reading_paths(["/work/src"]);
        assert_eq!(describe_subject(Some(&listed), &json!({}), &roots), "src");
        let lists = json!({"paths": ["/work/x", "y"]});
        assert_eq!(describe_subject(None, &lists, &roots), "x y");
    }
}
