//! Reading through a connected editor: which files it is asked for, and how the answer names the source.

use tokio_util::sync::CancellationToken;

use super::*;
use crate::harness::fake_client::ClientFault;
use punie_editor::protocol::Error;

const UNSAVED: &str = "[unsaved in Fake Editor; the file on disk differs]";

#[tokio::test]
async fn what_an_editor_does_not_serve_is_never_asked_of_it() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(false, false, false));
    let path = bench.put("a.txt", "on disk\n");
    let text = bench.text("Read", file_argument(&path)).await;
    assert_ends_with!(text, "\ton disk\n");
    let args = json!({"file_path": path, "old_string": "on", "new_string": "still on"});
    bench.ok("Edit", args).await;
    bench
        .ok("Write", json!({"file_path": "b.txt", "content": "new"}))
        .await;
    assert_eq!(
        bench.text("Bash", json!({"command": "echo here"})).await,
        "here"
    );
    assert_eq!(fake.methods(), Vec::<&str>::new());
    assert_eq!(bench.get("a.txt"), "still on disk\n");
    assert_eq!(bench.get("b.txt"), "new");
}

#[tokio::test]
async fn unsaved_text_is_what_is_read_and_the_answer_says_so() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    let path = bench.put("a.txt", "on disk\n");
    fake.open(&path, "one\ntwo\nthree\n");
    let reply = bench.ok("Read", file_argument(&path)).await;
    let text = tools::reply_text(&reply);
    assert_ends_with!(text.lines().next().expect("a head"), UNSAVED);
    assert_contains!(text, "\tone\n", "\tthree\n");
    assert_lacks!(text, "on disk\n");
    assert_eq!(reply.meta.source.as_deref(), Some("editor"));
    assert_eq!(reply.meta.sha256, Some(sha256("one\ntwo\nthree\n")));
    let end = bench
        .text("Read", json!({"file_path": path, "offset": -1}))
        .await;
    assert_contains!(end, "\tthree\n");
    assert_lacks!(end, "\ttwo\n");
    let part = bench
        .text("Read", json!({"file_path": path, "offset": 2, "limit": 1}))
        .await;
    assert_contains!(part, "\ttwo\n");
    assert_lacks!(part, "\tthree\n");
    assert_contains!(part, "3 lines");
    let plain = bench.text("read_file", json!({"path": path})).await;
    assert_eq!(plain, format!("one\ntwo\nthree\n{UNSAVED}"));
}

#[tokio::test]
async fn text_that_is_saved_is_the_editors_too_and_needs_no_words() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    fake.read_from_disk();
    let path = bench.put("a.txt", "on disk\n");
    let reply = bench.ok("Read", file_argument(&path)).await;
    assert_lacks!(tools::reply_text(&reply), "unsaved");
    assert_eq!(reply.meta.source.as_deref(), Some("editor"));
    assert_eq!(
        bench.text("read_file", json!({"path": path})).await,
        "on disk\n"
    );
    assert_eq!(
        fake.calls()[0],
        ("fs/read_text_file", path.display().to_string())
    );
}

#[tokio::test]
async fn a_text_in_the_editors_own_form_is_not_unsaved() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    let path = bench.put("a.txt", "\u{FEFF}one\r\ntwo\r\n");
    fake.open(&path, "one\ntwo\n");
    let text = bench.text("Read", file_argument(&path)).await;
    assert!(!text.contains("unsaved") && text.contains("crlf"), "{text}");
}

#[tokio::test]
async fn a_file_that_is_only_in_the_editor_is_read() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    let path = bench.root.join("new.txt");
    fake.open(&path, "not saved yet\n");
    let text = bench.text("Read", file_argument(&path)).await;
    assert_contains!(text, "\tnot saved yet\n", UNSAVED);
    let missing = bench
        .refused("Read", file_argument(&bench.root.join("nowhere.txt")))
        .await;
    assert_error!(missing, NotFound);
}

