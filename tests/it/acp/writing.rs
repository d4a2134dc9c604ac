//! Changing files through a connected editor.

use super::*;
use crate::harness::fake_client::{ClientFault, SaveBehaviour};
use crate::harness::wait::wait_until;
use parking_lot::Mutex;
use punie_host::files::{ByteSplice, NewContent, WritePrecondition, WriteTextFile};
use punie_host::local::intent_recovery;
use punie_host::{FileClient, RawPath};
use punie_tool::{CallIntent, IntentFuture, IntentOutcome, IntentRecorder};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn an_edit_finds_its_place_in_unsaved_text_and_is_made_by_the_editor() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    let path = bench.put("a.txt", "on disk\n");
    fake.open(&path, "typed by a person\n");
    let edit = json!({"file_path": path, "old_string": "a person", "new_string": "somebody"});
    let reply = bench.ok("Edit", edit).await;
    assert_eq!(bench.get("a.txt"), "typed by somebody\n");
    assert_eq!(fake.text_of(&path).as_deref(), Some("typed by somebody\n"));
    assert_eq!(reply.meta.source.as_deref(), Some("editor"));
    assert_eq!(reply.meta.sha256, Some(sha256("typed by somebody\n")));
    assert_eq!(
        reply.meta.files[0].before,
        Some(sha256("typed by a person\n")),
        "the hash of the text that was read"
    );
    assert_contains!(
        tools::reply_text(&reply),
        "had unsaved text of this file; it is written with the change"
    );
    let shown = fake.shown();
    assert_contains!(shown, r#""oldText":"typed by a person\n""#);
    assert_contains!(shown, r#""newText":"typed by somebody\n""#);
}

#[tokio::test]
async fn every_tool_that_writes_goes_the_same_way() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    let a = bench.put("a.txt", "disk a\n");
    let b = bench.put("b.txt", "disk b\n");
    fake.open(&a, "one\n");
    fake.open(&b, "two\n");
    let edits =
        json!([{"old_string": "one", "new_string": "1"}, {"old_string": "1", "new_string": "I"}]);
    bench
        .ok("MultiEdit", json!({"file_path": a, "edits": edits}))
        .await;
    assert_eq!(bench.get("a.txt"), "I\n");
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-I\n+eins\n*** Update File: b.txt\n@@\n-two\n+zwei\n*** Add \
                 File: c.txt\n+drei\n*** End Patch\n";
    let reply = bench.ok("ApplyPatch", json!({"patch": patch})).await;
    assert_eq!(
        [bench.get("a.txt"), bench.get("b.txt"), bench.get("c.txt")],
        ["eins\n", "zwei\n", "drei\n"]
    );
    assert_eq!(reply.meta.source.as_deref(), Some("editor"));
    let args = json!({"file_path": "deep/er/d.txt", "content": "vier\n"});
    bench.ok("Write", args).await;
    bench
        .ok("write_file", json!({"path": "b.txt", "content": "fünf\n"}))
        .await;
    assert_eq!(
        [bench.get("deep/er/d.txt"), bench.get("b.txt")],
        ["vier\n", "fünf\n"]
    );
    let written = fake
        .methods()
        .iter()
        .filter(|method| **method == "fs/write_text_file")
        .count();
    assert_eq!(written, 6, "{:?}", fake.calls());
}

#[tokio::test]
async fn what_takes_away_or_renames_a_file_is_done_here() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    fake.read_from_disk();
    bench.put("a.txt", "one\n");
    bench.put("b.txt", "two\n");
    let deletion = "*** Begin Patch\n*** Delete File: a.txt\n*** Update File: b.txt\n*** Move to: c.txt\n*** End Patch\n";
    bench.ok("ApplyPatch", json!({"patch": deletion})).await;
    assert!(!bench.root.join("a.txt").exists() && bench.get("c.txt") == "two\n");
    assert!(
        !fake.methods().contains(&"fs/write_text_file"),
        "{:?}",
        fake.calls()
    );
}

#[tokio::test]
async fn a_file_in_another_encoding_is_written_here() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    let wide: Vec<u8> = "\u{FEFF}wide\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let path = bench.put("wide.txt", wide);
    let args = json!({"file_path": path, "old_string": "wide", "new_string": "far"});
    bench.ok("Edit", args).await;
    let bytes = std::fs::read(&path).expect("there");
    assert_eq!(
        bytes,
        "\u{FEFF}far\n"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect::<Vec<u8>>()
    );
    assert_eq!(fake.methods(), Vec::<&str>::new());
}

