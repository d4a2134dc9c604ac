//! Applies and reverts that the runner refuses, and the files that stay unchanged.

use serde_json::json;

use super::{
    ask_of, call_tool, edit_file, read_tree, stage_with_files, start_change, text_of, write_file,
};
use crate::harness::caller::ToolCall;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_that_are_no_number_of_batches_change_nothing() {
    let setup = stage_with_files().await;
    let _runner = setup.run();
    start_change(&setup).await;
    edit_file(&setup, "app/a.txt", "one", "two").await;
    text_of(&setup, "SelfModApply", json!({})).await;
    for steps in [json!("all"), json!(0), json!(-1), json!(1.5), json!([])] {
        let answer = call_tool(&setup, "SelfModRevert", json!({ "steps": steps })).await;
        assert_eq!(
            answer.verdict(),
            ("error", "invalid_args"),
            "{steps}: {answer:?}"
        );
    }
    assert_eq!(setup.read("app/a.txt"), "a two\n");
    let status = text_of(&setup, "SelfModStatus", json!({})).await;
    assert!(status.contains("newest first: 1"), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_change_of_the_user_is_a_conflict_and_all_batches_stay() {
    let setup = stage_with_files().await;
    let _runner = setup.run();
    start_change(&setup).await;
    for word in ["two", "three"] {
        write_file(&setup, "app/a.txt", word).await;
        write_file(&setup, "app/b.txt", word).await;
        text_of(&setup, "SelfModApply", json!({})).await;
    }
    setup.write("app/b.txt", "by the user\n");
    let before = read_tree(&setup.file("app"));
    let answer = call_tool(&setup, "SelfModRevert", json!({"steps": 2})).await;
    assert_eq!(answer.verdict(), ("error", "stale"), "{answer:?}");
    assert!(
        answer
            .text()
            .contains("b.txt: its content is another one now"),
        "{answer:?}"
    );
    assert!(!answer.text().contains("a.txt"), "{answer:?}");
    assert_eq!(read_tree(&setup.file("app")), before);
    setup.write("app/b.txt", "three");
    text_of(&setup, "SelfModRevert", json!({"steps": 2})).await;
    assert_eq!(setup.read("app/a.txt"), "a one\n");
    assert_eq!(setup.read("app/b.txt"), "b one\n");
    let answer = call_tool(&setup, "SelfModRevert", json!({})).await;
    assert_eq!(answer.verdict(), ("error", "not_found"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apply_refuses_a_file_that_changed_since_it_was_staged() {
    let setup = stage_with_files().await;
    let _runner = setup.run();
    start_change(&setup).await;
    edit_file(&setup, "app/a.txt", "one", "two").await;
    edit_file(&setup, "app/b.txt", "one", "two").await;
    write_file(&setup, "app/d.txt", "d\n").await;
    setup.write("app/b.txt", "by the user\n");
    setup.write("app/d.txt", "by the user\n");
    let before = read_tree(&setup.file("app"));
    let answer = call_tool(&setup, "SelfModApply", json!({})).await;
    assert_eq!(answer.verdict(), ("error", "stale"), "{answer:?}");
    for conflict in ["b.txt: its content", "d.txt: it exists now"] {
        assert!(answer.text().contains(conflict), "{answer:?}");
    }
    assert_eq!(read_tree(&setup.file("app")), before);
    let dropped = text_of(&setup, "SelfModRevert", json!({"discard_staged": true})).await;
    assert!(dropped.contains("Dropped 3 staged files"), "{dropped}");
    assert_eq!(read_tree(&setup.file("app")), before);
    let read = text_of(&setup, "Read", json!({"file_path": "app/a.txt"})).await;
    assert!(read.contains("a one"), "{read}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_id_is_never_used_again() {
    let setup = stage_with_files().await;
    let _runner = setup.run();
    start_change(&setup).await;
    edit_file(&setup, "app/a.txt", "one", "two").await;
    let first = text_of(&setup, "SelfModApply", json!({})).await;
    assert!(first.contains("batch 1 "), "{first}");
    text_of(&setup, "SelfModRevert", json!({})).await;
    setup.write("app/a.txt", "a user\n");
    edit_file(&setup, "app/a.txt", "user", "agent").await;
    write_file(&setup, "app/b.txt", "b agent\n").await;
    let second = text_of(&setup, "SelfModApply", json!({})).await;
    assert!(second.contains("batch 2 "), "{second}");
    // Dropping staged files does not affect applied batches.
    write_file(&setup, "app/c.txt", "never applied\n").await;
    text_of(&setup, "SelfModRevert", json!({"discard_staged": true})).await;
    text_of(&setup, "SelfModRevert", json!({})).await;
    assert_eq!(setup.read("app/a.txt"), "a user\n");
    assert_eq!(setup.read("app/b.txt"), "b one\n");
    assert_eq!(setup.read("app/c.txt"), "c one\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_damaged_feature_stops_neither_the_runner_nor_other_features() {
    let setup = stage_with_files().await;
    let runner = setup.run();
    let broken = start_change(&setup).await;
    edit_file(&setup, "app/a.txt", "one", "two").await;
    let record = |name: &str| {
        setup
            .setting
            .home
            .join(format!("mods/features/{broken}/{name}"))
    };
    for name in ["feature.json", "staged.json"] {
        std::fs::write(record(name), b"{\"sha256\":\"0").expect("written");
    }
    drop(runner);
    let _runner = setup.run();
    let answer = call_tool(&setup, "SelfModStatus", json!({})).await;
    assert_eq!(answer.outcome, "error", "{answer:?}");
    // The feature's agent cannot change a real file by mistake.
    let args = json!({"file_path": "app/a.txt", "content": "real\n"});
    let answer = call_tool(&setup, "Write", args.clone()).await;
    assert_eq!(answer.outcome, "error", "{answer:?}");
    assert_eq!(setup.read("app/a.txt"), "a one\n");
    for (tool, args) in [
        ("SelfModStart", json!({"name": "Other"})),
        ("Write", args),
        ("SelfModApply", json!({})),
    ] {
        let id = setup
            .ask(ask_of(tool, &args).in_conversation("other"))
            .await;
        let answer = setup.answer(&id).await;
        assert_eq!(answer.outcome, "ok", "{tool}: {answer:?}");
    }
    assert_eq!(setup.read("app/a.txt"), "real\n");
    assert_eq!(
        std::fs::read(record("feature.json")).expect("there"),
        b"{\"sha256\":\"0"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_apply_is_undone_by_undo_like_another_write() {
    let setup = stage_with_files().await;
    let _runner = setup.run();
    start_change(&setup).await;
    edit_file(&setup, "app/a.txt", "one", "two").await;
    let id = setup.ask(ask_of("SelfModApply", &json!({}))).await;
    assert_eq!(setup.answer(&id).await.outcome, "ok");
    let undone = setup.command(&["undo", &id]).await;
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert_eq!(setup.read("app/a.txt"), "a one\n");
    let answer = call_tool(&setup, "SelfModRevert", json!({})).await;
    assert_eq!(answer.verdict(), ("error", "stale"), "{answer:?}");
    let id = setup
        .ask(ToolCall::new("Read", &json!({"file_path": "app/a.txt"})))
        .await;
    assert!(setup.answer(&id).await.text().contains("a one"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_user_between_two_batches_is_never_reverted_over() {
    let setup = stage_with_files().await;
    let _runner = setup.run();
    start_change(&setup).await;
    edit_file(&setup, "app/a.txt", "one", "two").await;
    text_of(&setup, "SelfModApply", json!({})).await;
    setup.write("app/a.txt", "by the user\n");
    edit_file(&setup, "app/a.txt", "user", "agent").await;
    text_of(&setup, "SelfModApply", json!({})).await;
    let answer = call_tool(&setup, "SelfModRevert", json!({"steps": 2})).await;
    assert_eq!(answer.verdict(), ("error", "stale"), "{answer:?}");
    assert!(
        answer.text().contains("between two of these batches"),
        "{answer:?}"
    );
    assert_eq!(setup.read("app/a.txt"), "by the agent\n");
    text_of(&setup, "SelfModRevert", json!({})).await;
    assert_eq!(setup.read("app/a.txt"), "by the user\n");
    let answer = call_tool(&setup, "SelfModRevert", json!({})).await;
    assert_eq!(answer.verdict(), ("error", "stale"), "{answer:?}");
    assert_eq!(setup.read("app/a.txt"), "by the user\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_feature_waits_until_nothing_is_staged() {
    let setup = stage_with_files().await;
    let _runner = setup.run();
    let first = start_change(&setup).await;
    edit_file(&setup, "app/a.txt", "one", "two").await;
    let answer = call_tool(&setup, "SelfModStart", json!({"name": "Other"})).await;
    assert_eq!(answer.verdict(), ("error", "invalid_args"), "{answer:?}");
    assert!(answer.text().contains("1 staged file"), "{answer:?}");
    // Another conversation cannot drop the staged files.
    let args = json!({"feature_id": first, "discard_staged": true});
    let id = setup
        .ask(ask_of("SelfModRevert", &args).in_conversation("other"))
        .await;
    assert_eq!(setup.answer(&id).await.verdict(), ("error", "invalid_args"));
    // A staged file that equals the real one counts no more, and the agent sees the real file again.
    edit_file(&setup, "app/a.txt", "two", "one").await;
    start_change(&setup).await;
    setup.write("app/a.txt", "by the user\n");
    let read = text_of(&setup, "Read", json!({"file_path": "app/a.txt"})).await;
    assert!(read.contains("by the user"), "{read}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feature_of_another_root_is_refused_there() {
    let setup = stage_with_files().await;
    std::fs::create_dir(setup.file("next")).expect("made");
    setup.write("next/a.txt", "a next\n");
    let runner = setup.run();
    start_change(&setup).await;
    edit_file(&setup, "app/a.txt", "one", "two").await;
    drop(runner);
    setup.configure("root = \"app\"", "root = \"next\"");
    let _runner = setup.run();
    for (tool, args) in [
        (
            "Write",
            json!({"file_path": "next/new.txt", "content": "x"}),
        ),
        ("SelfModApply", json!({})),
    ] {
        let answer = call_tool(&setup, tool, args).await;
        assert_eq!(answer.verdict(), ("error", "stale"), "{tool}: {answer:?}");
    }
    assert_eq!(setup.read("next/a.txt"), "a next\n");
    assert!(!setup.file("next/new.txt").exists());
    start_change(&setup).await;
    edit_file(&setup, "next/a.txt", "next", "agent").await;
    text_of(&setup, "SelfModApply", json!({})).await;
    assert_eq!(setup.read("next/a.txt"), "a agent\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_images_stay_while_a_record_is_missing() {
    let setup = stage_with_files().await;
    let runner = setup.run();
    let feature = start_change(&setup).await;
    edit_file(&setup, "app/a.txt", "one", "two").await;
    text_of(&setup, "SelfModApply", json!({})).await;
    drop(runner);
    let record = setup
        .setting
        .home
        .join(format!("mods/features/{feature}/feature.json"));
    let aside = setup.setting.home.join("aside");
    std::fs::rename(&record, &aside).expect("moved");
    let runner = setup.run();
    let id = setup
        .ask(ToolCall::new("Read", &json!({"file_path": "app/a.txt"})))
        .await;
    assert_eq!(setup.answer(&id).await.outcome, "ok");
    drop(runner);
    std::fs::rename(&aside, &record).expect("moved");
    let _runner = setup.run();
    text_of(&setup, "SelfModRevert", json!({})).await;
    assert_eq!(setup.read("app/a.txt"), "a one\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_would_make_a_repository_is_refused_and_leaves_nothing() {
    let setup = stage_with_files().await;
    let _runner = setup.run();
    start_change(&setup).await;
    for (file, content) in [
        ("HEAD", "ref: refs/heads/main\n"),
        ("objects/a", "a"),
        ("refs/b", "b"),
        ("config", "[core]\n\tfsmonitor = false\n"),
    ] {
        write_file(&setup, &format!("app/bare/{file}"), content).await;
    }
    let before = read_tree(&setup.file("app"));
    let answer = call_tool(&setup, "SelfModApply", json!({})).await;
    assert_eq!(answer.verdict(), ("error", "policy_denied"), "{answer:?}");
    assert_eq!(read_tree(&setup.file("app")), before);
}
