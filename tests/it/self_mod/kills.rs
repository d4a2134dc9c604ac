//! A kill of the runner at each step of apply and revert: the next process finds the old state or the new one.

use punie_engine::journal::RequestState;
use serde_json::{Value, json};

use super::{ask_of, edit_file, read_tree, stage_with_files, start_change, text_of, write_file};
use crate::harness::caller::ToolCall;
use crate::harness::relay::Relay;
use crate::harness::stage::RunnerFixture;

/// The failpoints of all steps, in the order of the steps. Apply and revert change three files.
const POINTS: &[&str] = &[
    "selfmod.recorded=kill",
    "selfmod.beside=kill@1",
    "selfmod.beside=kill@2",
    "selfmod.beside=kill@3",
    "selfmod.committed=kill",
    "selfmod.placed=kill@1",
    "selfmod.placed=kill@2",
    "selfmod.placed=kill@3",
    "selfmod.finished=kill",
    "selfmod.ended=kill",
];

type Tree = Vec<(String, Vec<u8>)>;

/// Stages a change, an addition and a removal.
async fn stage_changes(setup: &RunnerFixture) {
    start_change(setup).await;
    edit_file(setup, "app/a.txt", "one", "two").await;
    write_file(setup, "app/new/d.txt", "d\n").await;
    let patch = "*** Begin Patch\n*** Delete File: app/b.txt\n*** End Patch\n";
    text_of(setup, "ApplyPatch", json!({ "patch": patch })).await;
}

/// Kills the runner at a failpoint of this request. Checks that the next runner completes the new state.
async fn kill_and_recover(setup: &RunnerFixture, point: &str, ask: ToolCall, new: &Tree) {
    let relay = Relay::before(&setup.setting.url).await;
    let armed = setup.run_armed(&relay.url, point);
    let id = setup.ask(ask).await;
    let ended = armed.end().await;
    assert_eq!(ended.code, None, "{point} was not reached: {ended:?}");
    let left = read_tree(&setup.file("app"));
    let listed = setup.command(&["tools"]).await;
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert_eq!(
        read_tree(&setup.file("app")),
        left,
        "{point}: listing the tools must change no file"
    );
    let runner = setup.run_at(&relay.url);
    let answer = setup.answer(&id).await;
    assert_eq!(answer.outcome, "ok", "{point}: {answer:?}");
    assert_eq!(read_tree(&setup.file("app")), *new, "{point}");
    setup.wait_for_state(&id, RequestState::Delivered).await;
    assert_eq!(relay.posts(&id).1, 1, "{point}: one result must be stored");
    drop(runner);
    let scratch = std::fs::read_dir(setup.setting.home.join("mods/scratch")).expect("a folder");
    assert_eq!(scratch.count(), 0, "{point}");
    let pending = std::fs::read(setup.setting.home.join("mods/pending.json")).expect("there");
    let pending: Value = serde_json::from_slice(&pending).expect("JSON");
    assert_eq!(pending["data"], Value::Null, "{point}");
}

async fn apply_survives(point: &str) {
    let setup = stage_with_files().await;
    let old = read_tree(&setup.file("app"));
    let runner = setup.run();
    stage_changes(&setup).await;
    drop(runner);
    let mut new: Tree = old.clone();
    new.retain(|(name, _)| name != "b.txt");
    new[0].1 = b"a two\n".to_vec();
    new.push(("new".to_owned(), Vec::new()));
    new.push(("new/d.txt".to_owned(), b"d\n".to_vec()));
    kill_and_recover(&setup, point, ask_of("SelfModApply", &json!({})), &new).await;
    let _runner = setup.run();
    let status = text_of(&setup, "SelfModStatus", json!({})).await;
    assert!(
        status.contains("Staged: 0 files\nApplied, newest first: 1\nbatch 1: 3 files"),
        "{status}"
    );
    text_of(&setup, "SelfModRevert", json!({})).await;
    assert_eq!(read_tree(&setup.file("app")), old, "{point}");
}

