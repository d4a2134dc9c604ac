//! Changes of plugins while the runner runs.

use serde_json::json;

use super::{install, marker, server, text_of, until_offered};
use crate::harness::caller::Ask;
use crate::harness::stage::Stage;
use crate::harness::wait::{eventually, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w63_an_edit_is_in_force_at_the_next_call() {
    let stage = Stage::new().await;
    let runner = stage.run();
    let folder = install(
        &stage,
        "edited",
        "",
        &server(&["probe"], "source lib/say.sh"),
    );
    std::fs::create_dir(folder.join("lib")).expect("a folder");
    std::fs::write(folder.join("lib/say.sh"), "text one").expect("written");
    until_offered(&stage, "probe").await;
    let ask = async || stage.caller.have(Ask::new("probe", &json!({}))).await;
    assert_eq!(text_of(&ask().await), "one");
    // Below the folders that are watched.
    std::fs::write(folder.join("lib/say.sh"), "text \"two and more\"").expect("written");
    assert_eq!(text_of(&ask().await), "two and more");
    let script = server(&["probe", "another"], "text three");
    std::fs::write(folder.join("server.sh"), script).expect("written");
    assert_eq!(text_of(&ask().await), "three");
    until_offered(&stage, "another").await;
    // The access that was decided about is another one now.
    install(
        &stage,
        "edited",
        "paths = \"write\"",
        &server(&["probe"], "text four"),
    );
    eventually("the new version", async || {
        let answer = ask().await;
        (answer.outcome == "ok")
            .then(|| text_of(&answer))
            .filter(|text| text == "four")
    })
    .await;
    runner.terminate();
    runner.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_runs_ends_with_the_plugin_that_it_began_with() {
    let stage = Stage::new().await;
    let waits = "d=${PUNIE_WORKSPACES%%:*}; echo begun > $d/begun; until [[ -e $d/go ]]; do sleep 0.05; done; text old";
    let folder = install(
        &stage,
        "going",
        "paths = \"write\"",
        &server(&["probe"], waits),
    );
    let runner = stage.run();
    until_offered(&stage, "probe").await;
    let id = stage.ask(Ask::new("probe", &json!({}))).await;
    stage.line("begun").await;
    std::fs::remove_dir_all(&folder).expect("removed");
    eventually("the tool to go", async || {
        let tools = stage.caller.tools().await;
        tools.iter().all(|(name, _)| name != "probe").then_some(())
    })
    .await;
    stage.write("go", "");
    assert_eq!(text_of(&stage.answer(&id).await), "old");
    let gone = stage.caller.have(Ask::new("probe", &json!({}))).await;
    assert_eq!(gone.verdict(), ("error", "unknown_tool"), "{gone:?}");
    assert!(gone.text().contains("plugin: going"), "{gone:?}");
    let pid = runner.pid().to_string();
    runner.terminate();
    runner.end().await;
    until("the end of the runner", || {
        !crate::harness::running::is_alive(&pid)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_call_ends_its_server() {
    let stage = Stage::new().await;
    let marker = marker(12);
    let waits = format!("echo begun > ${{PUNIE_WORKSPACES%%:*}}/begun; sleep {marker}");
    install(
        &stage,
        "slow",
        "paths = \"write\"",
        &server(&["probe"], &waits),
    );
    let runner = stage.run();
    until_offered(&stage, "probe").await;
    let id = stage.ask(Ask::new("probe", &json!({}))).await;
    stage.line("begun").await;
    stage.caller.cancel(&id).await;
    let answer = stage.answer(&id).await;
    assert_eq!(answer.outcome, "cancelled", "{answer:?}");
    until("the end of its processes", || {
        crate::harness::running::carrying(&marker).is_empty()
    })
    .await;
    runner.terminate();
    runner.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_of_a_killed_runner_left_ends_at_the_next_start() {
    let stage = Stage::new().await;
    let marker = marker(13);
    let waits = format!("echo begun > ${{PUNIE_WORKSPACES%%:*}}/begun; sleep {marker}");
    install(
        &stage,
        "left",
        "paths = \"write\"",
        &server(&["probe"], &waits),
    );
    let runner = stage.run();
    until_offered(&stage, "probe").await;
    let id = stage.ask(Ask::new("probe", &json!({}))).await;
    stage.line("begun").await;
    runner.kill();
    let next = stage.run();
    let answer = stage.answer(&id).await;
    assert_eq!(answer.verdict(), ("error", "interrupted"), "{answer:?}");
    until("the end of its processes", || {
        crate::harness::running::carrying(&marker).is_empty()
    })
    .await;
    next.terminate();
    next.end().await;
}
