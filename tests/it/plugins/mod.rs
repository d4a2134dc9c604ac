//! Plugins with real servers, confined as in production: their tools, faulty plugins, and changes.
#![cfg(target_os = "linux")]

mod bad_servers;
mod changes;
mod configured;
mod declared_access;
mod installing;
mod remote;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::caller::{CallAnswer, ToolCall};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_for_some;

/// The script of a server in bash. `TOOLS` is its list, `START` its answer to `initialize`, and `CALL` its answer to a
/// call.
const SERVER: &str = r#"#!/usr/bin/env bash
id_pattern='"id":([0-9]+)'
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
text() { answer '{"content":[{"type":"text","text":"'"$1"'"}]}'; }
start() { answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}'; }
while IFS= read -r message; do
    [[ $message =~ $id_pattern ]] || continue
    id=${BASH_REMATCH[1]}
    case $message in
    *'"method":"initialize"'*) START ;;
    *'"method":"tools/list"'*) answer '{"tools":[TOOLS]}' ;;
    *'"method":"tools/call"'*) CALL ;;
    esac
done
"#;

/// The script of a server with these tools, which take any arguments.
fn server_script(tools: &[&str], call: &str) -> String {
    let tool = |name: &&str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
    let tools: Vec<String> = tools.iter().map(tool).collect();
    SERVER
        .replace("START", "start")
        .replace("TOOLS", &tools.join(","))
        .replace("CALL", call)
}

/// A number of seconds that no other process sleeps, so that a test finds its own `sleep`.
fn process_marker(test: u32) -> String {
    format!("5{:07}{test:02}", std::process::id())
}

/// Writes a plugin: its manifest beside the command, and its server.
fn install_plugin(setup: &RunnerFixture, id: &str, manifest: &str, server: &str) -> PathBuf {
    let folder = setup.setting.home.join("plugins").join(id);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("server.sh"), server).expect("written");
    let manifest = format!("command = [\"bash\", \"server.sh\"]\n{manifest}");
    std::fs::write(folder.join("plugin.toml"), manifest).expect("written");
    folder
}

/// Installs one of the examples of the documentation.
fn install_example(setup: &RunnerFixture, id: &str) {
    let example = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs/examples/plugins")
        .join(id);
    let folder = setup.setting.home.join("plugins").join(id);
    std::fs::create_dir_all(&folder).expect("a folder");
    for entry in std::fs::read_dir(example).expect("the example") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), folder.join(entry.file_name())).expect("copied");
    }
}

