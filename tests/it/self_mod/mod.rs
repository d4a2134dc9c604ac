//! Self-modification through the embedded backend with a real runner: staging, applying and reverting by tools alone.
#![cfg(unix)]

mod conflicts;
mod files;
mod kills;
mod session;

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::caller::{CallAnswer, ToolCall};
use crate::harness::stage::RunnerFixture;

/// Sets the root to a folder of the workspace.
const CONFIG: &str = "[self_mod]\nroot = \"app\"\n";

/// Returns a call of the agent whose changes are staged.
fn ask_of(tool: &str, args: &Value) -> ToolCall {
    ToolCall::new(tool, args)
        .in_conversation("modding")
        .with("agentType", json!("self_mod"))
}

/// Calls a tool as that agent.
async fn call_tool(setup: &RunnerFixture, tool: &str, args: Value) -> CallAnswer {
    let id = setup.ask(ask_of(tool, &args)).await;
    setup.answer(&id).await
}

/// Calls a tool as that agent, checks that it succeeds, and returns its text.
async fn text_of(setup: &RunnerFixture, tool: &str, args: Value) -> String {
    let answer = call_tool(setup, tool, args).await;
    assert_eq!(answer.outcome, "ok", "{tool}: {answer:?}");
    answer.text()
}

/// Edits a file as that agent.
async fn edit_file(setup: &RunnerFixture, file: &str, old: &str, new: &str) {
    let args = json!({"file_path": file, "old_string": old, "new_string": new});
    text_of(setup, "Edit", args).await;
}

/// Writes a file as that agent.
async fn write_file(setup: &RunnerFixture, file: &str, content: &str) {
    text_of(
        setup,
        "Write",
        json!({"file_path": file, "content": content}),
    )
    .await;
}

/// Starts a feature, and returns the id that SelfModStart gave.
async fn start_change(setup: &RunnerFixture) -> String {
    let text = text_of(setup, "SelfModStart", json!({"name": "Theme"})).await;
    let id = text.split_whitespace().nth(1).expect("an id");
    assert!(id.starts_with("mod-"), "{text}");
    id.to_owned()
}

/// Returns the files of a folder with their bytes, in order.
fn read_tree(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path.clone());
            }
            let name = path.strip_prefix(root).expect("below it");
            let bytes = std::fs::read(&path).unwrap_or_default();
            found.push((name.display().to_string(), bytes));
        }
    }
    found.sort();
    found
}

/// Sets up a workspace with three files below the root.
async fn stage_with_files() -> RunnerFixture {
    let setup = RunnerFixture::with_config(CONFIG).await;
    std::fs::create_dir(setup.file("app")).expect("made");
    for name in ["a", "b", "c"] {
        setup.write(&format!("app/{name}.txt"), &format!("{name} one\n"));
    }
    setup
}
