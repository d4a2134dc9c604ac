//! An editor at the other end of a connection: the methods that are sent, the order of messages, and the result of a
//! call when the connection is cut.

use super::served_client::ServedClient;
use super::*;
use crate::harness::fake_client::ClientFault;
use crate::harness::wait::{wait_for_some, wait_until};
use punie_editor::EditorClient;
use punie_editor::protocol::{
    CreateTerminalRequest, Error, KillTerminalRequest, ReadTextFileRequest, SessionNotification,
    SessionUpdate, ToolCallUpdate, ToolCallUpdateFields, WaitForTerminalExitRequest,
    WriteTextFileRequest,
};
use punie_tool::request::CallFailure;
use tokio::sync::oneshot;

#[tokio::test]
async fn an_agent_reads_and_writes_through_the_client() {
    let bench = EditorBench::new();
    let fake = Arc::new(FakeClient::default());
    fake.read_from_disk();
    let wire = ServedClient::connect(&fake).await;
    let editor = wire.editor();
    let path = bench.root.join("a.txt");
    editor
        .write_text_file(WriteTextFileRequest::new("s", &path, "over the wire\n"))
        .await
        .expect("written");
    assert_eq!(bench.get("a.txt"), "over the wire\n");
    let read = editor
        .read_text_file(ReadTextFileRequest::new("s", &path))
        .await
        .expect("read");
    assert_eq!(read.content, "over the wire\n");
    let missing = editor
        .read_text_file(ReadTextFileRequest::new("s", bench.root.join("no")))
        .await;
    assert_eq!(missing.expect_err("missing").code.value(), -32_002);
    let five = (0..5).map(|_| editor.read_text_file(ReadTextFileRequest::new("s", &path)));
    for answer in futures_util::future::join_all(five).await {
        assert_eq!(answer.expect("read").content, "over the wire\n");
    }
}

#[tokio::test]
async fn a_call_that_waits_holds_up_no_other() {
    let fake = Arc::new(FakeClient::default());
    let wire = ServedClient::connect(&fake).await;
    let editor = wire.editor();
    fake.prepare("", None);
    let id = editor
        .create_terminal(CreateTerminalRequest::new("s", "sleep"))
        .await
        .expect("started")
        .terminal_id;
    let waiting = editor.wait_for_terminal_exit(WaitForTerminalExitRequest::new("s", id.clone()));
    let (ended, ()) = tokio::join!(waiting, async {
        wait_until("the request for the exit", || {
            fake.methods().contains(&"terminal/wait_for_exit")
        })
        .await;
        let path = PathBuf::from("/a.txt");
        fake.open(&path, "read meanwhile");
        let read = ReadTextFileRequest::new("s", &path);
        assert_eq!(
            editor.read_text_file(read).await.expect("read").content,
            "read meanwhile"
        );
        let kill = KillTerminalRequest::new("s", id.clone());
        editor.kill_terminal(kill).await.expect("killed");
    });
    assert!(ended.expect("an end").exit_status.signal.is_some());
}

#[tokio::test]
async fn updates_arrive_in_order() {
    let fake = Arc::new(FakeClient::default());
    let wire = ServedClient::connect(&fake).await;
    let editor = wire.editor();
    for n in 0..100 {
        let update = ToolCallUpdate::new(format!("call-{n}"), ToolCallUpdateFields::new());
        let update = SessionNotification::new("s", SessionUpdate::ToolCallUpdate(update));
        editor.session_update(update).await.expect("sent");
    }
    wait_until("all updates", || fake.updates().len() == 100).await;
    let order: Vec<usize> = (0..100)
        .map(|n| {
            fake.shown()
                .find(&format!("\"call-{n}\""))
                .expect("it is there")
        })
        .collect();
    assert!(order.is_sorted(), "{order:?}");
}

#[tokio::test]
async fn an_extension_is_sent_by_its_name_and_its_refusal_comes_back() {
    let fake = Arc::new(FakeClient::default());
    let wire = ServedClient::connect(&fake).await;
    let editor = wire.editor();
    let echoed = editor
        .ext_method("_test/echo".to_owned(), json!({"a": [1, 2]}))
        .await
        .expect("echo");
    assert_eq!(echoed, json!({"a": [1, 2]}));
    let unknown = editor
        .ext_method("_test/other".to_owned(), json!({}))
        .await
        .expect_err("unknown");
    assert_eq!(unknown.code.value(), -32_601);
}

#[tokio::test]
async fn what_a_client_does_not_serve_is_not_sent() {
    let fake = Arc::new(FakeClient::default());
    let wire = ServedClient::connect(&fake).await;
    let editor = EditorClient::new(
        wire.agent.clone(),
        client_capabilities(false, false, false),
        Duration::from_mins(1),
        None,
    );
    let read = editor
        .read_text_file(ReadTextFileRequest::new("s", "/a"))
        .await
        .expect_err("not served");
    let write = editor
        .write_text_file(WriteTextFileRequest::new("s", "/a", "x"))
        .await
        .expect_err("not served");
    let create = editor
        .create_terminal(CreateTerminalRequest::new("s", "x"))
        .await
        .expect_err("not served");
    assert!(
        [read, write, create]
            .iter()
            .all(|error: &Error| error.code.value() == -32_601)
    );
    assert_eq!(fake.methods(), Vec::<&str>::new());
}

