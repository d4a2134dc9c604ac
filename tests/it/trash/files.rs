//! Files that the file tools change come back.

use serde_json::json;

use super::{OwnerFixture, run_command};

#[test]
fn a_write_is_taken_back_with_its_mode_and_a_new_file_goes() {
    let owner = OwnerFixture::new();
    owner.write("work/run.sh", "#!/bin/sh\necho before\n");
    owner.set_mode("work/run.sh", 0o750);
    let changed = owner.call_write("run.sh", "#!/bin/sh\necho after\n");
    let made = owner.call_write("new/file.txt", "new\n");
    owner.undo_request(&changed);
    assert_eq!(owner.read("work/run.sh"), "#!/bin/sh\necho before\n");
    assert_eq!(owner.mode("work/run.sh"), 0o750);
    owner.undo_request(&made);
    assert!(!owner.path("work/new/file.txt").exists());
    let left: Vec<_> = std::fs::read_dir(owner.path("work"))
        .expect("there")
        .collect();
    assert_eq!(left.len(), 2, "no other file is left: {left:?}");
}

#[test]
fn every_tool_that_writes_is_taken_back() {
    let owner = OwnerFixture::new();
    owner.write("work/a.txt", "one\ntwo\n");
    let edits =
        json!([{"old_string": "one", "new_string": "1"}, {"old_string": "two", "new_string": "2"}]);
    for (tool, args) in cases! {
        ("Write", json!({"file_path": "a.txt", "content": "x"})),
        ("Write", json!({"file_path": "a.txt", "content": "one\ntwo\n", "executable": true})),
        ("write_file", json!({"path": "a.txt", "content": "x"})),
        ("Edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "1"})),
        ("MultiEdit", json!({"file_path": "a.txt", "edits": edits})),
    } {
        let (request, _) = owner.calls(tool, &args);
        assert!(
            owner.read("work/a.txt") != "one\ntwo\n" || owner.mode("work/a.txt") & 0o100 != 0,
            "{tool}"
        );
        owner.undo_request(&request);
        assert_eq!(owner.read("work/a.txt"), "one\ntwo\n", "{tool}");
        assert_eq!(owner.mode("work/a.txt") & 0o100, 0, "{tool}");
    }
}

#[test]
fn a_patch_is_taken_back_whole() {
    let owner = OwnerFixture::new();
    owner.write("work/edited.txt", "one\ntwo\n");
    owner.write("work/deleted.txt", "gone soon\n");
    owner.set_mode("work/deleted.txt", 0o700);
    owner.write("work/moved.txt", "stays the same\n");
    owner.write("work/both.txt", "a\nb\n");
    let patch = "*** Begin Patch\n*** Update File: edited.txt\n@@\n-one\n+1\n two\n*** Delete File: deleted.txt\n\
                 *** Update File: moved.txt\n*** Move to: far/away.txt\n*** Update File: both.txt\n*** Move to: far/both.txt\n\
                 @@\n-a\n+A\n b\n*** Add File: added.txt\n+added\n*** End Patch\n";
    let (request, _) = owner.calls("ApplyPatch", &json!({"patch": patch}));
    assert!(owner.path("work/far/away.txt").exists() && !owner.path("work/deleted.txt").exists());
    let short = &request[request.len() - 8..];
    let planned = owner.run_cli(&["undo", short, "--dry-run"]);
    assert!(
        planned.code == 0
            && planned.out.starts_with(&format!(
                "Undoing {short} would do this; nothing was changed"
            )),
        "{planned:?}"
    );
    assert!(
        owner.path("work/added.txt").exists(),
        "a dry run does nothing"
    );
    owner.undo_request(&request);
    assert_eq!(owner.read("work/edited.txt"), "one\ntwo\n");
    assert_eq!(owner.read("work/deleted.txt"), "gone soon\n");
    assert_eq!(owner.mode("work/deleted.txt"), 0o700);
    assert_eq!(owner.read("work/moved.txt"), "stays the same\n");
    assert_eq!(owner.read("work/both.txt"), "a\nb\n");
    for gone in ["added.txt", "far/away.txt", "far/both.txt"] {
        assert!(!owner.path("work").join(gone).exists(), "{gone}");
    }
    owner.assert_undo_refused(&request, "was undone already, at 20");
}

#[test]
fn what_changed_since_is_not_overwritten_and_nothing_else_is_either() {
    let owner = OwnerFixture::new();
    owner.write("work/a.txt", "a\n");
    owner.write("work/b.txt", "b\n");
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+A\n*** Update File: b.txt\n@@\n-b\n+B\n*** End Patch\n";
    let (request, _) = owner.calls("ApplyPatch", &json!({"patch": patch}));
    owner.write("work/b.txt", "by hand\n");
    owner.assert_undo_refused(&request, "b.txt was changed since");
    assert_eq!(owner.read("work/a.txt"), "A\n");
    assert_eq!(owner.read("work/b.txt"), "by hand\n");
    std::fs::remove_file(owner.path("work/b.txt")).expect("there");
    owner.assert_undo_refused(&request, "b.txt is not there any more");
    owner.write("elsewhere.txt", "B\n");
    std::os::unix::fs::symlink(owner.path("elsewhere.txt"), owner.path("work/b.txt"))
        .expect("linked");
    owner.assert_undo_refused(&request, "b.txt is a link now");
    assert_eq!(owner.read("work/a.txt"), "A\n");
    assert_eq!(owner.read("elsewhere.txt"), "B\n");
    std::fs::remove_file(owner.path("work/b.txt")).expect("there");
    owner.write("work/b.txt", "B\n");
    owner.undo_request(&request);
    assert_eq!(owner.read("work/a.txt"), "a\n");
    assert_eq!(owner.read("work/b.txt"), "b\n");
}

#[test]
fn of_two_requests_on_a_file_the_later_is_undone_first() {
    let owner = OwnerFixture::new();
    owner.write("work/a.txt", "one\n");
    let first = owner.call_write("a.txt", "two\n");
    let second = owner.call_write("a.txt", "three\n");
    owner.assert_undo_refused(
        &first,
        &format!("by request {second} (Write): undo that one first"),
    );
    let short = &first[first.len() - 8..];
    owner.assert_undo_refused(&first, &format!("trash restore {short} --to DIR"));
    owner.assert_undo_refused("99999999", "the journal knows no request \"99999999\"");
    owner.undo_request(&second);
    owner.undo_request(&first);
    assert_eq!(owner.read("work/a.txt"), "one\n");
}

#[test]
fn a_call_that_was_cut_off_before_it_changed_anything_leaves_nothing_to_undo() {
    let owner = OwnerFixture::new();
    owner.write("work/a.txt", "one\n");
    let args = json!({"file_path": "a.txt", "content": "two\n"}).to_string();
    let cut = run_command(
        owner
            .command(&["call", "Write", &args])
            .env("PUNIE_FAILPOINTS", "trash.kept=kill"),
    );
    assert_eq!(cut.code, -1, "{cut:?}");
    assert_eq!(owner.read("work/a.txt"), "one\n", "{cut:?}");
    let listed = owner.run_cli(&["trash", "list", "--json"]);
    let kept: serde_json::Value = serde_json::from_str(&listed.out).expect(&listed.out);
    assert_fields!(kept, {"tool": "Write", "files": 1});
    let request = kept["requestId"].as_str().expect("an id");
    owner.assert_undo_refused(request, "there is nothing to undo");
}

#[test]
fn an_undo_that_was_cut_off_is_finished_by_the_next() {
    let owner = OwnerFixture::new();
    owner.write("work/a.txt", "a\n");
    owner.write("work/b.txt", "b\n");
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+A\n*** Update File: b.txt\n@@\n-b\n+B\n*** End Patch\n";
    let (request, _) = owner.calls("ApplyPatch", &json!({"patch": patch}));
    let cut = run_command(
        owner
            .command(&["undo", &request])
            .env("PUNIE_FAILPOINTS", "undo.step=kill@1"),
    );
    assert_eq!(cut.code, -1, "{cut:?}");
    assert_eq!(owner.read("work/a.txt"), "a\n");
    assert_eq!(owner.read("work/b.txt"), "B\n");
    owner.undo_request(&request);
    assert_eq!(owner.read("work/a.txt"), "a\n");
    assert_eq!(owner.read("work/b.txt"), "b\n");
}

#[test]
fn a_restore_gives_what_a_file_was_first() {
    let owner = OwnerFixture::new();
    owner.write("work/a.txt", "first\n");
    let request = owner.call_write("a.txt", "second\n");
    let later = owner.call_write("a.txt", "third\n");
    // The manifest of a call that was cut off after its change and then ran again.
    let manifest =
        |request: &str| owner.path(&format!("home/state/trash/requests/{request}.jsonl"));
    let lines = [manifest(&request), manifest(&later)]
        .map(|path| std::fs::read_to_string(path).expect("there"));
    let again = lines[1].lines().last().expect("a line");
    std::fs::write(manifest(&request), format!("{}{again}\n", lines[0])).expect("written");
    let to = owner.path("back");
    let restored = owner.run_cli(&[
        "trash",
        "restore",
        &request,
        "--to",
        to.to_str().expect("text"),
    ]);
    let copy = to.join(
        owner
            .path("work/a.txt")
            .strip_prefix("/")
            .expect("absolute"),
    );
    assert_eq!(
        std::fs::read_to_string(copy).expect("copied"),
        "first\n",
        "{restored:?}"
    );
    assert_eq!(restored.out.lines().count(), 2, "{restored:?}");
}

#[test]
fn a_step_that_fails_takes_back_those_before_it() {
    let owner = OwnerFixture::new();
    owner.write("work/a.txt", "a\n");
    owner.write("work/b.txt", "b\n");
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+A\n*** Update File: b.txt\n@@\n-b\n+B\n*** End Patch\n";
    let (request, _) = owner.calls("ApplyPatch", &json!({"patch": patch}));
    let kept = std::fs::read_dir(owner.path("home/state/trash/objects")).expect("there");
    let of_b = kept
        .map(|entry| entry.expect("an entry").path())
        .find(|path| std::fs::read(path).expect("there") == b"b\n");
    std::fs::write(of_b.expect("kept"), "x\n").expect("written");
    owner.assert_undo_refused(&request, "what was kept is damaged");
    assert_eq!(owner.read("work/a.txt"), "A\n");
    assert_eq!(owner.read("work/b.txt"), "B\n");
    assert_eq!(
        std::fs::read_dir(owner.path("work"))
            .expect("there")
            .count(),
        2,
        "no other file is left"
    );
}

#[test]
fn two_undos_at_once_are_one() {
    let owner = OwnerFixture::new();
    owner.write("work/a.txt", "one\n");
    let request = owner.call_write("a.txt", "two\n");
    let both: Vec<_> = (0..4)
        .map(|_| {
            let mut command = owner.command(&["undo", &request]);
            command
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null());
            command.spawn().expect("started")
        })
        .collect();
    let codes: Vec<_> = both
        .into_iter()
        .map(|mut child| child.wait().expect("it ends").code())
        .collect();
    assert_eq!(
        codes.iter().filter(|code| **code == Some(0)).count(),
        1,
        "{codes:?}"
    );
    assert_eq!(owner.read("work/a.txt"), "one\n");
}

#[test]
fn a_file_over_the_limit_is_changed_and_the_answer_says_that_this_cannot_be_undone() {
    let owner = OwnerFixture::new();
    let big = "x".repeat((64 << 20) + 1);
    owner.write("work/big.txt", &big);
    let args = json!({"file_path": "big.txt", "content": "small\n"});
    let (request, answer) = owner.calls("Write", &args);
    assert_contains!(answer.to_string(), "cannot be undone");
    owner.assert_undo_refused(&request, "what it held before is not kept");
    assert_eq!(owner.read("work/big.txt"), "small\n");
}
