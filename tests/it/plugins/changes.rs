//! Changes of plugins while the runner runs.

use serde_json::json;

use super::{install_plugin, process_marker, server_script, text_of, until_offered};
use crate::harness::caller::ToolCall;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_is_in_force_at_the_next_call() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let folder = install_plugin(
        &setup,
        "edited",
        "",
        &server_script(&["probe"], "source lib/say.sh"),
    );
    std::fs::create_dir(folder.join("lib")).expect("a folder");
    std::fs::write(folder.join("lib/say.sh"), "text one").expect("written");
    until_offered(&setup, "probe").await;
    let ask = async || setup.call_tool("probe", &json!({})).await;
    assert_eq!(text_of(&ask().await), "one");
    // The edited file is in a folder below the watched folders.
    std::fs::write(folder.join("lib/say.sh"), "text \"two and more\"").expect("written");
    assert_eq!(text_of(&ask().await), "two and more");
    let script = server_script(&["probe", "another"], "text three");
    std::fs::write(folder.join("server.sh"), script).expect("written");
    assert_eq!(text_of(&ask().await), "three");
    until_offered(&setup, "another").await;
    // The plugin now declares other access than the policy decided about.
    install_plugin(
        &setup,
        "edited",
        "paths = \"write\"",
        &server_script(&["probe"], "text four"),
    );
    wait_for_some("the new version", async || {
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
    let setup = RunnerFixture::new().await;
    let waits = "d=${PUNIE_WORKSPACES%%:*}; echo begun > $d/begun; until [[ -e $d/go ]]; do sleep 0.05; done; text old";
    let folder = install_plugin(
        &setup,
        "going",
        "paths = \"write\"",
        &server_script(&["probe"], waits),
    );
    let runner = setup.run();
    until_offered(&setup, "probe").await;
    let id = setup.ask(ToolCall::new("probe", &json!({}))).await;
    setup.wait_for_line_in("begun").await;
    std::fs::remove_dir_all(&folder).expect("removed");
    wait_for_some("the tool to go", async || {
        let tools = setup.caller.tools().await;
        tools.iter().all(|(name, _)| name != "probe").then_some(())
    })
    .await;
    setup.write("go", "");
    assert_eq!(text_of(&setup.answer(&id).await), "old");
    assert_contains!(
        setup
            .call_tool("probe", &json!({}))
            .await
            .expect_error("unknown_tool"),
        "plugin: going"
    );
    let pid = runner.pid().to_string();
    runner.terminate();
    runner.end().await;
    wait_until("the end of the runner", || {
        !crate::harness::running::is_alive(&pid)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_call_ends_its_server() {
    let setup = RunnerFixture::new().await;
    let marker = process_marker(12);
    let waits = format!("echo begun > ${{PUNIE_WORKSPACES%%:*}}/begun; sleep {marker}");
    install_plugin(
        &setup,
        "slow",
        "paths = \"write\"",
        &server_script(&["probe"], &waits),
    );
    let runner = setup.run();
    until_offered(&setup, "probe").await;
    let id = setup.ask(ToolCall::new("probe", &json!({}))).await;
    setup.wait_for_line_in("begun").await;
    setup.caller.cancel(&id).await;
    let answer = setup.answer(&id).await;
    assert_eq!(answer.outcome, "cancelled", "{answer:?}");
    wait_until("the end of its processes", || {
        crate::harness::running::processes_with_argument(&marker).is_empty()
    })
    .await;
    runner.terminate();
    runner.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_of_a_killed_runner_left_ends_at_the_next_start() {
    let setup = RunnerFixture::new().await;
    let marker = process_marker(13);
    let waits = format!("echo begun > ${{PUNIE_WORKSPACES%%:*}}/begun; sleep {marker}");
    install_plugin(
        &setup,
        "left",
        "paths = \"write\"",
        &server_script(&["probe"], &waits),
    );
    let runner = setup.run();
    until_offered(&setup, "probe").await;
    let id = setup.ask(ToolCall::new("probe", &json!({}))).await;
    setup.wait_for_line_in("begun").await;
    runner.kill();
    let next = setup.run();
    setup.answer(&id).await.expect_error("interrupted");
    wait_until("the end of its processes", || {
        crate::harness::running::processes_with_argument(&marker).is_empty()
    })
    .await;
    next.terminate();
    next.end().await;
}
