//! The undo of commands of a runner that runs: in the background, and beside another runner.

use serde_json::json;

use crate::harness::caller::Ask;
use crate::harness::process::Ended;
use crate::harness::stage::Stage;
use crate::harness::wait::{eventually, until};

async fn undo(stage: &Stage, id: &str) -> Ended {
    stage.command(&["undo", id]).await
}

fn names(stage: &Stage) -> Vec<String> {
    let entries = std::fs::read_dir(&stage.setting.workspace).expect("a folder");
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
    let stage = Stage::new().await;
    stage.write("kept", "before\n");
    let _runner = stage.run();
    let command =
        "echo early > early; until [ -e go ]; do sleep 0.02; done; echo late > kept; touch done";
    let args = json!({"command": command, "run_in_background": true, "description": "A test"});
    let id = stage.ask(Ask::new("Bash", &args)).await;
    assert_eq!(stage.answer(&id).await.outcome, "ok");
    stage.line("early").await;
    let refused = undo(&stage, &id).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.log.contains("still runs"), "{refused:?}");
    stage.write("go", "");
    until("its end", || stage.file("done").exists()).await;
    let undone = eventually("its change is recorded", async || {
        let said = undo(&stage, &id).await;
        (!said.log.contains("still runs")).then_some(said)
    })
    .await;
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert_eq!(
        (stage.read("kept").as_str(), names(&stage)),
        ("before\n", vec!["kept".to_owned()])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runners_in_one_folder_undo_each_its_own() {
    let (one, mut other) = (Stage::new().await, Stage::new().await);
    other.setting.workspace = one.setting.workspace.clone();
    let runners = [one.run(), other.run()];
    let mut ids = Vec::new();
    for number in 0..4 {
        let command = |who: &str| {
            Ask::bash(&format!(
                "echo {who} > {who}{number}; echo {number} > {who}"
            ))
        };
        for (stage, who) in [(&one, "one"), (&other, "other")] {
            let id = stage.ask(command(who)).await;
            assert_eq!(stage.answer(&id).await.outcome, "ok");
            ids.push((stage, id));
        }
    }
    for (stage, id) in ids.iter().rev() {
        let undone = undo(stage, id).await;
        assert_eq!(undone.code, Some(0), "{undone:?}");
    }
    assert!(names(&one).is_empty(), "{:?}", names(&one));
    drop(runners);
}
