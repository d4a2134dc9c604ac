//! What apply and revert refuse, and what is unchanged then.

use serde_json::json;

use super::{
    ask_of, call_tool, edit_file, read_tree, stage_with_files, start_change, text_of, write_file,
};
use crate::harness::caller::ToolCall;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w60_steps_that_are_no_number_of_batches_change_nothing() {
    let stage = stage_with_files().await;
    let _runner = stage.run();
    start_change(&stage).await;
    edit_file(&stage, "app/a.txt", "one", "two").await;
    text_of(&stage, "SelfModApply", json!({})).await;
    for steps in [json!("all"), json!(0), json!(-1), json!(1.5), json!([])] {
        let answer = call_tool(&stage, "SelfModRevert", json!({ "steps": steps })).await;
        assert_eq!(
            answer.verdict(),
            ("error", "invalid_args"),
            "{steps}: {answer:?}"
        );
    }
    assert_eq!(stage.read("app/a.txt"), "a two\n");
    let status = text_of(&stage, "SelfModStatus", json!({})).await;
    assert!(status.contains("newest first: 1"), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w60_a_later_change_of_the_user_is_a_conflict_and_all_batches_stay() {
    let stage = stage_with_files().await;
    let _runner = stage.run();
    start_change(&stage).await;
    for word in ["two", "three"] {
        write_file(&stage, "app/a.txt", word).await;
        write_file(&stage, "app/b.txt", word).await;
        text_of(&stage, "SelfModApply", json!({})).await;
    }
    stage.write("app/b.txt", "by the user\n");
    let before = read_tree(&stage.file("app"));
    let answer = call_tool(&stage, "SelfModRevert", json!({"steps": 2})).await;
    assert_eq!(answer.verdict(), ("error", "stale"), "{answer:?}");
    assert!(
        answer
            .text()
            .contains("b.txt: its content is another one now"),
        "{answer:?}"
    );
    assert!(!answer.text().contains("a.txt"), "{answer:?}");
    assert_eq!(read_tree(&stage.file("app")), before);
    stage.write("app/b.txt", "three");
    text_of(&stage, "SelfModRevert", json!({"steps": 2})).await;
    assert_eq!(stage.read("app/a.txt"), "a one\n");
    assert_eq!(stage.read("app/b.txt"), "b one\n");
    let answer = call_tool(&stage, "SelfModRevert", json!({})).await;
    assert_eq!(answer.verdict(), ("error", "not_found"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w57_apply_refuses_a_file_that_changed_since_it_was_staged() {
    let stage = stage_with_files().await;
    let _runner = stage.run();
    start_change(&stage).await;
    edit_file(&stage, "app/a.txt", "one", "two").await;
    edit_file(&stage, "app/b.txt", "one", "two").await;
    write_file(&stage, "app/d.txt", "d\n").await;
    stage.write("app/b.txt", "by the user\n");
    stage.write("app/d.txt", "by the user\n");
    let before = read_tree(&stage.file("app"));
    let answer = call_tool(&stage, "SelfModApply", json!({})).await;
    assert_eq!(answer.verdict(), ("error", "stale"), "{answer:?}");
    for conflict in ["b.txt: its content", "d.txt: it exists now"] {
        assert!(answer.text().contains(conflict), "{answer:?}");
    }
    assert_eq!(read_tree(&stage.file("app")), before);
    let dropped = text_of(&stage, "SelfModRevert", json!({"discard_staged": true})).await;
    assert!(dropped.contains("Dropped 3 staged files"), "{dropped}");
    assert_eq!(read_tree(&stage.file("app")), before);
    let read = text_of(&stage, "Read", json!({"file_path": "app/a.txt"})).await;
    assert!(read.contains("a one"), "{read}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w59_a_batch_id_is_never_used_again() {
    let stage = stage_with_files().await;
    let _runner = stage.run();
    start_change(&stage).await;
    edit_file(&stage, "app/a.txt", "one", "two").await;
    let first = text_of(&stage, "SelfModApply", json!({})).await;
    assert!(first.contains("batch 1 "), "{first}");
    text_of(&stage, "SelfModRevert", json!({})).await;
    stage.write("app/a.txt", "a user\n");
    edit_file(&stage, "app/a.txt", "user", "agent").await;
    write_file(&stage, "app/b.txt", "b agent\n").await;
    let second = text_of(&stage, "SelfModApply", json!({})).await;
    assert!(second.contains("batch 2 "), "{second}");
    // A dropped staging says nothing about applied batches.
    write_file(&stage, "app/c.txt", "never applied\n").await;
    text_of(&stage, "SelfModRevert", json!({"discard_staged": true})).await;
    text_of(&stage, "SelfModRevert", json!({})).await;
    assert_eq!(stage.read("app/a.txt"), "a user\n");
    assert_eq!(stage.read("app/b.txt"), "b one\n");
    assert_eq!(stage.read("app/c.txt"), "c one\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w57_one_damaged_feature_stops_neither_the_runner_nor_other_features() {
    let stage = stage_with_files().await;
    let runner = stage.run();
    let broken = start_change(&stage).await;
    edit_file(&stage, "app/a.txt", "one", "two").await;
    let record = |name: &str| {
        stage
            .setting
            .home
            .join(format!("mods/features/{broken}/{name}"))
    };
    for name in ["feature.json", "staged.json"] {
        std::fs::write(record(name), b"{\"sha256\":\"0").expect("written");
    }
    drop(runner);
    let _runner = stage.run();
    let answer = call_tool(&stage, "SelfModStatus", json!({})).await;
    assert_eq!(answer.outcome, "error", "{answer:?}");
    // Its agent changes no real file by mistake.
    let args = json!({"file_path": "app/a.txt", "content": "real\n"});
    let answer = call_tool(&stage, "Write", args.clone()).await;
    assert_eq!(answer.outcome, "error", "{answer:?}");
    assert_eq!(stage.read("app/a.txt"), "a one\n");
    for (tool, args) in [
        ("SelfModStart", json!({"name": "Other"})),
        ("Write", args),
        ("SelfModApply", json!({})),
    ] {
        let id = stage.ask(ask_of(tool, &args).of("other")).await;
        let answer = stage.answer(&id).await;
        assert_eq!(answer.outcome, "ok", "{tool}: {answer:?}");
    }
    assert_eq!(stage.read("app/a.txt"), "real\n");
    assert_eq!(
        std::fs::read(record("feature.json")).expect("there"),
        b"{\"sha256\":\"0"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_apply_is_undone_by_undo_like_another_write() {
    let stage = stage_with_files().await;
    let _runner = stage.run();
    start_change(&stage).await;
    edit_file(&stage, "app/a.txt", "one", "two").await;
    let id = stage.ask(ask_of("SelfModApply", &json!({}))).await;
    assert_eq!(stage.answer(&id).await.outcome, "ok");
    let undone = stage.command(&["undo", &id]).await;
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert_eq!(stage.read("app/a.txt"), "a one\n");
    let answer = call_tool(&stage, "SelfModRevert", json!({})).await;
    assert_eq!(answer.verdict(), ("error", "stale"), "{answer:?}");
    let id = stage
        .ask(ToolCall::new("Read", &json!({"file_path": "app/a.txt"})))
        .await;
    assert!(stage.answer(&id).await.text().contains("a one"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w60_a_change_of_the_user_between_two_batches_is_never_reverted_over() {
    let stage = stage_with_files().await;
    let _runner = stage.run();
    start_change(&stage).await;
    edit_file(&stage, "app/a.txt", "one", "two").await;
    text_of(&stage, "SelfModApply", json!({})).await;
    stage.write("app/a.txt", "by the user\n");
    edit_file(&stage, "app/a.txt", "user", "agent").await;
    text_of(&stage, "SelfModApply", json!({})).await;
    let answer = call_tool(&stage, "SelfModRevert", json!({"steps": 2})).await;
    assert_eq!(answer.verdict(), ("error", "stale"), "{answer:?}");
    assert!(
        answer.text().contains("between two of these batches"),
        "{answer:?}"
    );
    assert_eq!(stage.read("app/a.txt"), "by the agent\n");
    text_of(&stage, "SelfModRevert", json!({})).await;
    assert_eq!(stage.read("app/a.txt"), "by the user\n");
    let answer = call_tool(&stage, "SelfModRevert", json!({})).await;
    assert_eq!(answer.verdict(), ("error", "stale"), "{answer:?}");
    assert_eq!(stage.read("app/a.txt"), "by the user\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_feature_waits_until_nothing_is_staged() {
    let stage = stage_with_files().await;
    let _runner = stage.run();
    let first = start_change(&stage).await;
    edit_file(&stage, "app/a.txt", "one", "two").await;
    let answer = call_tool(&stage, "SelfModStart", json!({"name": "Other"})).await;
    assert_eq!(answer.verdict(), ("error", "invalid_args"), "{answer:?}");
    assert!(answer.text().contains("1 staged file"), "{answer:?}");
    // Another conversation does not drop them.
    let args = json!({"feature_id": first, "discard_staged": true});
    let id = stage.ask(ask_of("SelfModRevert", &args).of("other")).await;
    assert_eq!(stage.answer(&id).await.verdict(), ("error", "invalid_args"));
    // A file that is as it was counts no more, and the real one is seen again.
    edit_file(&stage, "app/a.txt", "two", "one").await;
    start_change(&stage).await;
    stage.write("app/a.txt", "by the user\n");
    let read = text_of(&stage, "Read", json!({"file_path": "app/a.txt"})).await;
    assert!(read.contains("by the user"), "{read}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feature_of_another_root_is_refused_there() {
    let stage = stage_with_files().await;
    std::fs::create_dir(stage.file("next")).expect("made");
    stage.write("next/a.txt", "a next\n");
    let runner = stage.run();
    start_change(&stage).await;
    edit_file(&stage, "app/a.txt", "one", "two").await;
    drop(runner);
    stage.configure("root = \"app\"", "root = \"next\"");
    let _runner = stage.run();
    for (tool, args) in [
        (
            "Write",
            json!({"file_path": "next/new.txt", "content": "x"}),
        ),
        ("SelfModApply", json!({})),
    ] {
        let answer = call_tool(&stage, tool, args).await;
        assert_eq!(answer.verdict(), ("error", "stale"), "{tool}: {answer:?}");
    }
    assert_eq!(stage.read("next/a.txt"), "a next\n");
    assert!(!stage.file("next/new.txt").exists());
    start_change(&stage).await;
    edit_file(&stage, "next/a.txt", "next", "agent").await;
    text_of(&stage, "SelfModApply", json!({})).await;
    assert_eq!(stage.read("next/a.txt"), "a agent\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_images_stay_while_a_record_is_missing() {
    let stage = stage_with_files().await;
    let runner = stage.run();
    let feature = start_change(&stage).await;
    edit_file(&stage, "app/a.txt", "one", "two").await;
    text_of(&stage, "SelfModApply", json!({})).await;
    drop(runner);
    let record = stage
        .setting
        .home
        .join(format!("mods/features/{feature}/feature.json"));
    let aside = stage.setting.home.join("aside");
    std::fs::rename(&record, &aside).expect("moved");
    let runner = stage.run();
    let id = stage
        .ask(ToolCall::new("Read", &json!({"file_path": "app/a.txt"})))
        .await;
    assert_eq!(stage.answer(&id).await.outcome, "ok");
    drop(runner);
    std::fs::rename(&aside, &record).expect("moved");
    let _runner = stage.run();
    text_of(&stage, "SelfModRevert", json!({})).await;
    assert_eq!(stage.read("app/a.txt"), "a one\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_would_make_a_repository_is_refused_and_leaves_nothing() {
    let stage = stage_with_files().await;
    let _runner = stage.run();
    start_change(&stage).await;
    for (file, content) in [
        ("HEAD", "ref: refs/heads/main\n"),
        ("objects/a", "a"),
        ("refs/b", "b"),
        ("config", "[core]\n\tfsmonitor = false\n"),
    ] {
        write_file(&stage, &format!("app/bare/{file}"), content).await;
    }
    let before = read_tree(&stage.file("app"));
    let answer = call_tool(&stage, "SelfModApply", json!({})).await;
    assert_eq!(answer.verdict(), ("error", "policy_denied"), "{answer:?}");
    assert_eq!(read_tree(&stage.file("app")), before);
}
