//! MultiEdit: all or nothing, in order, one write.

use std::fs;

use proptest::prelude::*;
use punie_core::ids::RequestId;
use punie_tool::{ErrorCode, ToolContext};
use serde_json::{Value, json};

use super::Bench;
use crate::harness::tools::{call_with, reply_text};

fn edit(old: &str, new: &str) -> Value {
    json!({"old_string": old, "new_string": new})
}

#[tokio::test]
async fn edits_are_made_in_order_and_each_is_reported() {
    let bench = Bench::new();
    bench.put("f", "one\ntwo\nthree\n");
    let edits = json!([
        edit("one", "uno"),
        edit("uno\ntwo", "uno\ndos"),
        edit("three", "tres")
    ]);
    let reply = bench
        .ok("MultiEdit", json!({"file_path": "f", "edits": edits}))
        .await;
    assert_eq!(bench.get("f"), "uno\ndos\ntres\n");
    let said = reply_text(&reply);
    assert_starts_with!(said, "Edited ");
    assert_contains!(
        said,
        "1. 1 replacement at line 1.",
        "2. 1 replacement at lines 1-2.",
        "3. "
    );
    assert_eq!(reply.meta.files.len(), 1);
    assert_ne!(reply.meta.files[0].before, reply.meta.files[0].after);
    bench.assert_tidy();
}

#[tokio::test]
async fn one_edit_that_does_not_fit_keeps_all_from_being_made() {
    let bench = Bench::new();
    bench.put("f", "one\ntwo two\n");
    for (bad, code) in [
        (edit("none of this", "x"), ErrorCode::NoMatch),
        (edit("two", "dos"), ErrorCode::Ambiguous),
        (edit("two", "two"), ErrorCode::InvalidArgs),
        (
            json!({"old_string": "two", "new_string": "dos", "expected_count": 3}),
            ErrorCode::Ambiguous,
        ),
    ] {
        let args = json!({"file_path": "f", "edits": [edit("one", "uno"), bad]});
        let error = bench.refused("MultiEdit", args).await;
        assert_eq!(error.stable_code(), code, "{error}");
        assert_starts_with!(error.model_text(), "Edit 2 of 2: ");
        assert_ends_with!(error.model_text(), "None of the edits was made.");
        assert_eq!(bench.get("f"), "one\ntwo two\n");
    }
    bench.assert_tidy();
}

#[tokio::test]
async fn a_failed_edit_names_the_earlier_edit_that_replaced_its_text() {
    let bench = Bench::new();
    bench.put("f", "let total = 1;\nlet other = 2;\n");
    let edits = json!([
        edit("other", "rest"),
        edit("total", "sum"),
        edit("let total = 1;", "let total = 3;")
    ]);
    let error = bench
        .refused("MultiEdit", json!({"file_path": "f", "edits": edits}))
        .await;
    assert_error!(error, NoMatch);
    assert_starts_with!(error.model_text(), "Edit 3 of 3: ");
    assert_contains!(error.model_text(), "edit 2 of this call replaced it");
    let edits = json!([edit("other", "rest"), edit("never there", "x")]);
    let error = bench
        .refused("MultiEdit", json!({"file_path": "f", "edits": edits}))
        .await;
    assert_lacks!(error.model_text(), "of this call replaced");
}

#[tokio::test]
async fn an_edit_that_is_in_the_file_already_is_reported_as_no_change() {
    let bench = Bench::new();
    bench.put("f", "fn question() {\nlet answer = 42;\nold_name();\n");
    let done = edit(
        "fn question() {\nlet answer = 41;",
        "fn question() {\nlet answer = 42;",
    );
    let edits = json!([done, edit("old_name", "new_name")]);
    let reply = bench
        .ok("MultiEdit", json!({"file_path": "f", "edits": edits}))
        .await;
    assert_contains!(reply_text(&reply), "1. No change: ");
    assert_eq!(
        bench.get("f"),
        "fn question() {\nlet answer = 42;\nnew_name();\n"
    );
    let before = fs::metadata(bench.root.join("f"))
        .unwrap()
        .modified()
        .unwrap();
    let reply = bench
        .ok("MultiEdit", json!({"file_path": "f", "edits": [done]}))
        .await;
    assert!(
        reply_text(&reply).starts_with("No change in ") && reply.meta.files.is_empty(),
        "{}",
        reply_text(&reply)
    );
    assert_eq!(
        fs::metadata(bench.root.join("f"))
            .unwrap()
            .modified()
            .unwrap(),
        before
    );
}