#[tokio::test]
async fn a_text_that_the_editor_has_not_saved_is_told() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    fake.read_from_disk();
    fake.save(SaveBehaviour::Never);
    let path = bench.put("a.txt", "old\n");
    let args = json!({"file_path": path, "old_string": "old", "new_string": "new"});
    let reply = bench.ok("Edit", args).await;
    assert_contains!(reply.meta.warnings[0], "has not saved it");
    assert_eq!(bench.get("a.txt"), "old\n");
    // The next read returns the text that was written, with the hash that the write reported.
    let read = bench.ok("Read", file_argument(&path)).await;
    assert_contains!(tools::reply_text(&read), "\tnew\n");
    assert_eq!(read.meta.sha256, reply.meta.sha256);
    let again = json!({"file_path": path, "content": "newest\n", "overwrite": "if_unchanged", "expected_sha256": reply.meta.sha256});
    bench.ok("Write", again).await;
}

#[tokio::test]
async fn a_text_that_the_editor_changed_on_saving_is_told_with_the_hash_that_is_there() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    fake.read_from_disk();
    fake.save(SaveBehaviour::As(str::to_uppercase));
    let reply = bench
        .ok("Write", json!({"file_path": "a.txt", "content": "loud\n"}))
        .await;
    assert_eq!(bench.get("a.txt"), "LOUD\n");
    assert_eq!(reply.meta.sha256, Some(sha256("LOUD\n")));
    assert_contains!(reply.meta.warnings[0], &sha256("LOUD\n"));
}

#[tokio::test]
async fn what_somebody_typed_meanwhile_is_not_lost() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    let path = bench.put("a.txt", "one\n");
    fake.open(&path, "one\nand typed\n");
    fake.next_text(&path, "one\n");
    let edit = json!({"file_path": path, "old_string": "one", "new_string": "two"});
    assert_error!(bench.refused("Edit", edit.clone()).await, Stale; "it changed before the check");
    fake.open(&path, "one\nand typed\n");
    fake.next_text(&path, "one\n");
    fake.next_text(&path, "one\n");
    assert_error!(bench.refused("Edit", edit).await, Stale; "it changed after the check");
    let write = json!({"file_path": path, "content": "x", "overwrite": "if_unchanged", "expected_sha256": sha256("one\n")});
    assert_error!(bench.refused("Write", write).await, Stale: "in Fake Editor");
    assert_eq!(bench.get("a.txt"), "one\n");
    assert_eq!(fake.text_of(&path).as_deref(), Some("one\nand typed\n"));
    assert!(!fake.methods().contains(&"fs/write_text_file"));
}

#[tokio::test]
async fn a_file_that_is_new_in_the_editor_is_not_made_over_it() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    fake.open(&bench.root.join("new.txt"), "typed");
    let args = json!({"file_path": "new.txt", "content": "x", "overwrite": "never"});
    let never = bench.refused("Write", args).await;
    assert_error!(never, Stale: "not saved yet");
    let args = json!({"file_path": "new.txt", "old_string": "typed", "new_string": "written"});
    bench.ok("Edit", args).await;
    assert_eq!(bench.get("new.txt"), "written");
}

#[tokio::test]
async fn an_editor_is_not_asked_for_a_file_that_a_write_is_about_to_make() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    let args = json!({"file_path": "new.txt", "content": "made\n"});
    bench.ok("Write", args).await;
    assert_eq!(fake.methods(), ["fs/write_text_file"]);
    assert_eq!(bench.get("new.txt"), "made\n");
}

#[tokio::test]
async fn an_editor_that_only_reads_has_its_unsaved_text_guarded() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, false, false));
    let path = bench.put("a.txt", "one\n");
    fake.open(&path, "one\ntyped\n");
    let edit = json!({"file_path": path, "old_string": "one", "new_string": "two"});
    for (tool, args) in [
        ("Edit", edit.clone()),
        ("Write", json!({"file_path": path, "content": "x"})),
    ] {
        assert_error!(bench.refused(tool, args).await, Stale: "saved there first");
    }
    assert_eq!(bench.get("a.txt"), "one\n");
    fake.open(&path, "one\n");
    let reply = bench.ok("Edit", edit).await;
    assert_eq!(bench.get("a.txt"), "two\n");
    assert_eq!(reply.meta.source, None);
    assert!(!fake.methods().contains(&"fs/write_text_file"));
    assert!(
        fake.shown().contains(r#""oldText":"one\n""#),
        "the editor shows the difference of a write that the runner made"
    );
}

#[tokio::test]
async fn who_may_run_a_file_is_set_here() {
    use std::os::unix::fs::PermissionsExt as _;
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    let script = json!({"file_path": "run.sh", "content": "#!/bin/sh\n", "executable": true});
    bench.ok("Write", script).await;
    let mode = std::fs::metadata(bench.root.join("run.sh"))
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o100, 0o100);
    assert!(!fake.methods().contains(&"fs/write_text_file"));
}

