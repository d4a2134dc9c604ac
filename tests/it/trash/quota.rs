//! The limits of the trash: its size, and the time for which it stores files.

use serde_json::json;

use super::OwnerFixture;

#[test]
fn the_oldest_goes_when_the_trash_is_full() {
    let owner = OwnerFixture::new();
    owner.has_a_trash_of(1);
    let mut requests = Vec::new();
    for name in ["a", "b", "c"] {
        owner.write(&format!("work/{name}"), name.repeat(400 << 10));
        requests.push(owner.call_write(name, "small\n"));
    }
    owner.assert_undo_refused(&requests[0], "nothing is kept of request");
    owner.undo_request(&requests[2]);
    owner.undo_request(&requests[1]);
    assert_eq!(owner.read("work/b"), "b".repeat(400 << 10));
}

#[test]
fn what_does_not_fit_is_changed_all_the_same_after_saying_so() {
    let owner = OwnerFixture::new();
    owner.has_a_trash_of(1);
    owner.write("work/big", "x".repeat(2 << 20));
    let (_, answer) = owner.calls("Write", &json!({"file_path": "big", "content": "small\n"}));
    assert_contains!(answer.to_string(), "does not fit into the trash");
    assert_eq!(owner.read("work/big"), "small\n");
}

#[test]
fn a_trash_that_cannot_be_written_stops_no_write_and_the_answer_says_that_it_cannot_be_undone() {
    let owner = OwnerFixture::new();
    owner.write("work/a.txt", "old\n");
    owner.run_cli(&["call", "Bash", r#"{"command":"true"}"#]);
    // As on a full disk, the lock file cannot be opened for writing.
    std::os::unix::fs::symlink("/dev/full/none", owner.path("home/state/trash/lock"))
        .expect("linked");
    let (_, answer) = owner.calls("Write", &json!({"file_path": "a.txt", "content": "new\n"}));
    assert_contains!(answer.to_string(), "cannot be undone");
    assert_eq!(owner.read("work/a.txt"), "new\n");
}

#[test]
fn with_no_room_at_all_nothing_is_kept_and_nothing_is_said() {
    let owner = OwnerFixture::new();
    owner.has_a_trash_of(0);
    owner.write("work/a.txt", "old\n");
    let (request, answer) =
        owner.calls("Write", &json!({"file_path": "a.txt", "content": "new\n"}));
    assert_lacks!(answer.to_string(), "undone");
    owner.assert_undo_refused(&request, "nothing is kept of request");
}