#[tokio::test]
async fn a_dry_run_shows_a_diff_and_writes_nothing() {
    let bench = Bench::new();
    bench.put("f", "one\ntwo\nthree\n");
    let args = json!({"file_path": "f", "edits": [edit("one", "uno"), edit("three", "tres")], "dry_run": true});
    let reply = bench.ok("MultiEdit", args).await;
    let said = reply_text(&reply);
    assert_contains!(
        said,
        "Dry run, nothing was written.",
        "-one\n",
        "+uno\n",
        "-three\n",
        "+tres\n"
    );
    assert_eq!(bench.get("f"), "one\ntwo\nthree\n");
}

#[tokio::test]
async fn an_empty_first_old_string_makes_the_file() {
    let bench = Bench::new();
    let edits = json!([edit("", "one\ntwo\n"), edit("two", "dos")]);
    let reply = bench
        .ok("MultiEdit", json!({"file_path": "new/f", "edits": edits}))
        .await;
    assert_starts_with!(reply_text(&reply), "Created ");
    assert_eq!(bench.get("new/f"), "one\ndos\n");
    let error = bench
        .refused("MultiEdit", json!({"file_path": "new/f", "edits": edits}))
        .await;
    assert_error!(error, InvalidArgs);
    let args = json!({"file_path": "gone", "edits": [edit("a", "b")]});
    assert_error!(bench.refused("MultiEdit", args).await, NotFound);
}

#[tokio::test]
async fn invalid_calls_are_refused_with_their_error_code() {
    let bench = Bench::new();
    bench.put("f", "one\n");
    let many: Vec<Value> = (0..501).map(|n| edit(&n.to_string(), "x")).collect();
    for (args, code) in cases! {
        (json!({"file_path": "f", "edits": []}), ErrorCode::InvalidArgs),
        (json!({"file_path": "f"}), ErrorCode::InvalidArgs),
        (json!({"file_path": "f", "edits": many}), ErrorCode::TooLarge),
        (
            json!({"file_path": "f", "edits": [edit("one", "x"), edit("", "y")]}),
            ErrorCode::InvalidArgs,
        ),
        (
            json!({"file_path": "f", "edits": [{"old_string": "a", "new_string": "b", "all": true}]}),
            ErrorCode::InvalidArgs,
        ),
        (
            json!({"file_path": "f", "edits": [edit("one", "x")], "expected_sha256": "0".repeat(64)}),
            ErrorCode::Stale,
        ),
        (
            json!({"file_path": "../root-evil/f", "edits": [edit("a", "b")]}),
            ErrorCode::OutsideWorkspace,
        ),
        (
            json!({"file_path": ".git/hooks/pre-commit", "edits": [edit("", "x")]}),
            ErrorCode::PolicyDenied,
        ),
    } {
        let error = bench.refused("MultiEdit", args.clone()).await;
        assert_eq!(error.stable_code(), code, "{args}: {error}");
    }
    assert_eq!(bench.get("f"), "one\n");
}

#[tokio::test]
async fn a_cancelled_call_changes_nothing() {
    let bench = Bench::new();
    bench.put("f", "one\n");
    let cx = ToolContext::for_detached_call(RequestId::new());
    cx.cancel.cancel();
    let args = json!({"file_path": "f", "edits": [edit("one", "uno")]});
    let error = call_with(&bench.tools, "MultiEdit", args, cx)
        .await
        .expect_err("cancelled");
    assert_error!(error, Cancelled);
    assert_eq!(bench.get("f"), "one\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn many_edits_at_once_are_the_same_edits_one_after_another(
        lines in prop::collection::vec("[a-d]{1,3}", 1..12),
        edits in prop::collection::vec(("[a-d]{1,2}", "[a-f]{0,3}"), 1..6),
        crlf: bool,
    ) {
        let ending = if crlf { "\r\n" } else { "\n" };
        let content = lines.join(ending) + ending;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::new();
            bench.put("one", &content);
            bench.put("many", &content);
            let all: Vec<Value> = edits
                .iter()
                .filter(|(old, new)| old != new)
                .map(|(old, new)| json!({"old_string": old, "new_string": new, "replace_all": true}))
                .collect();
            let mut fits = !all.is_empty();
            for edit in &all {
                let mut args = edit.clone();
                args["file_path"] = "one".into();
                fits = fits && bench.call("Edit", args).await.is_ok();
            }
            let made = bench.call("MultiEdit", json!({"file_path": "many", "edits": all})).await;
            prop_assert_eq!(made.is_ok(), fits);
            let expected = if fits { bench.get("one") } else { content.clone() };
            prop_assert_eq!(bench.get("many"), expected);
            Ok(())
        })?;
    }
}