#[tokio::test]
async fn a_protected_file_is_refused_before_the_editor_hears_of_it() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    std::fs::create_dir_all(bench.root.join(".git/hooks")).expect("a folder");
    let hook = json!({"file_path": ".git/hooks/pre-commit", "content": "#!/bin/sh\n"});
    assert_error!(bench.refused("Write", hook).await, PolicyDenied);
    let outside = json!({"file_path": "../elsewhere.txt", "content": "x"});
    assert_error!(bench.refused("Write", outside).await, OutsideWorkspace);
    assert_eq!(fake.methods(), Vec::<&str>::new());
}

#[tokio::test]
async fn line_endings_and_mark_of_the_file_live_through_an_editor_that_has_neither() {
    let bench = EditorBench::new();
    let fake = Arc::new(FakeClient::default());
    fake.save(SaveBehaviour::As(|text| {
        format!("\u{FEFF}{}", text.replace('\n', "\r\n"))
    }));
    let _turn = bench.attach(&fake, client_capabilities(true, true, false));
    let path = bench.put("a.txt", "\u{FEFF}one\r\ntwo\r\n");
    fake.open(&path, "one\ntwo\n");
    let args = json!({"file_path": path, "old_string": "two", "new_string": "2"});
    let reply = bench.ok("Edit", args).await;
    assert_eq!(bench.get("a.txt"), "\u{FEFF}one\r\n2\r\n");
    assert_eq!(
        reply.meta.warnings,
        Vec::<String>::new(),
        "nothing was changed on saving"
    );
}

#[tokio::test]
async fn a_text_that_is_there_already_is_not_sent() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    fake.read_from_disk();
    bench.put("a.txt", "same\n");
    let text = bench
        .text("Write", json!({"file_path": "a.txt", "content": "same\n"}))
        .await;
    assert_starts_with!(text, "No change");
    assert!(!fake.methods().contains(&"fs/write_text_file"));
}

/// Records the declared intents, each with the calls that the editor had received before it.
struct RecordedDeclarations {
    made: Mutex<Vec<(CallIntent, Vec<&'static str>)>>,
    fake: Arc<FakeClient>,
}

impl std::fmt::Debug for RecordedDeclarations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Declarations")
    }
}

impl IntentRecorder for RecordedDeclarations {
    fn record_intents<'a>(
        &'a self,
        _request: &'a RequestId,
        intents: Vec<CallIntent>,
    ) -> IntentFuture<'a> {
        let methods = self.fake.methods();
        let intents = intents.into_iter();
        self.made
            .lock()
            .extend(intents.map(|intent| (intent, methods.clone())));
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Makes a change, and returns the intents that it declared, each with the calls that the editor had received before.
async fn declared_by(
    bench: &EditorBench,
    fake: &Arc<FakeClient>,
    tool: &str,
    args: Value,
) -> Vec<(CallIntent, Vec<&'static str>)> {
    let declared = Arc::new(RecordedDeclarations {
        made: Mutex::default(),
        fake: Arc::clone(fake),
    });
    let cx = ToolContext {
        intents: declared.clone(),
        ..ToolContext::for_detached_call(RequestId::new())
    };
    let made = bench.call_with(tool, args, cx).await;
    made.expect("the change is made");
    declared.made.lock().clone()
}

/// Checks that one change with these texts was declared before the editor wrote the file, and returns its intents.
fn only_change(
    made: Vec<(CallIntent, Vec<&'static str>)>,
    old: &str,
    new: &str,
) -> Vec<CallIntent> {
    let [(CallIntent::File { before, after, .. }, methods)] = made.as_slice() else {
        panic!("{made:?}")
    };
    assert_eq!(*before, Some(sha256(old)));
    assert_eq!(*after, Some(sha256(new)));
    assert!(!methods.contains(&"fs/write_text_file"), "{methods:?}");
    made.into_iter().map(|(intent, _)| intent).collect()
}

#[tokio::test]
async fn a_write_is_declared_with_the_disks_hashes_before_it_is_sent() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    let path = bench.put("a.txt", "on disk\n");
    fake.open(&path, "unsaved\n");
    let edit = json!({"file_path": path, "old_string": "unsaved", "new_string": "saved"});
    let made = declared_by(&bench, &fake, "Edit", edit).await;
    let intents = only_change(made, "on disk\n", "saved\n");
    // After a restart, recovery finds the change done; with the old text on the disk, it finds the change not begun.
    assert!(matches!(
        intent_recovery::recover_changes(&bench.workspace, &intents),
        IntentOutcome::Done(_)
    ));
    bench.put("a.txt", "on disk\n");
    assert!(matches!(
        intent_recovery::recover_changes(&bench.workspace, &intents),
        IntentOutcome::Untouched
    ));
}

