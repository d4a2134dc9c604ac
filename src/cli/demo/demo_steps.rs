//! The requests of the demonstration, with their expected outcomes.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::caller_client::CallerAnswer;
use crate::cli::exit::{CommandError, Exit};

/// Values from earlier answers that later requests need.
#[derive(Debug, Default)]
pub(super) struct StepMemory {
    handle: String,
    shell: String,
    task: String,
}

/// One request.
pub(super) struct DemoStep {
    pub domain: &'static str,
    pub tool: &'static str,
    pub what: &'static str,
    pub args: fn(&StepMemory) -> Value,
    /// Checks the answer.
    pub wanted: fn(&CallerAnswer, &mut StepMemory) -> bool,
    /// The caller cancels the request immediately.
    pub is_cancelled: bool,
}

impl DemoStep {
    const fn new(
        domain: &'static str,
        tool: &'static str,
        what: &'static str,
        args: fn(&StepMemory) -> Value,
        wanted: fn(&CallerAnswer, &mut StepMemory) -> bool,
    ) -> Self {
        Self {
            domain,
            tool,
            what,
            args,
            wanted,
            is_cancelled: false,
        }
    }

    const fn cancelled_at_once(self) -> Self {
        Self {
            is_cancelled: true,
            ..self
        }
    }
}

fn is_ok_with(answer: &CallerAnswer, text: &str) -> bool {
    answer.outcome == "ok" && answer.answer_text().contains(text)
}

fn is_refused_with(answer: &CallerAnswer, code: &str) -> bool {
    answer.outcome == "error" && answer.payload["meta"]["code"] == code
}

/// Returns the text between two others.
fn text_between(answer: &CallerAnswer, before: &str, after: &str) -> Option<String> {
    let text = answer.answer_text();
    let rest = &text[text.find(before)? + before.len()..];
    Some(rest[..rest.find(after)?].to_owned())
}

fn remember_value(kept: &mut String, found: Option<String>) -> bool {
    *kept = found.unwrap_or_default();
    !kept.is_empty()
}

pub(super) const STEPS: &[DemoStep] = &[
    DemoStep::new(
        "file",
        "Write",
        "make a file",
        |_| json!({"file_path": "notes.txt", "content": "one\ntwo\nthree\n"}),
        |a, _| is_ok_with(a, "notes.txt"),
    ),
    DemoStep::new(
        "file",
        "Read",
        "read it back",
        |_| json!({"file_path": "notes.txt"}),
        |a, _| is_ok_with(a, "two"),
    ),
    DemoStep::new(
        "file",
        "Edit",
        "change a line",
        |_| json!({"file_path": "notes.txt", "old_string": "two", "new_string": "2"}),
        |a, _| a.outcome == "ok",
    ),
    DemoStep::new(
        "search",
        "Glob",
        "find files",
        |_| json!({"pattern": "**/*.txt"}),
        |a, _| is_ok_with(a, "notes.txt"),
    ),
    DemoStep::new(
        "search",
        "Grep",
        "find the change",
        |_| json!({"pattern": "^2$", "output_mode": "content"}),
        |a, _| is_ok_with(a, "notes.txt"),
    ),
    DemoStep::new(
        "shell",
        "Bash",
        "run a command",
        |_| json!({"command": "wc -l notes.txt"}),
        |a, _| is_ok_with(a, "3 notes.txt"),
    ),
    DemoStep::new(
        "shell",
        "Bash",
        "fail honestly",
        |_| json!({"command": "cat missing.txt"}),
        |a, _| a.payload["meta"]["exitCode"] == 1,
    ),
    DemoStep::new(
        "shell",
        "Bash",
        "print too much",
        |_| json!({"command": "seq 1 200000"}),
        |a, memory| {
            let handle = a.payload["meta"]["handle"].as_str().map(str::to_owned);
            is_ok_with(a, "200000") && remember_value(&mut memory.handle, handle)
        },
    ),
    DemoStep::new(
        "state",
        "ReadOutput",
        "read its middle",
        |memory| json!({"handle": memory.handle, "offset": 100_000, "limit": 3}),
        |a, _| is_ok_with(a, "100001"),
    ),
    DemoStep::new(
        "shell",
        "Bash",
        "start a server",
        |_| json!({"command": "echo serving; exec sleep 600", "run_in_background": true}),
        |a, memory| {
            is_ok_with(a, "serving")
                && remember_value(&mut memory.shell, text_between(a, "Shell ", " "))
        },
    ),
    DemoStep::new(
        "shell",
        "ShellStatus",
        "look at it",
        |memory| json!({"shell_id": memory.shell}),
        |a, _| is_ok_with(a, "running"),
    ),
    DemoStep::new(
        "shell",
        "KillShell",
        "stop it",
        |memory| json!({"shell_id": memory.shell}),
        |a, _| a.outcome == "ok",
    ),
    DemoStep::new(
        "terminal",
        "run_command",
        "run a program",
        |_| json!({"command": "echo", "args": ["a  b"]}),
        |a, _| is_ok_with(a, "a  b"),
    ),
    DemoStep::new(
        "state",
        "Task",
        "run beside the talk",
        |_| json!({"tool": "Bash", "args": {"command": "echo from a task"}}),
        |a, memory| remember_value(&mut memory.task, text_between(a, "Task ", " ")),
    ),
    DemoStep::new(
        "state",
        "TaskOutput",
        "fetch its result",
        |memory| json!({"task_id": memory.task}),
        |a, _| is_ok_with(a, "Bash"),
    ),
    DemoStep::new(
        "sqlite",
        "SqliteQuery",
        "ask a database",
        |_| json!({"database_path": "stars.sqlite3", "query": "select name from star order by parsecs"}),
        |a, _| is_ok_with(a, "Proxima"),
    ),
    DemoStep::new(
        "git",
        "git_status",
        "outside a repository",
        |_| json!({}),
        |a, _| a.outcome == "error" && a.answer_text() == "Error: Not a git repository",
    ),
    DemoStep::new(
        "file",
        "Read",
        "leave the workspace",
        |_| json!({"file_path": "/etc/passwd"}),
        |a, _| is_refused_with(a, "outside_workspace"),
    ),
    DemoStep::new(
        "file",
        "Read",
        "ask wrongly",
        |_| json!({"file_pth": "notes.txt"}),
        |a, _| is_refused_with(a, "invalid_args"),
    ),
    DemoStep::new(
        "-",
        "Raed",
        "ask for no tool",
        |_| json!({}),
        |a, _| is_refused_with(a, "unknown_tool"),
    ),
    DemoStep::new(
        "shell",
        "Bash",
        "be taken back",
        |_| json!({"command": "sleep 600"}),
        |a, _| a.outcome == "cancelled",
    )
    .cancelled_at_once(),
];

/// Creates sample data in the workspace.
pub(super) fn create_sample_files(workspace: &Path) -> anyhow::Result<()> {
    crate::record_locks::install_lock_calls();
    let made = rusqlite::Connection::open(workspace.join("stars.sqlite3")).and_then(|stars| {
        stars.execute_batch(
            "create table star (name text, parsecs real);
             insert into star values ('Sirius', 2.64), ('Proxima', 1.30), ('Vega', 7.68);",
        )
    });
    made.map_err(|cause| {
        CommandError::with_exit(
            Exit::CannotWrite,
            format!("{}: {cause}", workspace.display()),
        )
    })
}
