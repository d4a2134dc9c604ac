//! Staged files: links, bytes, modes, names, removals, moves.

use std::os::unix::fs::PermissionsExt as _;

use punie_text::redact::MASK;
use serde_json::json;

use super::{call_tool, edit_file, read_tree, stage_with_files, start_change, text_of, write_file};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_are_no_text_survive_apply_revert_and_package() {
    let setup = stage_with_files().await;
    // Latin-1: the byte 0xE9 is not UTF-8.
    let old = b"caf\xE9 one\r\nna\xEFve\r\n";
    std::fs::write(setup.file("app/latin.txt"), old).expect("written");
    let _runner = setup.run();
    start_change(&setup).await;
    edit_file(&setup, "app/latin.txt", "one", "two").await;
    text_of(&setup, "SelfModApply", json!({})).await;
    let new = std::fs::read(setup.file("app/latin.txt")).expect("there");
    assert_eq!(new, b"caf\xE9 two\r\nna\xEFve\r\n");
    let package = json!({"description": "-", "implementation": "-"});
    let package = text_of(&setup, "SelfModPackage", package).await;
    assert!(package.contains(r#""encoding": "base64""#), "{package}");
    text_of(&setup, "SelfModRevert", json!({})).await;
    assert_eq!(
        std::fs::read(setup.file("app/latin.txt")).expect("there"),
        old
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_look_like_marks_are_ordinary_names() {
    let setup = stage_with_files().await;
    let _runner = setup.run();
    start_change(&setup).await;
    let names = [
        "x.__new__",
        "staged.json",
        "pending.json",
        "lock",
        "x.deleted",
    ];
    for name in names {
        write_file(&setup, &format!("app/{name}"), name).await;
    }
    let before = read_tree(&setup.file("app"));
    text_of(&setup, "SelfModApply", json!({})).await;
    for name in names {
        assert_eq!(setup.read(&format!("app/{name}")), name);
    }
    text_of(&setup, "SelfModRevert", json!({})).await;
    assert_eq!(read_tree(&setup.file("app")), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_leads_out_of_the_root_is_not_written_through() {
    let setup = stage_with_files().await;
    std::fs::create_dir(setup.file("other")).expect("made");
    setup.write("other/x.txt", "other\n");
    std::os::unix::fs::symlink("../other", setup.file("app/out")).expect("linked");
    std::os::unix::fs::symlink("../other/x.txt", setup.file("app/x.txt")).expect("linked");
    let _runner = setup.run();
    start_change(&setup).await;
    for file in ["app/out/x.txt", "app/out/new.txt", "app/x.txt"] {
        let args = json!({"file_path": file, "content": "changed\n"});
        let answer = call_tool(&setup, "Write", args).await;
        assert_eq!(
            answer.verdict(),
            ("error", "policy_denied"),
            "{file}: {answer:?}"
        );
    }
    assert_eq!(setup.read("other/x.txt"), "other\n");
    assert!(!setup.file("other/new.txt").exists());
    // By its own name the file lies outside the root, so it is an ordinary file.
    write_file(&setup, "other/x.txt", "real\n").await;
    assert_eq!(setup.read("other/x.txt"), "real\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_takes_a_files_place_before_apply_is_a_conflict() {
    let setup = stage_with_files().await;
    setup.write("other.txt", "a one\n");
    let _runner = setup.run();
    start_change(&setup).await;
    edit_file(&setup, "app/a.txt", "one", "two").await;
    std::fs::remove_file(setup.file("app/a.txt")).expect("removed");
    std::os::unix::fs::symlink("../other.txt", setup.file("app/a.txt")).expect("linked");
    let answer = call_tool(&setup, "SelfModApply", json!({})).await;
    assert_eq!(answer.outcome, "error", "{answer:?}");
    assert_eq!(setup.read("other.txt"), "a one\n");
    assert!(setup.file("app/a.txt").is_symlink());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removals_and_moves_are_staged_and_seen_by_searches() {
    let setup = stage_with_files().await;
    let before = read_tree(&setup.file("app"));
    let _runner = setup.run();
    start_change(&setup).await;
    let patch = "*** Begin Patch\n*** Delete File: app/a.txt\n*** Update File: app/b.txt\n\
                 *** Move to: app/moved/b.txt\n@@\n-b one\n+b two\n*** Add File: app/d.txt\n+d\n*** End Patch\n";
    text_of(&setup, "ApplyPatch", json!({ "patch": patch })).await;
    assert_eq!(read_tree(&setup.file("app")), before);
    let glob = text_of(&setup, "Glob", json!({"pattern": "app/**", "sort": "name"})).await;
    assert!(
        !glob.contains("a.txt") && !glob.contains("app/b.txt"),
        "{glob}"
    );
    for seen in ["app/c.txt", "app/d.txt", "app/moved/b.txt"] {
        assert!(glob.contains(seen), "{glob}");
    }
    let read = call_tool(&setup, "Read", json!({"file_path": "app/a.txt"})).await;
    assert_eq!(read.verdict(), ("error", "not_found"), "{read:?}");
    let listed = text_of(&setup, "list_files", json!({"path": "app"})).await;
    assert!(
        !listed.contains("a.txt") && listed.contains("moved/"),
        "{listed}"
    );
    let status = text_of(&setup, "SelfModStatus", json!({})).await;
    assert!(
        status.contains("D a.txt\nD b.txt\nA d.txt\nA moved/b.txt"),
        "{status}"
    );
    text_of(&setup, "SelfModApply", json!({})).await;
    assert_eq!(setup.read("app/moved/b.txt"), "b two\n");
    assert!(!setup.file("app/a.txt").exists() && !setup.file("app/b.txt").exists());
    text_of(&setup, "SelfModRevert", json!({})).await;
    assert_eq!(read_tree(&setup.file("app")), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn modes_are_kept_and_changed_as_asked() {
    let setup = stage_with_files().await;
    let mode = |name: &str| {
        let metadata = std::fs::metadata(setup.file(name)).expect("there");
        metadata.permissions().mode() & 0o777
    };
    let set = |name: &str, mode| {
        let bits = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(setup.file(name), bits).expect("set");
    };
    set("app/a.txt", 0o750);
    let _runner = setup.run();
    start_change(&setup).await;
    edit_file(&setup, "app/a.txt", "one", "two").await;
    let script = json!({"file_path": "app/run.sh", "content": "#!/bin/sh\n", "executable": true});
    text_of(&setup, "Write", script).await;
    text_of(&setup, "SelfModApply", json!({})).await;
    assert_eq!(mode("app/a.txt"), 0o750);
    assert_eq!(mode("app/run.sh") & 0o100, 0o100);
    text_of(&setup, "SelfModRevert", json!({})).await;
    assert_eq!(mode("app/a.txt"), 0o750);
    assert_eq!(setup.read("app/a.txt"), "a one\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_see_and_change_the_real_files() {
    let setup = stage_with_files().await;
    let _runner = setup.run();
    start_change(&setup).await;
    edit_file(&setup, "app/a.txt", "one", "two").await;
    let shown = text_of(&setup, "Bash", json!({"command": "cat app/a.txt"})).await;
    assert!(shown.contains("a one"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_file_can_be_made_again_and_moved_onto() {
    let setup = stage_with_files().await;
    let _runner = setup.run();
    start_change(&setup).await;
    let patch =
        "*** Begin Patch\n*** Delete File: app/a.txt\n*** Delete File: app/b.txt\n*** End Patch\n";
    text_of(&setup, "ApplyPatch", json!({ "patch": patch })).await;
    let args = json!({"file_path": "app/a.txt", "old_string": "", "new_string": "a again\n"});
    let made = text_of(&setup, "Edit", args).await;
    assert!(made.contains("Staged: SelfModApply writes it"), "{made}");
    let patch = "*** Begin Patch\n*** Update File: app/c.txt\n*** Move to: app/b.txt\n@@\n-c one\n+c two\n*** End Patch\n";
    text_of(&setup, "ApplyPatch", json!({ "patch": patch })).await;
    // A patch finds a file that is only staged, also by a name with a prefix.
    write_file(&setup, "app/new.txt", "new\n").await;
    let patch = "--- a/app/new.txt\n+++ b/app/new.txt\n@@ -1 +1 @@\n-new\n+newer\n";
    text_of(&setup, "ApplyPatch", json!({ "patch": patch })).await;
    assert_eq!(setup.read("app/a.txt"), "a one\n");
    text_of(&setup, "SelfModApply", json!({})).await;
    assert_eq!(setup.read("app/a.txt"), "a again\n");
    assert_eq!(setup.read("app/b.txt"), "c two\n");
    assert_eq!(setup.read("app/new.txt"), "newer\n");
    assert!(!setup.file("app/c.txt").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_patch_in_part_below_the_root_and_a_file_in_the_place_of_a_file_are_refused() {
    let setup = stage_with_files().await;
    setup.write("outside.txt", "one\n");
    let _runner = setup.run();
    start_change(&setup).await;
    let patch = "*** Begin Patch\n*** Update File: outside.txt\n@@\n-one\n+two\n*** Delete File: app/a.txt\n*** End Patch\n";
    let answer = call_tool(&setup, "ApplyPatch", json!({ "patch": patch })).await;
    assert_eq!(answer.verdict(), ("error", "invalid_args"), "{answer:?}");
    assert!(answer.text().contains("Split the patch"), "{answer:?}");
    assert_eq!(setup.read("outside.txt"), "one\n");
    let patch = "*** Begin Patch\n*** Delete File: app/a.txt\n*** End Patch\n";
    text_of(&setup, "ApplyPatch", json!({ "patch": patch })).await;
    let args = json!({"file_path": "app/a.txt/b.txt", "content": "b"});
    let answer = call_tool(&setup, "Write", args).await;
    assert_eq!(answer.outcome, "error", "{answer:?}");
    assert_eq!(setup.read("app/a.txt"), "a one\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_staged_change_is_told_as_staged_and_judged_by_the_staged_text() {
    let setup = stage_with_files().await;
    setup.write("app/a.txt", &format!("one {MASK}\n"));
    let _runner = setup.run();
    start_change(&setup).await;
    write_file(&setup, "app/a.txt", "two\n").await;
    // The mask is in the real file, but not in the staged text that this write would replace.
    let args = json!({"file_path": "app/a.txt", "content": format!("three {MASK}\n")});
    let answer = call_tool(&setup, "Write", args).await;
    assert_eq!(answer.verdict(), ("error", "invalid_args"), "{answer:?}");
    let patch = "*** Begin Patch\n*** Delete File: app/b.txt\n*** Update File: app/c.txt\n@@\n-c one\n+c two\n*** End Patch\n";
    let answer = call_tool(&setup, "ApplyPatch", json!({ "patch": patch })).await;
    assert_eq!(answer.outcome, "ok", "{answer:?}");
    assert_eq!(answer.text().matches("Staged: ").count(), 1, "{answer:?}");
    let files = answer.payload["meta"]["files"].as_array();
    assert_eq!(
        files.map_or(0, Vec::len),
        0,
        "no real file may change: {answer:?}"
    );
    let answer = call_tool(&setup, "Grep", json!({"pattern": "b", "path": "app/b.txt"})).await;
    assert_eq!(answer.verdict(), ("error", "not_found"), "{answer:?}");
    assert!(answer.text().contains("is removed"), "{answer:?}");
}
