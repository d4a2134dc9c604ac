//! The title of a call: one sentence that says what it would do, as "Edit src/main.rs" or "Run `cargo test`". Not here:
//! all of its arguments (glance).

use std::path::{Path, PathBuf};

use serde_json::Value;

/// How many arguments of an unknown tool are named.
const NAMED: usize = 4;

/// What a call of this tool would do. Paths are written from the project's folders on.
pub(super) fn sentence(tool: &str, args: &Value, roots: &[PathBuf]) -> String {
    let text = |name: &str| args.get(name).and_then(Value::as_str);
    let path = text("file_path").or_else(|| text("path")).or_else(|| text("database_path"));
    let path = path.map(|path| from_root(path, roots));
    let or_here = || path.unwrap_or(".");
    let known = match tool {
        "Bash" | "SkillBash" | "run_command" => text("command").map(|command| run(command, args)),
        "Read" | "read_file" => path.map(|path| format!("Read {path}")),
        "Write" | "write_file" => path.map(|path| format!("Write {path}")),
        "Edit" | "MultiEdit" => path.map(|path| format!("Edit {path}")),
        "ApplyPatch" => text("patch").map(|patch| patched(patch, roots)),
        "Glob" => text("pattern").map(|pattern| format!("Find files that match `{pattern}`")),
        "Grep" => text("pattern").map(|pattern| format!("Search for `{pattern}`")),
        "list_files" => Some(format!("List the files in {}", or_here())),
        "WriteShell" => shell(args).map(|shell| typed(&shell, args)),
        "KillShell" => shell(args).map(|shell| format!("End shell {shell}")),
        "ShellStatus" => shell(args).map(|shell| format!("Look at shell {shell}")),
        "SqliteQuery" => text("query").map(|query| format!("Query {}: `{query}`", or_here())),
        "OpenApp" => text("app").map(|app| format!("Open {app}")),
        "GitCommit" | "git_add_commit" => text("message").map(|message| format!("Commit `{message}`")),
        "Task" => text("tool").map(|inner| {
            let what = sentence(inner, args.get("args").unwrap_or(&Value::Null), roots);
            format!("Start a task: {what}")
        }),
        _ => None,
    };
    known.unwrap_or_else(|| call(tool, args))
}

fn run(command: &str, args: &Value) -> String {
    let words = args.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let line: Vec<&str> = std::iter::once(command).chain(words).collect();
    format!("Run `{}`", line.join(" "))
}

fn shell(args: &Value) -> Option<String> {
    args.get("shell_id").and_then(Value::as_str).map(str::to_owned)
}

fn typed(shell: &str, args: &Value) -> String {
    match args.get("text").and_then(Value::as_str) {
        Some(text) => format!("Type into shell {shell}: `{text}`"),
        None => format!("Press keys in shell {shell}"),
    }
}

/// The files that a patch begins with, and how many more there are.
fn patched(patch: &str, roots: &[PathBuf]) -> String {
    const HEADS: [&str; 4] = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "+++ "];
    let name = |line: &str| HEADS.iter().find_map(|head| line.strip_prefix(head).map(str::to_owned));
    let mut names: Vec<String> = patch.lines().filter_map(name).collect();
    names.dedup();
    let shown = |name: &String| {
        let name = name.split('\t').next().unwrap_or_default();
        from_root(name.strip_prefix("b/").unwrap_or(name), roots).to_owned()
    };
    match names.as_slice() {
        [] => "Apply a patch".to_owned(),
        [one] => format!("Edit {}", shown(one)),
        [one, two] => format!("Edit {} and {}", shown(one), shown(two)),
        [one, rest @ ..] => format!("Edit {} and {} more files", shown(one), rest.len()),
    }
}

/// A tool that is not known here, with its first plain arguments.
fn call(tool: &str, args: &Value) -> String {
    let plain = |(name, value): (&String, &Value)| match value {
        Value::String(text) => Some(format!("{name} `{text}`")),
        Value::Number(_) | Value::Bool(_) => Some(format!("{name} {value}")),
        _ => None,
    };
    let named: Vec<String> = args.as_object().into_iter().flatten().filter_map(plain).take(NAMED).collect();
    if named.is_empty() { format!("Call {tool}") } else { format!("Call {tool} with {}", named.join(", ")) }
}

fn from_root<'p>(path: &'p str, roots: &[PathBuf]) -> &'p str {
    let inside = roots.iter().find_map(|root| Path::new(path).strip_prefix(root).ok()?.to_str());
    inside.filter(|inside| !inside.is_empty()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_title_is_a_sentence_and_never_json() {
        let roots = [PathBuf::from("/work")];
        let patch =
            "*** Begin Patch\n*** Add File: a.rs\n+x\n*** Update File: b.rs\n@@\n-x\n+y\n*** End Patch";
        let cases = [
            ("Bash", json!({ "command": "cargo test" }), "Run `cargo test`"),
            ("run_command", json!({ "command": "ls", "args": ["-l"] }), "Run `ls -l`"),
            ("Edit", json!({ "file_path": "/work/src/main.rs" }), "Edit src/main.rs"),
            ("Write", json!({ "file_path": "a.txt", "content": "x" }), "Write a.txt"),
            ("ApplyPatch", json!({ "patch": patch }), "Edit a.rs and b.rs"),
            ("ApplyPatch", json!({ "patch": "--- a/x\n+++ b/x\n" }), "Edit x"),
            ("Task", json!({ "tool": "Bash", "args": { "command": "x" } }), "Start a task: Run `x`"),
            ("GitStatus", json!({}), "Call GitStatus"),
            (
                "ide_rename",
                json!({ "to": "x", "all": true, "in": [1] }),
                "Call ide_rename with to `x`, all true",
            ),
            ("Edit", json!({ "edits": [{}] }), "Call Edit"),
            ("Bash", json!(null), "Call Bash"),
        ];
        for (tool, args, wanted) in cases {
            assert_eq!(sentence(tool, &args, &roots), wanted);
        }
    }
}