#[tokio::test]
async fn a_read_that_is_dropped_is_given_up_at_the_other_end_too() {
    let fake = Arc::new(FakeClient::default());
    let wire = ServedClient::connect(&fake).await;
    let editor = wire.editor();
    fake.fail("fs/read_text_file", ClientFault::Silence);
    let path = PathBuf::from("/a.txt");
    fake.open(&path, "text");
    let given_up = {
        let reading = editor.read_text_file(ReadTextFileRequest::new("s", &path));
        tokio::select! {
            answer = reading => Some(answer.is_ok()),
            () = wait_until("the read request", || fake.methods().contains(&"fs/read_text_file")) => None,
        }
    };
    assert_eq!(given_up, None);
    let again = editor
        .read_text_file(ReadTextFileRequest::new("s", &path))
        .await
        .expect("the connection is still open");
    assert_eq!(again.content, "text");
}

#[tokio::test]
async fn a_connection_that_is_cut_in_the_middle_of_a_write_is_told_truthfully() {
    let bench = EditorBench::new();
    let fake = Arc::new(FakeClient::default());
    fake.read_from_disk();
    let mut wire = ServedClient::connect(&fake).await;
    let editor: Arc<dyn ClientTools> = Arc::new(wire.editor());
    let _turn = bench.attach_editor(editor, client_capabilities(true, true, true));
    for (fault, written) in [
        (ClientFault::DoneInSilence, true),
        (ClientFault::Silence, false),
    ] {
        if wire.hang_up.is_none() {
            wire = ServedClient::connect(&fake).await;
        }
        let editor: Arc<dyn ClientTools> = Arc::new(wire.editor());
        let _turn = bench.attach_editor(editor, client_capabilities(true, true, true));
        let path = bench.put("a.txt", "old\n");
        fake.open(&path, "old\n");
        let before = fake.methods().len();
        fake.fail("fs/write_text_file", fault);
        let edit = json!({"file_path": path, "old_string": "old", "new_string": "new"});
        let hang_up = wire.hang_up.take();
        let (answer, ()) = tokio::join!(bench.call("Edit", edit), async {
            wait_until("the write request", || {
                fake.methods()[before..].contains(&"fs/write_text_file")
            })
            .await;
            drop(hang_up);
        });
        if written {
            let reply = answer.expect("the write reached the disk");
            assert_contains!(reply.meta.warnings[0], "was closed before it answered");
            assert_eq!(bench.get("a.txt"), "new\n");
        } else {
            let error = answer.expect_err("the outcome is unknown");
            assert_contains!(error.model_text(), "was closed", "as it was before");
            assert!(CallFailure::from(error).meta.may_have_run);
            assert_eq!(bench.get("a.txt"), "old\n");
        }
    }
}

#[tokio::test]
async fn an_editor_that_is_gone_is_left_out() {
    let bench = EditorBench::new();
    let fake = Arc::new(FakeClient::default());
    fake.read_from_disk();
    let mut wire = ServedClient::connect(&fake).await;
    let editor: Arc<dyn ClientTools> = Arc::new(wire.editor());
    let _turn = bench.attach_editor(editor, client_capabilities(true, true, true));
    let path = bench.put("a.txt", "old\n");
    assert_eq!(
        bench
            .ok("Read", file_argument(&path))
            .await
            .meta
            .source
            .as_deref(),
        Some("editor")
    );
    drop(wire.hang_up.take());
    while wire.running.join_next().await.is_some() {}
    let reply = wait_for_some("the runner to notice the closed connection", async || {
        let reply = bench.ok("Read", file_argument(&path)).await;
        reply.meta.source.is_none().then_some(reply)
    });
    assert_contains!(reply.await.meta.warnings[0], "was closed");
    let edit = json!({"file_path": path, "old_string": "old", "new_string": "new"});
    bench.ok("Edit", edit).await;
    assert_eq!(bench.get("a.txt"), "new\n");
}

#[tokio::test]
async fn a_terminal_that_comes_too_late_is_released() {
    let bench = EditorBench::new();
    let fake = Arc::new(FakeClient::default());
    let wire = ServedClient::connect(&fake).await;
    let timeout = impatient_settings().timeout;
    let editor = EditorClient::new(
        wire.agent.clone(),
        client_capabilities(true, true, true),
        timeout,
        None,
    );
    let _turn = bench.attach_client(
        Arc::new(editor),
        client_capabilities(false, false, true),
        &[&bench.root],
        impatient_settings(),
    );
    let (open, gate) = oneshot::channel();
    fake.prepare("", None);
    fake.fail("terminal/create", ClientFault::Held(gate));
    let error = bench.refused("Bash", json!({"command": "x"})).await;
    assert!(CallFailure::from(error).meta.may_have_run);
    open.send(()).expect("the request still waits");
    wait_until("the release of the terminal", || {
        fake.methods().contains(&"terminal/release")
    })
    .await;
}
