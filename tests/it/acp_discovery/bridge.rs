//! A tool that only an editor has, called through the registry.

use std::sync::Arc;
use std::time::Duration;

use punie_core::ids::{ConversationId, RequestId};
use punie_editor::protocol::Error;
use punie_editor::{EditorSettings, EditorToolDiscovery, TurnHandle, discover_editor_tools};
use punie_tool::request::{CallOutcome, SealContext, ToolReply};
use punie_tool::{ErrorCode, ToolContext, ToolEffect, ToolError};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::editor::{
    ConnectedEditor, DeviceTools, EditorReply, connect_editor, connect_with, discovery_capability,
    tool_description, tool_listing,
};
use crate::harness::tools::reply_text;

const METHOD: &str = "_ide_find";

/// An editor that offers `ide_find`, gives a prepared answer to its calls, and has a turn open for all conversations.
struct AttachedEditor {
    desk: DeviceTools,
    editor: ConnectedEditor,
    turn: TurnHandle,
    _found: EditorToolDiscovery,
}

async fn attach_editor(kind: &str, says: EditorReply) -> AttachedEditor {
    attached_with(kind, says, EditorSettings::default()).await
}

async fn attached_with(kind: &str, says: EditorReply, settings: EditorSettings) -> AttachedEditor {
    let setup = DeviceTools::new();
    let says = [
        tool_listing(&[tool_description("ide_find", kind)]),
        (METHOD, says),
    ];
    let editor = connect_with("one", discovery_capability(), &says, settings).await;
    let found = discover_editor_tools(&editor.session, setup.registry(), &setup.editors).await;
    let turn = setup.editors.open_turn(Arc::clone(&editor.session), None);
    AttachedEditor {
        desk: setup,
        editor,
        turn,
        _found: found,
    }
}

impl AttachedEditor {
    async fn call(&self) -> Result<ToolReply, ToolError> {
        self.desk.call("ide_find", json!({"symbol": "main"})).await
    }

    fn asked(&self) -> Vec<Value> {
        self.editor.log.asked(METHOD)
    }
}

fn error_parts(answer: Result<ToolReply, ToolError>) -> (ErrorCode, String) {
    let error = answer.expect_err("it is refused");
    (error.stable_code(), error.model_text().to_owned())
}

