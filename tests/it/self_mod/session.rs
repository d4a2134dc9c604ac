//! A whole session: start, edit, status, apply, break something, revert, package.

use serde_json::json;

use super::{call_tool, edit_file, stage_with_files, start_change, text_of, write_file};
use crate::harness::caller::ToolCall;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_by_tools_alone_stages_applies_and_reverts() {
    let setup = stage_with_files().await;
    let _runner = setup.run();
    let feature = start_change(&setup).await;
    for name in ["a", "b", "c"] {
        edit_file(&setup, &format!("app/{name}.txt"), "one", "two").await;
    }
    write_file(&setup, "app/new/d.txt", "d two\n").await;

    // The agent sees its staged files. Other agents and conversations see the real files.
    let read = text_of(&setup, "Read", json!({"file_path": "app/a.txt"})).await;
    assert!(read.contains("a two"), "{read}");
    let glob = text_of(&setup, "Glob", json!({"pattern": "**/d.txt"})).await;
    assert!(glob.contains("app/new/d.txt"), "{glob}");
    let glob = text_of(&setup, "Glob", json!({"pattern": "*", "path": "app/new"})).await;
    assert!(glob.contains("d.txt"), "{glob}");
    let grep = text_of(
        &setup,
        "Grep",
        json!({"pattern": "two", "output_mode": "content"}),
    )
    .await;
    for found in ["a two", "b two", "c two", "d two"] {
        assert!(grep.contains(found), "{grep}");
    }
    let none = text_of(&setup, "Grep", json!({"pattern": "one"})).await;
    assert!(!none.contains("app/a.txt"), "{none}");
    let listed = text_of(&setup, "list_files", json!({"path": "app"})).await;
    assert!(
        listed.contains("new/") && listed.contains("4 entries"),
        "{listed}"
    );
    let listed = text_of(
        &setup,
        "list_files",
        json!({"path": ".", "recursive": true}),
    )
    .await;
    assert!(listed.contains("app/new/d.txt"), "{listed}");
    for other in [
        ToolCall::new("Read", &json!({"file_path": "app/a.txt"})).in_conversation("modding"),
        ToolCall::new("Read", &json!({"file_path": "app/a.txt"}))
            .in_conversation("elsewhere")
            .with("agentType", json!("self_mod")),
    ] {
        let id = setup.ask(other).await;
        assert!(setup.answer(&id).await.text().contains("a one"));
    }
    assert_eq!(setup.read("app/a.txt"), "a one\n");
    assert!(!setup.file("app/new").exists());

    let status = text_of(&setup, "SelfModStatus", json!({})).await;
    for line in [
        "Staged: 4 files",
        "M a.txt",
        "A new/d.txt",
        "newest first: 0",
    ] {
        assert!(status.contains(line), "{status}");
    }
    let applied = call_tool(&setup, "SelfModApply", json!({"message": "Two"})).await;
    assert_eq!(applied.outcome, "ok", "{applied:?}");
    assert_eq!(
        applied.payload["meta"]["files"].as_array().map(Vec::len),
        Some(4)
    );
    assert_eq!(setup.read("app/c.txt"), "c two\n");
    assert_eq!(setup.read("app/new/d.txt"), "d two\n");

    // Write refuses a file if the conversation has not read its present version.
    text_of(&setup, "Read", json!({"file_path": "app/a.txt"})).await;
    write_file(&setup, "app/a.txt", "broken\n").await;
    text_of(&setup, "SelfModApply", json!({})).await;
    assert_eq!(setup.read("app/a.txt"), "broken\n");
    let status = text_of(&setup, "SelfModStatus", json!({"feature_id": feature})).await;
    assert!(
        status.contains("batch 2: 1 file\nbatch 1: 4 files, Two"),
        "{status}"
    );
    let reverted = text_of(&setup, "SelfModRevert", json!({})).await;
    assert!(reverted.contains("Reverted 1 batch"), "{reverted}");
    assert_eq!(setup.read("app/a.txt"), "a two\n");

    let package = json!({"description": "Two", "implementation": "One became two"});
    let package = text_of(&setup, "SelfModPackage", package).await;
    let blueprint: serde_json::Value = serde_json::from_str(&package).expect("JSON");
    assert_eq!(blueprint["format"], "punie-blueprint-v1");
    let files = blueprint["referenceFiles"].as_array().expect("files");
    assert_eq!(files.len(), 4);
    assert_eq!(files[0]["action"], "modify");
    assert_ne!(files[0]["originalHash"], files[0]["newHash"]);
    assert_eq!(files[3]["action"], "create");
    assert_eq!(files[3]["content"], "d two\n");
    let status = text_of(&setup, "SelfModStatus", json!({})).await;
    assert!(status.contains(": packaged"), "{status}");

    text_of(&setup, "SelfModRevert", json!({"steps": 5})).await;
    assert_eq!(setup.read("app/b.txt"), "b one\n");
    assert!(
        !setup.file("app/new").exists(),
        "the revert must remove the file's folder"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tools_exist_only_with_a_root_and_their_state_lies_in_the_home() {
    let setup = stage_with_files().await;
    let runner = setup.run();
    start_change(&setup).await;
    assert!(setup.setting.home.join("mods/features").is_dir());
    drop(runner);
    setup.configure("root = \"app\"", "");
    let listed = setup.command(&["tools", "--json"]).await;
    assert!(!listed.out.contains("SelfMod"), "{}", listed.out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_outside_the_workspace_is_refused_at_the_start() {
    let setup = stage_with_files().await;
    setup.configure("root = \"app\"", "root = \"/usr\"");
    let refused = setup.run().end().await;
    assert_ne!(refused.code, Some(0));
    assert!(refused.log.contains("self_mod.root"), "{refused:?}");
}