/// Returns text of more bytes than the runner hashes before a write of its own.
fn long_text(first: &str) -> String {
    format!("{first}\n{}", "a line of a long file\n".repeat(80_000))
}

#[tokio::test]
async fn a_long_write_is_declared_with_its_hashes_too() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    fake.read_from_disk();
    let path = bench.put("a.txt", long_text("old"));
    let edit =
        json!({"file_path": path, "old_string": "old", "new_string": "an inserted line\nold"});
    let made = declared_by(&bench, &fake, "Edit", edit).await;
    assert!(
        fake.methods().contains(&"fs/write_text_file"),
        "the editor wrote the file"
    );
    let new = long_text("an inserted line\nold");
    let intents = only_change(made, &long_text("old"), &new);
    assert!(
        matches!(
            intent_recovery::recover_changes(&bench.workspace, &intents),
            IntentOutcome::Done(_)
        ),
        "recovery does not write again"
    );
}

#[tokio::test]
async fn a_patch_that_was_cut_off_before_a_long_file_is_not_taken_for_done() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    fake.read_from_disk();
    bench.put("a.txt", "one\n");
    bench.put("b.txt", long_text("two"));
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+1\n*** Update File: b.txt\n@@\n-two\n+2\n*** End Patch\n";
    let made = declared_by(&bench, &fake, "ApplyPatch", json!({"patch": patch})).await;
    assert_eq!(bench.get("a.txt"), "1\n");
    assert_eq!(bench.get("b.txt"), long_text("2"));
    // The state after a crash between the two writes.
    bench.put("b.txt", long_text("two"));
    let intents: Vec<CallIntent> = made.into_iter().map(|(intent, _)| intent).collect();
    match intent_recovery::recover_changes(&bench.workspace, &intents) {
        IntentOutcome::Unclear { text, .. } => assert_contains!(text, "b.txt: not done"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn unsaved_text_is_not_written_to_the_disk_once_its_editor_is_closed() {
    let (bench, fake, turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    let path = bench.put("a.txt", "on disk\n");
    fake.open(&path, "unsaved\n");
    let cx = ToolContext::for_detached_call(RequestId::new());
    let shown = bench.observed(&cx, "Edit", &json!({}));
    let place = bench
        .workspace
        .resolve_inside(&RawPath::from("a.txt"))
        .expect("inside");
    let loaded = bench
        .overlay
        .load_file(&cx, place.clone(), 1 << 20)
        .await
        .expect("it is text");
    assert_eq!(loaded.bytes.as_slice(), b"unsaved\n");
    // The person closes the editor and does not save.
    drop((turn, shown));
    let splices = vec![ByteSplice {
        range: 0..7,
        with: b"edited".to_vec(),
    }];
    let request = WriteTextFile {
        path: place,
        content: NewContent::Spliced {
            old: loaded.bytes,
            splices,
        },
        only_if: WritePrecondition::AsLoaded(loaded.stamp),
        create_folders: false,
        executable: None,
    };
    assert_error!(
        bench
            .overlay
            .write_text_file(&cx, request)
            .await
            .expect_err("the file differs from the text that was read"),
        Stale
    );
    assert_eq!(bench.get("a.txt"), "on disk\n");
}

#[tokio::test]
async fn a_file_with_unsaved_text_can_be_deleted() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    let path = bench.put("a.txt", "on disk\n");
    fake.open(&path, "unsaved\n");
    let deletion = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch\n";
    bench.ok("ApplyPatch", json!({"patch": deletion})).await;
    assert!(!path.exists());
}

#[tokio::test]
async fn a_cancelled_write_is_not_sent_any_more() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(true, true, false));
    fake.read_from_disk();
    let path = bench.put("a.txt", "old\n");
    let (open, gate) = tokio::sync::oneshot::channel();
    // The runner reads the text for the edit, for the check, and once more before it sends the write.
    fake.fail("fs/read_text_file", ClientFault::Nothing);
    fake.fail("fs/read_text_file", ClientFault::Nothing);
    fake.fail("fs/read_text_file", ClientFault::Held(gate));
    let cancel = CancellationToken::new();
    let cx = ToolContext {
        cancel: cancel.clone(),
        ..ToolContext::for_detached_call(RequestId::new())
    };
    let edit = json!({"file_path": path, "old_string": "old", "new_string": "new"});
    let (answer, ()) = tokio::join!(bench.call_with("Edit", edit, cx), async {
        wait_until("the third read", || fake.methods().len() == 3).await;
        cancel.cancel();
        let _ = open.send(());
    });
    assert_error!(answer.expect_err("cancelled"), Cancelled);
    assert_eq!(bench.get("a.txt"), "old\n");
    assert!(
        !fake.methods().contains(&"fs/write_text_file"),
        "{:?}",
        fake.calls()
    );
}
