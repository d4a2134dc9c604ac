//! This machine as an ACP client: files, permission requests and extension methods, as the protocol defines them.

use super::*;
use punie_editor::protocol::{
    Implementation, PermissionOption, PermissionOptionKind, ReadTextFileRequest,
    RequestPermissionOutcome, RequestPermissionRequest, SessionNotification, SessionUpdate,
    ToolCallUpdate, ToolCallUpdateFields, WriteTextFileRequest,
};

fn local_client(bench: &EditorBench) -> &dyn ClientTools {
    &bench.local
}

async fn read_part(
    bench: &EditorBench,
    line: Option<u32>,
    limit: Option<u32>,
) -> Result<String, i32> {
    let request = ReadTextFileRequest::new("s", bench.root.join("a.txt"))
        .line(line)
        .limit(limit);
    local_client(bench)
        .read_text_file(request)
        .await
        .map(|a| a.content)
        .map_err(|error| error.code.value())
}

#[tokio::test]
async fn lines_are_counted_from_1_and_keep_their_endings() {
    let bench = EditorBench::new();
    bench.put("a.txt", "one\r\ntwo\u{c}same line\nthree\nfour");
    assert_eq!(
        read_part(&bench, None, None).await.expect("all"),
        "one\r\ntwo\u{c}same line\nthree\nfour"
    );
    assert_eq!(
        read_part(&bench, Some(2), Some(2)).await.expect("two"),
        "two\u{c}same line\nthree\n"
    );
    assert_eq!(
        read_part(&bench, Some(4), None).await.expect("the rest"),
        "four"
    );
    assert_eq!(
        read_part(&bench, None, Some(1)).await.expect("the first"),
        "one\r\n"
    );
    assert_eq!(
        read_part(&bench, Some(9), Some(2))
            .await
            .expect("past the end"),
        ""
    );
    assert_eq!(
        read_part(&bench, Some(1), Some(u32::MAX))
            .await
            .expect("more than there is")
            .len(),
        29
    );
    assert_eq!(read_part(&bench, Some(0), None).await, Err(-32_602));
    assert_eq!(read_part(&bench, None, Some(0)).await, Err(-32_602));
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let bench = EditorBench::new();
    assert_eq!(read_part(&bench, None, None).await, Err(-32_002));
    bench.put("a.txt", b"\x89PNG\r\n\x1a\n\0\0");
    assert_eq!(
        read_part(&bench, None, None).await,
        Err(-32_602),
        "it is no text"
    );
}

#[tokio::test]
async fn a_write_puts_exactly_what_is_sent() {
    let bench = EditorBench::new();
    bench.put("a.txt", "old\r\nlines\r\n");
    for (name, text) in [
        ("a.txt", "new\nlines\n"),
        ("made/for/it.txt", "ünï\r\n"),
        ("a.txt", ""),
    ] {
        let request = WriteTextFileRequest::new("s", bench.root.join(name), text);
        local_client(&bench)
            .write_text_file(request)
            .await
            .expect(name);
        assert_eq!(
            bench.get(name),
            text,
            "line endings are written as the agent sent them"
        );
    }
}

async fn ask_policy(policy: LocalPolicy, kinds: &[PermissionOptionKind]) -> Option<String> {
    let bench = EditorBench::new();
    let filters: FilterFactory = Arc::new(|| Box::new(UnfilteredStream));
    let local = LocalClient::new(
        local_terminals(&bench.root, filters),
        bench.workspace.clone(),
        policy,
    );
    let option = |(at, kind): (usize, &PermissionOptionKind)| {
        PermissionOption::new(format!("option-{at}"), "Whatever it says", *kind)
    };
    let options = kinds.iter().enumerate().map(option).collect();
    let call = ToolCallUpdate::new("call", ToolCallUpdateFields::new());
    let answer =
        ClientTools::request_permission(&local, RequestPermissionRequest::new("s", call, options))
            .await;
    match answer.expect("an answer").outcome {
        RequestPermissionOutcome::Selected(selected) => Some(selected.option_id.to_string()),
        _ => None,
    }
}

#[tokio::test]
async fn consent_follows_the_owners_policy_and_what_an_option_means() {
    use PermissionOptionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
    let all = [RejectOnce, AllowAlways, AllowOnce, RejectAlways];
    assert_eq!(
        ask_policy(LocalPolicy::AllowOnce, &all).await.as_deref(),
        Some("option-2")
    );
    assert_eq!(
        ask_policy(LocalPolicy::Deny, &all).await.as_deref(),
        Some("option-0")
    );
    assert_eq!(
        ask_policy(LocalPolicy::AllowOnce, &[RejectOnce, AllowAlways]).await,
        None,
        "an option that allows always is never chosen"
    );
    assert_eq!(ask_policy(LocalPolicy::Deny, &[AllowOnce]).await, None);
    assert_eq!(ask_policy(LocalPolicy::AllowOnce, &[]).await, None);
    assert_eq!(LocalPolicy::default(), LocalPolicy::Deny);
}

#[tokio::test]
async fn it_has_no_extensions_and_knows_who_is_connected() {
    let bench = EditorBench::new();
    let local = local_client(&bench);
    let refused = local
        .ext_method("_x/y".to_owned(), json!({}))
        .await
        .expect_err("there are no extension methods");
    assert_eq!(refused.code.value(), -32_601);
    local
        .ext_notification("_x/y".to_owned(), json!({}))
        .await
        .expect("harmless");
    assert!(
        local
            .discover_tools("s".into())
            .await
            .expect("a catalog")
            .descriptors()
            .is_empty()
    );
    let nothing =
        SessionUpdate::ToolCallUpdate(ToolCallUpdate::new("call", ToolCallUpdateFields::new()));
    local
        .session_update(SessionNotification::new("s", nothing))
        .await
        .expect("harmless");
    assert_eq!(bench.local.connected_agent(), None);
    local.on_connect(Implementation::new("An Agent", "1.0"));
    assert_eq!(
        bench
            .local
            .connected_agent()
            .expect("`on_connect` stored the name")
            .name,
        "An Agent"
    );
}
