//! The requests of the demonstration, with their expected outcomes.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::caller::Answer;
use crate::cli::exit::{Exit, Stop};

/// Values from earlier answers that later requests need.
#[derive(Debug, Default)]
pub(super) struct Memory {
    handle: String,
    shell: String,
    task: String,
}

/// One request.
pub(super) struct Step {
    pub domain: &'static str,
    pub tool: &'static str,
    pub what: &'static str,
    pub args: fn(&Memory) -> Value,
    /// Checks the answer.
    pub wanted: fn(&Answer, &mut Memory) -> bool,
    /// The caller cancels the request immediately.
    pub taken_back: bool,
}

impl Step {
    const fn new(
        domain: &'static str,
        tool: &'static str,
        what: &'static str,
        args: fn(&Memory) -> Value,
        wanted: fn(&Answer, &mut Memory) -> bool,
    ) -> Self {
        Self { domain, tool, what, args, wanted, taken_back: false }
    }

    const fn taken_back(self) -> Self {
        Self { taken_back: true, ..self }
    }
}

fn ok(answer: &Answer, text: &str) -> bool {
    answer.outcome == "ok" && answer.text().contains(text)
}

fn refused(answer: &Answer, code: &str) -> bool {
    answer.outcome == "error" && answer.payload["meta"]["code"] == code
}

/// Returns the text between two others.
fn between(answer: &Answer, before: &str, after: &str) -> Option<String> {
    let text = answer.text();
    let rest = &text[text.find(before)? + before.len()..];
    Some(rest[..rest.find(after)?].to_owned())
}

fn remembered(kept: &mut String, found: Option<String>) -> bool {
    *kept = found.unwrap_or_default();
    !kept.is_empty()
}

pub(super) const STEPS: &[Step] = &[
    Step::new(
        "file",
        "Write",
        "make a file",
        |_| json!({"file_path": "notes.txt", "content": "one\ntwo\nthree\n"}),
        |a, _| ok(a, "notes.txt"),
    ),
    Step::new("file", "Read", "read it back", |_| json!({"file_path": "notes.txt"}), |a, _| ok(a, "two")),
    Step::new(
        "file",
        "Edit",
        "change a line",
        |_| json!({"file_path": "notes.txt", "old_string": "two", "new_string": "2"}),
        |a, _| a.outcome == "ok",
    ),
    Step::new("search", "Glob", "find files", |_| json!({"pattern": "**/*.txt"}), |a, _| ok(a, "notes.txt")),
    Step::new(
        "search",
        "Grep",
        "find the change",
        |_| json!({"pattern": "^2$", "output_mode": "content"}),
        |a, _| ok(a, "notes.txt"),
    ),
    Step::new(
        "shell",
        "Bash",
        "run a command",
        |_| json!({"command": "wc -l notes.txt"}),
        |a, _| ok(a, "3 notes.txt"),
    ),
    Step::new(
        "shell",
        "Bash",
        "fail honestly",
        |_| json!({"command": "cat missing.txt"}),
        |a, _| a.payload["meta"]["exitCode"] == 1,
    ),
    Step::new(
        "shell",
        "Bash",
        "print too much",
        |_| json!({"command": "seq 1 200000"}),
        |a, memory| {
            let handle = a.payload["meta"]["handle"].as_str().map(str::to_owned);
            ok(a, "200000") && remembered(&mut memory.handle, handle)
        },
    ),
    Step::new(
        "state",
        "ReadOutput",
        "read its middle",
        |memory| json!({"handle": memory.handle, "offset": 100_000, "limit": 3}),
        |a, _| ok(a, "100001"),
    ),
    Step::new(
        "shell",
        "Bash",
        "start a server",
        |_| json!({"command": "echo serving; exec sleep 600", "run_in_background": true}),
        |a, memory| ok(a, "serving") && remembered(&mut memory.shell, between(a, "Shell ", " ")),
    ),
    Step::new(
        "shell",
        "ShellStatus",
        "look at it",
        |memory| json!({"shell_id": memory.shell}),
        |a, _| ok(a, "running"),
    ),
    Step::new(
        "shell",
        "KillShell",
        "stop it",
        |memory| json!({"shell_id": memory.shell}),
        |a, _| a.outcome == "ok",
    ),
    Step::new(
        "terminal",
        "run_command",
        "run a program",
        |_| json!({"command": "echo", "args": ["a  b"]}),
        |a, _| ok(a, "a  b"),
    ),
    Step::new(
        "state",
        "Task",
        "run beside the talk",
        |_| json!({"tool": "Bash", "args": {"command": "echo from a task"}}),
        |a, memory| remembered(&mut memory.task, between(a, "Task ", " ")),
    ),
    Step::new(
        "state",
        "TaskOutput",
        "fetch its result",
        |memory| json!({"task_id": memory.task}),
        |a, _| ok(a, "Bash"),
    ),
    Step::new(
        "sqlite",
        "SqliteQuery",
        "ask a database",
        |_| json!({"database_path": "stars.sqlite3", "query": "select name from star order by parsecs"}),
        |a, _| ok(a, "Proxima"),
    ),
    Step::new(
        "git",
        "git_status",
        "outside a repository",
        |_| json!({}),
        |a, _| a.outcome == "error" && a.text() == "Error: Not a git repository",
    ),
    Step::new(
        "file",
        "Read",
        "leave the workspace",
        |_| json!({"file_path": "/etc/passwd"}),
        |a, _| refused(a, "outside_workspace"),
    ),
    Step::new(
        "file",
        "Read",
        "ask wrongly",
        |_| json!({"file_pth": "notes.txt"}),
        |a, _| refused(a, "invalid_args"),
    ),
    Step::new("-", "Raed", "ask for no tool", |_| json!({}), |a, _| refused(a, "unknown_tool")),
    Step::new(
        "shell",
        "Bash",
        "be taken back",
        |_| json!({"command": "sleep 600"}),
        |a, _| a.outcome == "cancelled",
    )
    .taken_back(),
];

/// Creates sample data in the workspace.
pub(super) fn furnish(workspace: &Path) -> anyhow::Result<()> {
    crate::record_locks::install();
    let made = rusqlite::Connection::open(workspace.join("stars.sqlite3")).and_then(|stars| {
        stars.execute_batch(
            "create table star (name text, parsecs real);
             insert into star values ('Sirius', 2.64), ('Proxima', 1.30), ('Vega', 7.68);",
        )
    });
    made.map_err(|cause| Stop::with(Exit::CannotWrite, format!("{}: {cause}", workspace.display())))
}
