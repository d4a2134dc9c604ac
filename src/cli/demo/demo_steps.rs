//! The requests of the demonstration, with their expected outcomes.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::caller_client::CallerAnswer;
use crate::cli::exit::{CommandError, Exit};
use punie_core::durable::{Readers, replace_file};

/// Values from earlier steps that later ones need.
#[derive(Debug)]
pub(super) struct StepMemory {
    /// The last request.
    pub request: String,
    /// The request that the owner will undo.
    pub to_undo: String,
    workspace: PathBuf,
    handle: String,
    shell: String,
    task: String,
}

impl StepMemory {
    pub fn new(workspace: &Path) -> Self {
        Self {
            request: String::new(),
            to_undo: String::new(),
            workspace: workspace.to_owned(),
            handle: String::new(),
            shell: String::new(),
            task: String::new(),
        }
    }

    /// The file to which the command that is killed appends a line each time it runs.
    pub fn started_file(&self) -> PathBuf {
        self.workspace.join("runs.txt")
    }

    fn read_file(&self, name: &str) -> String {
        std::fs::read_to_string(self.workspace.join(name)).unwrap_or_default()
    }
}

/// The events of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepAction {
    /// A request and its answer.
    Request,
    /// The caller cancels the request immediately.
    Cancel,
    /// The runner is killed while the request runs, and started again.
    KillRunner,
    /// The owner undoes a request.
    Undo,
}

pub(super) struct DemoStep {
    pub domain: &'static str,
    pub tool: &'static str,
    pub what: &'static str,
    pub args: fn(&StepMemory) -> Value,
    /// Checks the answer.
    pub wanted: fn(&CallerAnswer, &mut StepMemory) -> bool,
    pub action: StepAction,
    /// Left out where commands are not confined.
    pub needs_confinement: bool,
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
            action: StepAction::Request,
            needs_confinement: false,
        }
    }

    const fn with_action(self, action: StepAction) -> Self {
        Self { action, ..self }
    }

    const fn if_confined(self) -> Self {
        Self {
            needs_confinement: true,
            ..self
        }
    }
}

fn is_ok_with(answer: &CallerAnswer, text: &str) -> bool {
    answer.outcome == "ok" && answer.text().contains(text)
}

fn is_refused_with(answer: &CallerAnswer, code: &str) -> bool {
    answer.outcome == "error" && answer.payload["meta"]["code"] == code
}