async fn revert_survives(point: &str) {
    let setup = stage_with_files().await;
    let old = read_tree(&setup.file("app"));
    let runner = setup.run();
    stage_changes(&setup).await;
    text_of(&setup, "SelfModApply", json!({})).await;
    drop(runner);
    kill_and_recover(&setup, point, ask_of("SelfModRevert", &json!({})), &old).await;
    let _runner = setup.run();
    let status = text_of(&setup, "SelfModStatus", json!({})).await;
    assert!(
        status.contains(": reverted") && status.contains("newest first: 0"),
        "{status}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `.ci/run` runs it"]
async fn a_kill_at_any_step_of_apply_leaves_the_old_or_the_new_state() {
    for point in POINTS {
        apply_survives(point).await;
    }
    apply_survives("selfmod.cleared=kill").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `.ci/run` runs it"]
async fn a_kill_at_any_step_of_revert_leaves_the_old_or_the_new_state() {
    for point in POINTS {
        revert_survives(point).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_staged_write_that_a_kill_cut_off_is_made_once() {
    let setup = stage_with_files().await;
    let runner = setup.run();
    start_change(&setup).await;
    edit_file(&setup, "app/a.txt", "one", "x").await;
    drop(runner);
    let relay = Relay::before(&setup.setting.url).await;
    let armed = setup.run_armed(&relay.url, "selfmod.written=kill");
    let args = json!({"file_path": "app/a.txt", "old_string": "x", "new_string": "xx"});
    let id = setup.ask(ask_of("Edit", &args)).await;
    assert_eq!(armed.end().await.code, None);
    let _runner = setup.run_at(&relay.url);
    assert_eq!(setup.answer(&id).await.outcome, "ok");
    let plain = text_of(&setup, "read_file", json!({"path": "app/a.txt"})).await;
    assert!(
        plain.contains("a xx\n") && !plain.contains("xxx"),
        "{plain}"
    );
    assert_eq!(setup.read("app/a.txt"), "a one\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_the_user_changed_after_the_kill_is_left_and_the_rest_taken_back() {
    let setup = stage_with_files().await;
    let runner = setup.run();
    stage_changes(&setup).await;
    drop(runner);
    let relay = Relay::before(&setup.setting.url).await;
    let armed = setup.run_armed(&relay.url, "selfmod.placed=kill@1");
    let id = setup.ask(ask_of("SelfModApply", &json!({}))).await;
    assert_eq!(armed.end().await.code, None);
    assert_eq!(setup.read("app/a.txt"), "a two\n");
    setup.write("app/b.txt", "by the user\n");
    let _runner = setup.run_at(&relay.url);
    let answer = setup.answer(&id).await;
    assert_ne!(answer.outcome, "ok", "{answer:?}");
    assert_eq!(setup.read("app/a.txt"), "a one\n");
    assert_eq!(setup.read("app/b.txt"), "by the user\n");
    assert!(!setup.file("app/new").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_kill_while_the_change_is_finished_or_taken_back_leaves_one_of_the_two_states() {
    for (is_changed, point) in [
        (false, "selfmod.completed=kill@1"),
        (false, "selfmod.completed=kill@2"),
        (true, "selfmod.taken_back=kill@1"),
    ] {
        let setup = stage_with_files().await;
        let runner = setup.run();
        stage_changes(&setup).await;
        drop(runner);
        let relay = Relay::before(&setup.setting.url).await;
        let armed = setup.run_armed(&relay.url, "selfmod.placed=kill@1");
        let id = setup.ask(ask_of("SelfModApply", &json!({}))).await;
        assert_eq!(armed.end().await.code, None);
        if is_changed {
            setup.write("app/b.txt", "by the user\n");
        }
        let ended = setup.run_armed(&relay.url, point).end().await;
        assert_eq!(ended.code, None, "{point} was not reached: {ended:?}");
        let _runner = setup.run_at(&relay.url);
        let answer = setup.answer(&id).await;
        assert_eq!(answer.outcome == "ok", !is_changed, "{point}: {answer:?}");
        let expected = if is_changed {
            ("a one\n", "by the user\n")
        } else {
            ("a two\n", "")
        };
        let b = std::fs::read_to_string(setup.file("app/b.txt")).unwrap_or_default();
        assert_eq!(
            (setup.read("app/a.txt").as_str(), b.as_str()),
            expected,
            "{point}"
        );
        assert_eq!(setup.file("app/new/d.txt").exists(), !is_changed, "{point}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_staged_patch_that_a_kill_cut_off_changes_no_real_file() {
    let setup = stage_with_files().await;
    let runner = setup.run();
    start_change(&setup).await;
    write_file(&setup, "app/new.txt", "new\n").await;
    drop(runner);
    let old = read_tree(&setup.file("app"));
    let patch = "*** Begin Patch\n*** Delete File: app/new.txt\n*** Delete File: app/b.txt\n*** Update File: app/a.txt\n@@\n\
                 -a one\n+a two\n*** End Patch\n";
    let relay = Relay::before(&setup.setting.url).await;
    let armed = setup.run_armed(&relay.url, "selfmod.written=kill");
    let id = setup
        .ask(ask_of("ApplyPatch", &json!({ "patch": patch })))
        .await;
    assert_eq!(armed.end().await.code, None);
    let _runner = setup.run_at(&relay.url);
    let answer = setup.answer(&id).await;
    assert_eq!(answer.outcome, "ok", "{answer:?}");
    assert_eq!(read_tree(&setup.file("app")), old);
    let status = text_of(&setup, "SelfModStatus", json!({})).await;
    assert!(
        status.contains("Staged: 2 files\nM a.txt\nD b.txt"),
        "{status}"
    );
}
