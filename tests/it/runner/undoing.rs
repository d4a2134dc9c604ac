//! Undo of commands while a runner runs: of commands in the background, and beside another runner.

use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::process::EndedProgram;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

async fn run_undo(setup: &RunnerFixture, id: &str) -> EndedProgram {
    setup.command(&["undo", id]).await
}

fn file_names(setup: &RunnerFixture) -> Vec<String> {
    let entries = std::fs::read_dir(&setup.setting.workspace).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_background_command_is_one_change_from_its_start_to_its_end() {
    let setup = RunnerFixture::new().await;
    setup.write("kept", "before\n");
    let _runner = setup.run();
    let command =
        "echo early > early; until [ -e go ]; do sleep 0.02; done; echo late > kept; touch done";
    let args = json!({"command": command, "run_in_background": true, "description": "A test"});
    let id = setup.ask(ToolCall::new("Bash", &args)).await;
    setup.answer(&id).await.expect_ok();
    setup.wait_for_line_in("early").await;
    let refused = run_undo(&setup, &id).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert_contains!(refused.log, "still runs");
    setup.write("go", "");
    wait_until("its end", || setup.file("done").exists()).await;
    let undone = wait_for_some("its change is recorded", async || {
        let said = run_undo(&setup, &id).await;
        (!said.log.contains("still runs")).then_some(said)
    })
    .await;
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert_eq!(setup.read("kept"), "before\n");
    assert_eq!(file_names(&setup), vec!["kept".to_owned()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runners_in_one_folder_undo_each_its_own() {
    let one = RunnerFixture::new().await;
    let mut other = RunnerFixture::new().await;
    other.setting.workspace = one.setting.workspace.clone();
    let runners = [one.run(), other.run()];
    let mut ids = Vec::new();
    for number in 0..4 {
        let command = |who: &str| {
            ToolCall::bash(&format!(
                "echo {who} > {who}{number}; echo {number} > {who}"
            ))
        };
        for (setup, who) in [(&one, "one"), (&other, "other")] {
            let id = setup.ask(command(who)).await;
            setup.answer(&id).await.expect_ok();
            ids.push((setup, id));
        }
    }
    for (setup, id) in ids.iter().rev() {
        let undone = run_undo(setup, id).await;
        assert_eq!(undone.code, Some(0), "{undone:?}");
    }
    assert!(file_names(&one).is_empty(), "{:?}", file_names(&one));
    drop(runners);
}