/// Returns the text between two others.
fn text_between(answer: &CallerAnswer, before: &str, after: &str) -> Option<String> {
    let text = answer.text();
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
        "make notes.txt, 3 lines",
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
        "change its second line",
        |_| json!({"file_path": "notes.txt", "old_string": "two", "new_string": "2"}),
        |a, memory| {
            memory.to_undo = memory.request.clone();
            a.outcome == "ok"
        },
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
        "wc -l notes.txt -> 3",
        |_| json!({"command": "wc -l notes.txt"}),
        |a, _| is_ok_with(a, "3 notes.txt"),
    ),
    DemoStep::new(
        "shell",
        "Bash",
        "cat missing.txt -> told: exit code 1",
        |_| json!({"command": "cat missing.txt"}),
        |a, _| a.payload["meta"]["exitCode"] == 1,
    ),
    DemoStep::new(
        "shell",
        "Bash",
        "seq 200000 -> shown in part, kept whole",
        |_| json!({"command": "seq 1 200000"}),
        |a, memory| {
            let handle = a.payload["meta"]["handle"].as_str().map(str::to_owned);
            is_ok_with(a, "200000") && remember_value(&mut memory.handle, handle)
        },
    ),
    DemoStep::new(
        "state",
        "ReadOutput",
        "line 100,001 of it",
        |memory| json!({"handle": memory.handle, "offset": 100_000, "limit": 3}),
        |a, _| is_ok_with(a, "100001"),
    ),
    DemoStep::new(
        "shell",
        "Bash",
        "start a server in the background",
        |_| json!({"command": "echo serving; exec sleep 600", "run_in_background": true}),
        |a, memory| {
            is_ok_with(a, "serving")
                && remember_value(&mut memory.shell, text_between(a, "Shell ", " "))
        },
    ),
    DemoStep::new(
        "shell",
        "ShellStatus",
        "it runs",
        |memory| json!({"shell_id": memory.shell}),
        |a, _| is_ok_with(a, "running"),
    ),
    DemoStep::new(
        "shell",
        "KillShell",
        "end it with all its processes",
        |memory| json!({"shell_id": memory.shell}),
        |a, _| a.outcome == "ok",
    ),
    DemoStep::new(
        "terminal",
        "run_command",
        "echo, without a shell",
        |_| json!({"command": "echo", "args": ["a  b"]}),
        |a, _| is_ok_with(a, "a  b"),
    ),
    DemoStep::new(
        "state",
        "Task",
        "start a task",
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
        "the nearest star in stars.sqlite3 -> Proxima",
        |_| json!({"database_path": "stars.sqlite3", "query": "select name from star order by parsecs"}),
        |a, _| is_ok_with(a, "Proxima"),
    ),
    DemoStep::new(
        "git",
        "GitStatus",
        "told: not a repository",
        |_| json!({}),
        |a, _| a.outcome == "error" && a.text() == "Error: Not a git repository",
    ),
    DemoStep::new(
        "file",
        "Read",
        "/etc/passwd -> refused: outside the workspace",
        |_| json!({"file_path": "/etc/passwd"}),
        |a, _| is_refused_with(a, "outside_workspace"),
    ),
    DemoStep::new(
        "file",
        "Read",
        "a wrong argument -> told which",
        |_| json!({"file_pth": "notes.txt"}),
        |a, _| is_refused_with(a, "invalid_args"),
    ),
    DemoStep::new(
        "-",
        "Raed",
        "no such tool -> told",
        |_| json!({}),
        |a, _| is_refused_with(a, "unknown_tool"),
    ),
    DemoStep::new(
        "shell",
        "Bash",
        "sleep 600 -> cancelled by the caller",
        |_| json!({"command": "sleep 600"}),
        |a, _| a.outcome == "cancelled",
    )
    .with_action(StepAction::Cancel),
    DemoStep::new(
        "shell",
        "Bash",
        "cat ~/.ssh/id_ed25519 -> hidden from commands",
        |_| json!({"command": "cat ~/.ssh/id_ed25519"}),
        |a, _| a.payload["meta"]["exitCode"] == 1 && !a.text().contains(SECRET_KEY),
    )
    .if_confined(),
    DemoStep::new(
        "shell",
        "Bash",
        "git ls-remote https://example.com/a -> refused",
        |_| json!({"command": "git ls-remote https://example.com/a"}),
        |a, _| a.payload["meta"]["exitCode"] == 128 && a.text().contains("example.com"),
    )
    .if_confined(),
    DemoStep::new(
        "shell",
        "Bash",
        "git push -> denied by your rule no-push",
        |_| json!({"command": "git push"}),
        |a, _| a.outcome == "error" && a.text().contains("no-push"),
    ),
    DemoStep::new(
        "shell",
        "Bash",
        "kill -9 of the runner -> ran once, answered once",
        |_| json!({"command": "echo started >> runs.txt; sleep 600"}),
        |a, memory| {
            is_refused_with(a, "interrupted") && memory.read_file("runs.txt") == "started\n"
        },
    )
    .with_action(StepAction::KillRunner),
    DemoStep::new(
        "file",
        "undo",
        "the edit of notes.txt is undone",
        |_| Value::Null,
        |a, memory| a.outcome == "ok" && memory.read_file("notes.txt") == "one\ntwo\nthree\n",
    )
    .with_action(StepAction::Undo),
    DemoStep::new(
        "shell",
        "Bash",
        "a command overwrites notes.txt, makes new.txt",
        |_| json!({"command": "date > notes.txt; mkdir made; date > made/new.txt"}),
        |a, memory| {
            memory.to_undo = memory.request.clone();
            a.outcome == "ok" && !memory.read_file("made/new.txt").is_empty()
        },
    )
    .if_confined(),
    DemoStep::new(
        "shell",
        "undo",
        "all that the command changed is undone",
        |_| Value::Null,
        |a, memory| {
            a.outcome == "ok"
                && memory.read_file("notes.txt") == "one\ntwo\nthree\n"
                && !memory.workspace.join("made").exists()
        },
    )
    .with_action(StepAction::Undo)
    .if_confined(),
];

/// The text of the private key that commands must not see.
const SECRET_KEY: &str = "not a real key";

/// Writes the settings, a rule into the home, and the folder that commands must not see.
pub(super) fn write_settings(root: &Path) -> std::io::Result<()> {
    // Confined as far as this system allows: the demonstration should not be refused.
    std::fs::write(root.join("config.toml"), "[sandbox]\nrequire = \"none\"\n")?;
    // Not by the umask: rules that others may write are refused.
    replace_file(
        &root.join("home/policy.toml"),
        b"[[rule]]\nname = \"no-push\"\ndecision = \"deny\"\nreason = \"you push yourself\"\ncommand = [\"git\", \"push\"]\n",
        Readers::OwnerOnly,
    )?;
    std::fs::create_dir_all(root.join("user/.ssh"))?;
    std::fs::write(root.join("user/.ssh/id_ed25519"), SECRET_KEY)
}

/// Creates sample data in the workspace.
pub(super) fn create_sample_files(workspace: &Path) -> anyhow::Result<()> {
    punie_core::record_locks::install_lock_calls();
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