#[tokio::test]
async fn a_call_reaches_the_editor_with_its_session_arguments_and_request() {
    let it = attach_editor("search", EditorReply::This(json!("src/main.rs:1"))).await;
    let cx = ToolContext::for_detached_call(RequestId::parse("r-1").expect("an id"));
    let answer = it
        .desk
        .call_with("ide_find", json!({"symbol": "main"}), cx)
        .await
        .expect("answered");
    assert_eq!(
        reply_text(&answer),
        "src/main.rs:1",
        "a text is returned as it is"
    );
    let params = json!({
        "sessionId": "one",
        "args": {"symbol": "main"},
        "_meta": {"punie": {"requestId": "r-1", "conversationId": "r-1"}},
    });
    assert_eq!(it.asked(), [params]);

    for (value, shown) in [
        (json!({"places": [1, 2]}), r#"{"places":[1,2]}"#),
        (json!(null), "null"),
        (json!(12), "12"),
        (json!(["a"]), r#"["a"]"#),
    ] {
        let it = attach_editor("search", EditorReply::This(value)).await;
        assert_eq!(
            reply_text(&it.call().await.expect("answered")),
            shown,
            "everything else is JSON"
        );
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_reach_no_editor() {
    let it = attach_editor("search", EditorReply::This(json!("found"))).await;
    for (args, words) in cases! {
        (json!({}), "ide_find: missing key `symbol`."),
        (json!({"symbol": 7}), "`symbol`: want string, but got number"),
        (json!({"symbol": "a", "sybmol": "b"}), "unknown key `sybmol`"),
        (json!(["a"]), "the arguments must be a JSON object, not an array"),
    } {
        let (code, said) = error_parts(it.desk.call("ide_find", args.clone()).await);
        assert_eq!(code, ErrorCode::InvalidArgs);
        assert_contains!(said, words; "{args}");
    }
    let twice = it
        .desk
        .registry()
        .find("ide_find")
        .expect("there")
        .decode_call(r#"{"symbol":"a","symbol":"b"}"#);
    assert_contains!(
        twice.map(drop).expect_err("twice").model_text(),
        "is there twice"
    );
    assert_eq!(it.asked(), [json!(null); 0]);
}

#[tokio::test]
async fn what_a_call_may_do_follows_from_kind_and_permission() {
    let setup = DeviceTools::new();
    let kinds = [
        "read",
        "search",
        "think",
        "fetch",
        "edit",
        "delete",
        "move",
        "execute",
        "switch_mode",
        "odd",
    ];
    let mut tools: Vec<Value> = kinds
        .iter()
        .map(|kind| tool_description(&format!("ide_{kind}"), kind))
        .collect();
    let mut guarded = tool_description("ide_guarded", "read");
    guarded["requires_permission"] = json!(true);
    guarded["categories"] = json!(["python", "editor"]);
    tools.push(guarded);
    let editor = connect_editor("one", discovery_capability(), &[tool_listing(&tools)]).await;
    let _found = discover_editor_tools(&editor.session, setup.registry(), &setup.editors).await;
    for kind in kinds {
        let entry = setup
            .registry()
            .find(&format!("ide_{kind}"))
            .expect("there");
        let looks = ["read", "search", "think", "fetch"].contains(&kind);
        let effect = if looks {
            ToolEffect::Reads
        } else {
            ToolEffect::Executes
        };
        assert_eq!(entry.tool_spec().effect, effect, "{kind}");
        assert_eq!(entry.effect_of_call(r#"{"symbol":"a"}"#), effect, "{kind}");
        assert!(!entry.tool_spec().always_asks);
        let body = entry.tool_spec().catalog_body();
        assert_eq!(body["kind"], if kind == "odd" { "other" } else { kind });
        assert_fields!(body, {"requires_permission": !looks, "categories": ["editor"]});
    }
    let guarded = setup.registry().find("ide_guarded").expect("there");
    assert_eq!(guarded.tool_spec().effect, ToolEffect::Executes);
    assert!(guarded.tool_spec().always_asks);
    let body = guarded.tool_spec().catalog_body();
    assert_fields!(body, {
        "requires_permission": true,
        "kind": "read",
        "categories": ["editor", "python"],
        "origin": "editor: Pad one",
    });
}

#[tokio::test]
async fn a_tool_that_wants_permission_is_asked_about_whatever_the_owner_asks_about() {
    let setup = DeviceTools::new();
    let mut guarded = tool_description("ide_guarded", "read");
    guarded["requires_permission"] = json!(true);
    let settings = EditorSettings {
        ask: Vec::new(),
        ..EditorSettings::default()
    };
    let tools = [guarded, tool_description("ide_edits", "edit")];
    let editor = connect_with(
        "one",
        discovery_capability(),
        &[tool_listing(&tools)],
        settings,
    )
    .await;
    let _found = discover_editor_tools(&editor.session, setup.registry(), &setup.editors).await;
    let _turn = setup.editors.open_turn(Arc::clone(&editor.session), None);
    for (name, asks) in [("ide_guarded", true), ("ide_edits", false)] {
        let cx = ToolContext::for_detached_call(RequestId::new());
        let followed = setup.follow(name, &cx, &json!({"symbol": "a"}));
        assert_eq!(
            followed.expect("a turn is open").wants_approval(),
            asks,
            "{name}"
        );
    }
}

#[tokio::test]
async fn an_editors_error_is_told_in_its_words_with_a_code() {
    for (error, code, words) in cases! {
        (
            Error::new(-32_000, "The index is not ready.").data(json!("try later")),
            ErrorCode::Io,
            "ide_find failed in Pad one: The index is not ready. (try later).",
        ),
        (Error::new(-32_000, "No.").data(json!({"why": 1})), ErrorCode::Io, "No. ({\"why\":1})."),
        (
            Error::method_not_found(),
            ErrorCode::UnknownTool,
            "It lists this tool and does not serve it",
        ),
        (
            Error::invalid_params().data(json!("no such symbol")),
            ErrorCode::InvalidArgs,
            "(no such symbol).",
        ),
        (Error::new(-32_002, "Gone"), ErrorCode::NotFound, "Gone."),
        (Error::request_cancelled(), ErrorCode::Cancelled, "cancelled"),
    } {
        let it = attach_editor("search", EditorReply::Fails(error)).await;
        let (stable, said) = error_parts(it.call().await);
        assert_eq!(stable, code, "{said}");
        assert_contains!(said, words);
    }
    let it = attach_editor(
        "search",
        EditorReply::Fails(Error::new(1, "é".repeat(10_000))),
    )
    .await;
    assert!(error_parts(it.call().await).1.len() < 2_200);
}

#[tokio::test(start_paused = true)]
async fn an_editor_that_does_not_answer_is_told_to_give_up() {
    let settings = EditorSettings {
        tool_timeout: Duration::from_secs(5),
        ..EditorSettings::default()
    };
    let it = attached_with("edit", EditorReply::Nothing, settings).await;
    let error = it.call().await.expect_err("no answer");
    assert_error!(error, Timeout: "Pad one did not answer ide_find within 5 s");
    assert_ends_with!(
        error.model_text(),
        "It may have had its effect all the same."
    );
    assert!(
        punie_tool::request::CallFailure::from(error)
            .meta
            .may_have_run
    );
    told_to_give_up(&it).await;

    let look = attach_editor("search", EditorReply::Nothing).await;
    let mut cx = ToolContext::for_detached_call(RequestId::new());
    cx.deadline = Some(Instant::now() + Duration::from_secs(3));
    let (code, said) = error_parts(
        look.desk
            .call_with("ide_find", json!({"symbol": "a"}), cx)
            .await,
    );
    assert_eq!(code, ErrorCode::Timeout);
    assert_contains!(said, "within 3 s"; "the call's own deadline comes first");
    assert_ends_with!(said, "told to give it up."; "the call's own deadline comes first");
    let (_, said) = error_parts(look.call().await);
    assert_contains!(said, "within 60 s");
}

async fn told_to_give_up(it: &AttachedEditor) {
    crate::harness::wait::wait_until("the editor to receive the cancellation", || {
        it.editor.log.given_up() == [METHOD]
    })
    .await;
}

#[tokio::test]
async fn a_call_that_is_taken_back_is_given_up() {
    let it = attach_editor("edit", EditorReply::Nothing).await;
    let cx = ToolContext::for_detached_call(RequestId::new());
    let cancel = cx.cancel.clone();
    let sent = async {
        crate::harness::wait::wait_until("the editor to be asked", || !it.asked().is_empty()).await;
        cancel.cancel();
    };
    let (answer, ()) = tokio::join!(
        it.desk.call_with("ide_find", json!({"symbol": "a"}), cx),
        sent
    );
    let (code, said) = error_parts(answer);
    assert_eq!(code, ErrorCode::Cancelled);
    assert_starts_with!(said, "Pad one was told to give up ide_find.");
    told_to_give_up(&it).await;

    let cx = ToolContext::for_detached_call(RequestId::new());
    cx.cancel.cancel();
    let before = it.asked().len();
    let answer = it
        .desk
        .call_with("ide_find", json!({"symbol": "a"}), cx)
        .await;
    assert_eq!(error_parts(answer).0, ErrorCode::Cancelled);
    assert_eq!(
        it.asked().len(),
        before,
        "nothing is sent for a call that was taken back before"
    );
}

#[tokio::test]
async fn without_a_turn_nothing_is_sent() {
    let it = attach_editor("search", EditorReply::This(json!("found"))).await;
    it.turn.stop().await;
    let (code, said) = error_parts(it.call().await);
    assert_eq!(code, ErrorCode::NotFound);
    assert_contains!(said, "no editor has attached itself", "Attach");
    assert_eq!(it.asked(), [json!(null); 0]);
}

#[tokio::test]
async fn an_editor_that_has_gone_answers_nothing() {
    let mut it = attach_editor("edit", EditorReply::This(json!("done"))).await;
    it.editor.leave().await;
    let error = it.call().await.expect_err("the editor is gone");
    assert_error!(error, Interrupted: "The connection to Pad one ended");
}

#[tokio::test]
async fn a_long_answer_is_clipped_as_every_other() {
    let lines: Vec<String> = (0..20_000).map(|n| format!("line {n}\n")).collect();
    let long = lines.concat();
    let it = attach_editor("search", EditorReply::This(json!(long))).await;
    let answer = it.call().await.expect("answered");
    let folder = tempfile::tempdir().expect("a folder");
    let outputs =
        punie_text::output::OutputStore::open_output_folder(folder.path()).expect("a store");
    let sealed = CallOutcome::Ok(answer).seal(&SealContext {
        redactor: &punie_text::redact::Redactor::default(),
        store: &outputs,
        request: &RequestId::new(),
        tool: &punie_core::ids::ToolName::parse("ide_find").expect("a name"),
        duration: Duration::ZERO,
        attempt: None,
    });
    let payload: Value = serde_json::from_str(sealed.payload_json()).expect("JSON");
    let shown = payload["result"].as_str().expect("text");
    assert!(
        shown.len() < 40_000 && shown.contains("line 0\n") && shown.contains("line 19999"),
        "{}",
        shown.len()
    );
    assert_eq!(payload["meta"]["truncated"], true);
    assert!(
        payload["meta"]["handle"].is_string(),
        "the whole output is stored"
    );
}

#[tokio::test]
async fn two_sessions_that_offer_one_name_share_it_and_each_gets_its_own_calls() {
    let setup = DeviceTools::new();
    let mut other = tool_description("ide_find", "edit");
    other["parameters"] =
        json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}});
    let says = |text: &str| (METHOD, EditorReply::This(json!(text)));
    let one = connect_editor(
        "one",
        discovery_capability(),
        &[
            tool_listing(&[tool_description("ide_find", "search")]),
            says("of one"),
        ],
    )
    .await;
    let two = connect_editor(
        "two",
        discovery_capability(),
        &[tool_listing(&[other]), says("of two")],
    )
    .await;
    let first = discover_editor_tools(&one.session, setup.registry(), &setup.editors).await;
    let promised = setup
        .registry()
        .find("ide_find")
        .expect("there")
        .decode_call(r#"{"symbol":"a"}"#)
        .expect("the arguments fit the schema");
    let second = discover_editor_tools(&two.session, setup.registry(), &setup.editors).await;
    let shared = setup
        .registry()
        .callable_entries()
        .iter()
        .filter(|entry| entry.tool_spec().name == "ide_find")
        .count();
    assert_eq!(shared, 1);
    let effect = setup
        .registry()
        .find("ide_find")
        .expect("there")
        .tool_spec()
        .effect;
    assert_eq!(
        effect,
        ToolEffect::Executes,
        "the stronger effect of the two tools"
    );

    let talk = |name: &str| ConversationId::parse(name).expect("an id");
    let _one = setup
        .editors
        .open_turn(Arc::clone(&one.session), Some(talk("t1")));
    let two_turn = setup
        .editors
        .open_turn(Arc::clone(&two.session), Some(talk("t2")));
    let cx = |name: &str| ToolContext {
        conversation: talk(name),
        ..ToolContext::for_detached_call(RequestId::new())
    };
    let of_one = setup
        .call_with("ide_find", json!({"symbol": "a"}), cx("t1"))
        .await
        .expect("answered");
    let of_two = setup
        .call_with("ide_find", json!({"name": "a"}), cx("t2"))
        .await
        .expect("answered");
    assert_eq!(reply_text(&of_one), "of one");
    assert_eq!(reply_text(&of_two), "of two");

    // Each editor has its own schema. Arguments for the one do not fit the other and reach neither.
    let (code, said) = error_parts(
        setup
            .call_with("ide_find", json!({"symbol": "a"}), cx("t2"))
            .await,
    );
    assert_eq!(code, ErrorCode::InvalidArgs);
    assert_eq!(said.as_str(), "ide_find: missing key `name`.");
    assert_eq!(one.log.asked(METHOD).len(), 1);
    assert_eq!(two.log.asked(METHOD).len(), 1);

    // A call that was decoded as read-only is not run by an editor whose tool makes changes.
    let late = cx("t2");
    let followed = setup.follow("ide_find", &late, &json!({"symbol": "a"}));
    let (code, said) = error_parts(promised.run_call(late).await);
    assert_eq!(code, ErrorCode::Stale, "{said}");
    drop(followed);

    // A session that does not offer the tool does not run it in place of another editor.
    drop((second, two_turn));
    let three = connect_editor("three", json!({}), &[]).await;
    let _three = setup
        .editors
        .open_turn(Arc::clone(&three.session), Some(talk("t3")));
    let (code, said) = error_parts(
        setup
            .call_with("ide_find", json!({"symbol": "a"}), cx("t3"))
            .await,
    );
    assert_eq!(code, ErrorCode::NotFound);
    assert_contains!(said, "is offered by another editor, not by Pad three");
    drop(first);
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_told_as_one_of_a_tool_that_may_have_run() {
    let too_long =
        || EditorReply::Fails(Error::new(punie_editor::agent::TOO_LONG_ERROR, "too long"));
    for (kind, may_have_run) in [("edit", true), ("search", false)] {
        let error = attach_editor(kind, too_long())
            .await
            .call()
            .await
            .expect_err("the answer is too long");
        assert_error!(error, TooLarge: "more than 32 MiB");
        assert_eq!(
            error.model_text().contains("may have had its effect"),
            may_have_run,
            "{error}"
        );
        assert_eq!(
            error.error_meta().may_have_run,
            may_have_run,
            "a read-only tool changed nothing"
        );
    }
}
