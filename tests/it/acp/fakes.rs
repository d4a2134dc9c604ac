//! The fake editor: it behaves as the other tests assume.

use super::*;
use crate::harness::fake_client::{ClientFault, SaveBehaviour};
use punie_editor::protocol::{
    CreateTerminalRequest, Error, KillTerminalRequest, ReadTextFileRequest, ReleaseTerminalRequest,
    RequestPermissionOutcome, RequestPermissionRequest, TerminalExitStatus, TerminalOutputRequest,
    ToolCallUpdate, ToolCallUpdateFields, WaitForTerminalExitRequest, WriteTextFileRequest,
};
use punie_editor::tool_catalog::{ToolCatalog, ToolDescriptor};

fn fake_client() -> FakeClient {
    FakeClient::default()
}

async fn read_text(fake: &FakeClient, path: &Path) -> Result<String, i32> {
    let answer = fake
        .read_text_file(ReadTextFileRequest::new("s", path))
        .await;
    answer
        .map(|answer| answer.content)
        .map_err(|error| error.code.value())
}

#[tokio::test]
async fn a_file_that_nobody_opened_is_an_error() {
    let dir = tempfile::tempdir().expect("a folder");
    let (fake, path) = (fake_client(), dir.path().join("a.txt"));
    std::fs::write(&path, "disk").expect("written");
    assert_eq!(read_text(&fake, &path).await, Err(-32_002));
    fake.read_from_disk();
    assert_eq!(read_text(&fake, &path).await.as_deref(), Ok("disk"));
    fake.open(&path, "open");
    assert_eq!(read_text(&fake, &path).await.as_deref(), Ok("open"));
    fake.next_text(&path, "first");
    fake.next_text(&path, "second");
    let texts = [
        read_text(&fake, &path).await,
        read_text(&fake, &path).await,
        read_text(&fake, &path).await,
    ];
    assert_eq!(
        texts.map(Result::unwrap),
        ["first", "second", "open"],
        "first in, first out"
    );
}

#[tokio::test]
async fn a_write_is_saved_as_the_test_wants() {
    let dir = tempfile::tempdir().expect("a folder");
    let (fake, path) = (fake_client(), dir.path().join("a.txt"));
    for (saving, text, on_disk) in [
        (SaveBehaviour::AtOnce, "new", "new"),
        (SaveBehaviour::Never, "unsaved", "new"),
        (SaveBehaviour::As(str::to_uppercase), "newer", "NEWER"),
    ] {
        fake.save(saving);
        fake.write_text_file(WriteTextFileRequest::new("s", &path, text))
            .await
            .expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), on_disk);
    }
}

#[tokio::test]
async fn questions_are_answered_in_order_and_then_put_away() {
    let fake = fake_client();
    fake.choose("one");
    fake.choose("two");
    let mut chosen = Vec::new();
    for _ in 0..3 {
        let call = ToolCallUpdate::new("call", ToolCallUpdateFields::new());
        let request = RequestPermissionRequest::new("s", call, Vec::new());
        match fake
            .request_permission(request)
            .await
            .expect("an answer")
            .outcome
        {
            RequestPermissionOutcome::Selected(selected) => {
                chosen.push(selected.option_id.to_string());
            }
            _ => chosen.push("cancelled".to_owned()),
        }
    }
    assert_eq!(chosen, ["one", "two", "cancelled"]);
}

#[tokio::test]
async fn prepared_commands_are_the_ones_that_are_created() {
    let fake = fake_client();
    let create = |command: &str| fake.create_terminal(CreateTerminalRequest::new("s", command));
    assert!(create("x").await.is_err(), "none was prepared");
    fake.prepare("first", Some(TerminalExitStatus::new().exit_code(1)));
    fake.prepare("second", None);
    let (first, second) = (
        create("a").await.expect("one"),
        create("b").await.expect("two"),
    );
    let output = |id| fake.terminal_output(TerminalOutputRequest::new("s", id));
    assert_eq!(
        output(first.terminal_id.clone())
            .await
            .expect("text")
            .output,
        "first"
    );
    assert_eq!(
        output(second.terminal_id.clone())
            .await
            .expect("text")
            .output,
        "second"
    );
    let killed = KillTerminalRequest::new("s", second.terminal_id.clone());
    fake.kill_terminal(killed).await.expect("killed");
    let ended = WaitForTerminalExitRequest::new("s", second.terminal_id);
    let ended = fake
        .wait_for_terminal_exit(ended)
        .await
        .expect("an end")
        .exit_status;
    assert_eq!(ended.signal.as_deref(), Some("SIGKILL"));
    fake.release_terminal(ReleaseTerminalRequest::new("s", first.terminal_id.clone()))
        .await
        .expect("released");
    assert!(
        output(first.terminal_id).await.is_err(),
        "a released terminal is unknown"
    );
}

#[tokio::test]
async fn calls_are_recorded_in_order_and_go_wrong_when_they_shall() {
    let (fake, path) = (fake_client(), Path::new("/a.txt"));
    fake.open(path, "text");
    fake.fail(
        "fs/read_text_file",
        ClientFault::Error(Error::internal_error()),
    );
    assert_eq!(read_text(&fake, path).await, Err(-32_603));
    assert_eq!(
        read_text(&fake, path).await.as_deref(),
        Ok("text"),
        "a fault applies to one call"
    );
    fake.fail("fs/read_text_file", ClientFault::Silence);
    let silent = tokio::time::timeout(Duration::from_millis(1), read_text(&fake, path)).await;
    assert!(silent.is_err(), "{silent:?}");
    let tool = ToolDescriptor {
        name: "rename".to_owned(),
        kind: "edit".to_owned(),
        description: String::new(),
        parameters: json!({}),
        requires_permission: false,
        categories: Vec::new(),
    };
    fake.offer_tools(ToolCatalog::new(vec![tool]));
    assert_eq!(
        fake.discover_tools("s-7".into())
            .await
            .expect("a catalog")
            .descriptors()[0]
            .name,
        "rename"
    );
    assert!(
        fake.ext_method("_other".to_owned(), json!({}))
            .await
            .is_err()
    );
    assert_eq!(
        fake.ext_method("_test/echo".to_owned(), json!([1]))
            .await
            .expect("echo"),
        json!([1])
    );
    let expected = [
        "fs/read_text_file",
        "fs/read_text_file",
        "fs/read_text_file",
        "_punie/discover_tools",
        "ext",
        "ext",
    ];
    assert_eq!(fake.methods(), expected);
    assert_eq!(fake.calls()[3].1, "s-7");
}
