//! Writes that an editor refuses or does not answer, or during which it is closed: the answer describes the file on the
//! disk.

use super::*;
use crate::harness::fake_client::{ClientFault, SaveBehaviour};
use punie_editor::protocol::Error;
use punie_tool::request::CallFailure;

fn edit_arguments(path: &Path) -> Value {
    json!({"file_path": path, "old_string": "old", "new_string": "new"})
}

fn may_have_run(error: ToolError) -> bool {
    CallFailure::from(error).meta.may_have_run
}

#[tokio::test]
async fn a_write_that_the_editor_refuses_is_an_error_in_its_words() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    fake.read_from_disk();
    let path = bench.put("a.txt", "old\n");
    fake.fail(
        "fs/write_text_file",
        ClientFault::Error(Error::internal_error().data("the buffer is locked")),
    );
    let refused = bench.refused("Edit", edit_arguments(&path)).await;
    assert_error!(refused, Io: "the buffer is locked", "as it was before");
    assert!(!may_have_run(refused));
    assert_eq!(
        bench.get("a.txt"),
        "old\n",
        "the runner did not write the file itself"
    );
}

#[tokio::test]
async fn a_write_that_is_not_answered_may_have_happened() {
    let (bench, fake, _turn) =
        EditorBench::with_impatient_editor(client_capabilities(true, true, false));
    fake.read_from_disk();
    let path = bench.put("a.txt", "old\n");
    fake.fail("fs/write_text_file", ClientFault::Silence);
    let unclear = bench.refused("Edit", edit_arguments(&path)).await;
    assert_contains!(unclear.model_text(), "did not answer", "as it was before");
    assert!(may_have_run(unclear));
    assert_eq!(bench.get("a.txt"), "old\n");
}

#[tokio::test]
async fn a_write_that_is_on_the_disk_is_done_whether_it_was_answered_or_not() {
    let (bench, fake, _turn) =
        EditorBench::with_impatient_editor(client_capabilities(true, true, false));
    fake.read_from_disk();
    let path = bench.put("a.txt", "old\n");
    fake.fail("fs/write_text_file", ClientFault::DoneInSilence);
    let reply = bench.ok("Edit", edit_arguments(&path)).await;
    assert_contains!(reply.meta.warnings[0], "did not answer");
    assert_eq!(bench.get("a.txt"), "new\n");
    assert_eq!(reply.meta.sha256, Some(sha256("new\n")));
}

#[tokio::test]
async fn an_unanswered_write_that_changed_the_file_otherwise_says_what_is_there() {
    let (bench, fake, _turn) =
        EditorBench::with_impatient_editor(client_capabilities(true, true, false));
    fake.read_from_disk();
    fake.save(SaveBehaviour::As(str::to_uppercase));
    let path = bench.put("a.txt", "old\n");
    fake.fail("fs/write_text_file", ClientFault::DoneInSilence);
    let unclear = bench.refused("Edit", edit_arguments(&path)).await;
    assert_contains!(unclear.model_text(), &sha256("NEW\n"));
    assert!(may_have_run(unclear));
}

#[tokio::test]
async fn while_an_editor_does_not_say_what_it_has_nothing_is_written_beside_it() {
    let (bench, fake, _turn) =
        EditorBench::with_impatient_editor(client_capabilities(true, true, false));
    let path = bench.put("a.txt", "old\n");
    fake.fail("fs/read_text_file", ClientFault::Silence);
    let refused = bench
        .refused("Write", json!({"file_path": path, "content": "x"}))
        .await;
    assert_contains!(refused.model_text(), "unsaved text", "Nothing was written");
    assert_eq!(bench.get("a.txt"), "old\n");
}

#[tokio::test]
async fn a_patch_whose_second_file_is_refused_takes_the_first_one_back() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    let a = bench.put("a.txt", "one\n");
    let b = bench.put("b.txt", "two\n");
    fake.open(&a, "one\n");
    fake.open(&b, "two\n");
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+1\n*** Update File: b.txt\n@@\n-two\n+2\n*** End Patch\n";
    // The first write succeeds and the second one fails.
    fake.fail_later("fs/write_text_file", 1, Error::internal_error().data("no"));
    let refused = bench.refused("ApplyPatch", json!({"patch": patch})).await;
    assert_contains!(refused.model_text(), "no file is changed");
    assert_eq!([bench.get("a.txt"), bench.get("b.txt")], ["one\n", "two\n"]);
    assert_eq!(
        fake.text_of(&a).as_deref(),
        Some("one\n"),
        "the editor has the old text again"
    );
}

#[tokio::test]
async fn a_patch_whose_second_write_is_unclear_does_not_say_that_nothing_is_changed() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    fake.read_from_disk();
    bench.put("a.txt", "one\n");
    bench.put("b.txt", "two\n");
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+1\n*** Update File: b.txt\n@@\n-two\n+2\n*** End Patch\n";
    fake.fail("fs/write_text_file", ClientFault::Nothing);
    // An answer that cannot be parsed says neither yes nor no.
    fake.fail(
        "fs/write_text_file",
        ClientFault::Error(Error::parse_error()),
    );
    let unclear = bench.refused("ApplyPatch", json!({"patch": patch})).await;
    assert_lacks!(unclear.model_text(), "no file is changed");
    assert_contains!(unclear.model_text(), "b.txt", "was put back");
    assert!(may_have_run(unclear));
    assert_eq!([bench.get("a.txt"), bench.get("b.txt")], ["one\n", "two\n"]);
    // The same when the fault is in the first write.
    fake.fail(
        "fs/write_text_file",
        ClientFault::Error(Error::parse_error()),
    );
    let unclear = bench.refused("ApplyPatch", json!({"patch": patch})).await;
    assert!(may_have_run(unclear));
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_no_refusal_of_the_write() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    fake.read_from_disk();
    let path = bench.put("a.txt", "old\n");
    fake.fail(
        "fs/write_text_file",
        ClientFault::Error(Error::parse_error()),
    );
    let unclear = bench.refused("Edit", edit_arguments(&path)).await;
    assert_contains!(unclear.model_text(), "as it was before");
    assert_lacks!(unclear.model_text(), "was not written");
    assert!(may_have_run(unclear));
    fake.fail(
        "fs/write_text_file",
        ClientFault::DoneWithError(Error::parse_error()),
    );
    let reply = bench.ok("Edit", edit_arguments(&path)).await;
    assert_contains!(reply.meta.warnings[0], "cannot be read");
    assert_eq!(bench.get("a.txt"), "new\n");
}