/// The reports of `plugins`, by plugin id.
async fn listed_plugins(setup: &RunnerFixture) -> std::collections::BTreeMap<String, Value> {
    let ended = setup.command(&["--json", "plugins"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines = ended.out.lines().map(|line| {
        let report: Value = serde_json::from_str(line).expect("JSON");
        (report["id"].as_str().expect("an id").to_owned(), report)
    });
    lines.collect()
}

/// The problems of a report, as one text.
fn problem_text(report: &Value) -> String {
    let all = report["problems"].as_array().expect("a list");
    let texts = all.iter().map(|problem| problem.as_str().expect("text"));
    texts.collect::<Vec<_>>().join("\n")
}

/// Calls a tool without a runner.
async fn call_tool(setup: &RunnerFixture, tool: &str) -> Value {
    setup.command(&["--json", "call", tool]).await.json()
}

/// Waits until the backend lists a tool.
async fn until_offered(setup: &RunnerFixture, tool: &str) -> Value {
    wait_for_some(&format!("{tool} in the catalog"), async || {
        let tools = setup.caller.tools().await;
        tools
            .into_iter()
            .find(|(name, _)| name == tool)
            .map(|(_, body)| body)
    })
    .await
}

fn text_of(answer: &CallAnswer) -> String {
    answer.expect_ok();
    answer.text()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_examples_are_offered_in_the_catalog_and_answer_requests() {
    let setup = RunnerFixture::new().await;
    install_example(&setup, "count-lines");
    install_example(&setup, "word-stats");
    setup.write("poem.txt", "one\ntwo\nthree\n");
    let runner = setup.run();
    let body = until_offered(&setup, "count_lines").await;
    assert_eq!(body["origin"], "plugin: count-lines");
    assert_eq!(body["effect"], "reads");
    assert_eq!(body["schema"]["required"], json!(["path"]));
    until_offered(&setup, "word_stats").await;

    let ask = ToolCall::new("count_lines", &json!({"path": "poem.txt"}));
    assert_eq!(text_of(&setup.call(ask).await), "3 lines");
    let ask = ToolCall::new("word_stats", &json!({"text": "A b a", "top": 1}));
    let said = text_of(&setup.call(ask).await);
    assert_eq!(said, "3 words, 2 different\na: 2");
    setup
        .call_tool("count_lines", &json!({"file": "poem.txt"}))
        .await
        .expect_error("invalid_args");

    let plugins = setup.caller.catalog("plugin").await;
    let names: Vec<&str> = plugins.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["count-lines", "word-stats"]);
    assert_eq!(plugins[0].1["tools"], json!(["count_lines"]));
    assert_eq!(plugins[0].1["paths"], "read");
    runner.terminate();
    runner.end().await;

    let all = listed_plugins(&setup).await;
    assert_eq!(all["word-stats"]["state"], "ok", "{all:?}");
    let called = setup.command(&["call", "word_stats", "text=a"]).await;
    assert_starts_with!(called.out, "1 words");
    let is_quiet = !called.log.contains("serve_inner") && !called.log.contains("peer_info");
    assert!(
        is_quiet,
        "nothing of what the server says is logged: {called:?}"
    );
    let table = setup.command(&["plugins"]).await.out;
    assert_contains!(table, "count-lines", "reads files");
    assert!(
        table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_of_the_runner_starts_no_plugin_whose_tools_are_known() {
    let setup = RunnerFixture::new().await;
    let script = server_script(&["probe"], "text ran").replace(
        "while",
        "echo started >> \"${PUNIE_WORKSPACES%%:*}/starts\"\nwhile",
    );
    install_plugin(&setup, "known", "paths = \"write\"", &script);
    assert_eq!(
        listed_plugins(&setup).await["known"]["tools"][0]["name"],
        "probe"
    );
    assert_eq!(setup.read("starts"), "started\n");
    let runner = setup.run();
    until_offered(&setup, "probe").await;
    assert_eq!(
        setup.read("starts"),
        "started\n",
        "the start of the runner starts no server"
    );
    for _ in 0..2 {
        let answer = setup.call_tool("probe", &json!({})).await;
        assert_eq!(text_of(&answer), "ran");
    }
    assert_eq!(
        setup.read("starts"),
        "started\nstarted\n",
        "one server for both calls"
    );
    runner.terminate();
    runner.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_belong_to_the_device_first_and_then_to_the_first_plugin() {
    let setup = RunnerFixture::new().await;
    install_plugin(
        &setup,
        "a-first",
        "",
        &server_script(&["probe", "Read"], "text first"),
    );
    install_plugin(
        &setup,
        "b-second",
        "",
        &server_script(&["probe", "other", "no name"], "text second"),
    );
    let all = listed_plugins(&setup).await;
    let tools = |id: &str| all[id]["tools"].as_array().expect("a list").len();
    assert_eq!((tools("a-first"), tools("b-second")), (1, 1), "{all:?}");
    let said = problem_text(&all["a-first"]);
    assert_contains!(said, "Read is not offered, because this device has a tool");
    let said = problem_text(&all["b-second"]);
    assert_contains!(said, "the plugin a-first has a tool of this name");
    assert_contains!(said, "cannot be the name of a tool");
    assert_eq!(call_tool(&setup, "probe").await["result"], "first");
    setup.write("x", "content of x");
    let read = setup
        .command(&["--json", "call", "Read", "path=x"])
        .await
        .json();
    assert_contains!(read["result"].as_str().expect("text"), "content of x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_that_cannot_be_loaded_is_named_with_the_remedy() {
    let setup = RunnerFixture::new().await;
    let folder = install_plugin(&setup, "broken", "paths = \"all\"", "");
    let secret = setup.setting.logs.join("outside.sh");
    std::fs::write(&secret, "#!/bin/sh\n").expect("written");
    std::os::unix::fs::symlink(&secret, folder.join("link.sh")).expect("a link");
    let leaving = folder.with_file_name("leaving");
    std::fs::create_dir_all(&leaving).expect("a folder");
    std::os::unix::fs::symlink(&secret, leaving.join("link.sh")).expect("a link");
    std::fs::write(leaving.join("plugin.toml"), "command = [\"./link.sh\"]").expect("written");
    std::fs::create_dir_all(folder.with_file_name("empty")).expect("a folder");
    std::os::unix::fs::symlink(&setup.setting.logs, folder.with_file_name("linked"))
        .expect("a link");
    let wrong_id = install_plugin(&setup, "wrong-id", "id = \"other\"", "");
    let all = listed_plugins(&setup).await;
    for (id, words) in [
        ("broken", "line 2: unknown variant `all`"),
        ("leaving", "leads out of the plugin's folder"),
        ("empty", "has no plugin.toml"),
        ("linked", "has no plugin.toml"),
        ("wrong-id", "Give both the same name"),
    ] {
        let said = problem_text(&all[id]);
        assert_contains!(said, words; "{id}");
    }
    std::fs::remove_dir_all(wrong_id).expect("removed");
}