#[tokio::test]
async fn what_is_no_utf_8_text_or_too_large_is_read_from_the_disk() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    fake.read_from_disk();
    let wide: Vec<u8> = "\u{FEFF}wide\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let wide = bench.put("wide.txt", wide);
    assert_contains!(bench.text("Read", file_argument(&wide)).await, "utf-16le");
    let latin = bench.put("latin.txt", b"un caf\xe9 ferm\xe9 \xe0 midi\n");
    bench.text("Read", file_argument(&latin)).await;
    let image = bench.put("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    drop(bench.call("Read", file_argument(&image)).await);
    assert_eq!(fake.methods(), Vec::<&str>::new());
    let large = bench.put("large.txt", "line\n".repeat(900_000));
    let reply = bench
        .ok("Read", json!({"file_path": large, "limit": 1}))
        .await;
    assert_contains!(reply.meta.warnings[0], "was not asked for its text");
    assert_eq!((reply.meta.source, fake.methods()), (None, Vec::new()));
}

#[tokio::test]
async fn files_outside_the_editors_project_are_none_of_its_own() {
    let bench = EditorBench::new();
    let fake = Arc::new(FakeClient::default());
    fake.read_from_disk();
    std::fs::create_dir(bench.root.join("project")).expect("a folder");
    let _turn = bench.attach_with(
        &fake,
        client_capabilities(true, true, false),
        &[&bench.root.join("project")],
        editor_settings(),
    );
    let beside = bench.put("beside.txt", "x\n");
    bench.text("Read", file_argument(&beside)).await;
    // The link is inside the project, its target is not.
    std::os::unix::fs::symlink(&beside, bench.root.join("project/link.txt")).expect("a link");
    bench
        .text("Read", file_argument(&bench.root.join("project/link.txt")))
        .await;
    assert_eq!(fake.methods(), Vec::<&str>::new());
    let inside = bench.put("project/in.txt", "x\n");
    bench.text("Read", file_argument(&inside)).await;
    assert_eq!(fake.methods(), ["fs/read_text_file"]);
}

#[tokio::test]
async fn where_the_editor_has_no_text_the_disk_has_it() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    let path = bench.put("a.txt", "on disk\n");
    let reply = bench.ok("Read", file_argument(&path)).await;
    assert_eq!(
        (reply.meta.source, reply.meta.warnings),
        (None, Vec::new()),
        "no warning about a file that the editor does not have"
    );
    fake.fail(
        "fs/read_text_file",
        ClientFault::Error(Error::internal_error().data("a bad day")),
    );
    let reply = bench.ok("Read", file_argument(&path)).await;
    assert_contains!(reply.meta.warnings[0], "a bad day");
    assert_contains!(tools::reply_text(&reply), "\ton disk\n");
}

#[tokio::test]
async fn an_editor_that_does_not_answer_is_left_out_with_a_warning() {
    let (bench, fake, _turn) =
        EditorBench::with_impatient_editor(client_capabilities(true, true, false));
    let path = bench.put("a.txt", "on disk\n");
    fake.open(&path, "unsaved");
    fake.fail("fs/read_text_file", ClientFault::Silence);
    let reply = bench.ok("Read", file_argument(&path)).await;
    assert_contains!(tools::reply_text(&reply), "\ton disk\n");
    assert_contains!(reply.meta.warnings[0], "Fake Editor did not answer");
    assert_eq!(reply.meta.source, None);
}

#[tokio::test]
async fn a_cancelled_call_waits_for_no_editor() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    let path = bench.put("a.txt", "on disk\n");
    fake.fail("fs/read_text_file", ClientFault::Silence);
    let cancel = CancellationToken::new();
    let cx = ToolContext {
        cancel: cancel.clone(),
        ..ToolContext::for_detached_call(RequestId::new())
    };
    let reading = bench.call_with("Read", file_argument(&path), cx);
    let (answer, ()) = tokio::join!(reading, async {
        crate::harness::wait::wait_until("the editor to be asked", || !fake.methods().is_empty())
            .await;
        cancel.cancel();
    });
    assert_error!(answer.expect_err("cancelled"), Cancelled);
}

#[tokio::test]
async fn a_call_whose_turn_is_over_is_served_here() {
    let (bench, fake, turn) = EditorBench::with_editor(client_capabilities(true, true, true));
    let path = bench.put("a.txt", "on disk\n");
    fake.open(&path, "unsaved");
    turn.stop().await;
    let text = bench.text("Read", file_argument(&path)).await;
    assert_contains!(text, "\ton disk\n");
    drop(turn);
    assert_eq!(
        bench.text("Bash", json!({"command": "echo here"})).await,
        "here"
    );
    assert_eq!(fake.methods(), Vec::<&str>::new());
}
