//! What a conversation is told of a file that changed since it read it.

use std::fs;

use punie_core::ids::{ConversationId, RequestId};
use punie_tool::{ToolContext, ToolError, ToolReply};
use serde_json::{Value, json};

use super::{Bench, counted};
use crate::harness::tools::{call_with, reply_text};

/// A conversation with the tools of a bench.
struct Talk<'a> {
    bench: &'a Bench,
    id: ConversationId,
}

impl<'a> Talk<'a> {
    fn new(bench: &'a Bench) -> Self {
        Self {
            bench,
            id: ConversationId::OwnOf(RequestId::new()),
        }
    }

    async fn call(&self, tool: &str, args: Value) -> Result<ToolReply, ToolError> {
        let cx = ToolContext {
            conversation: self.id.clone(),
            ..ToolContext::for_detached_call(RequestId::new())
        };
        call_with(&self.bench.tools, tool, args, cx).await
    }

    async fn said(&self, tool: &str, args: Value) -> String {
        reply_text(
            &self
                .call(tool, args)
                .await
                .unwrap_or_else(|error| panic!("{tool}: {error}")),
        )
        .to_owned()
    }
}

fn edit(old: &str, new: &str) -> Value {
    json!({"file_path": "f", "old_string": old, "new_string": new})
}

/// Changes three lines, as somebody else would.
fn change(bench: &Bench) {
    let text = bench.get("f");
    bench.put(
        "f",
        text.replace("line 12\nline 13\nline 14\n", "one\ntwo\nthree\n"),
    );
}

#[tokio::test]
async fn an_edit_is_made_and_told_what_changed_since_the_file_was_read() {
    let bench = Bench::new();
    bench.put("f", counted(30, "line {}\n"));
    let talk = Talk::new(&bench);
    let other = Talk::new(&bench);
    talk.said("Read", json!({"file_path": "f"})).await;
    assert!(
        !talk
            .said("Edit", edit("line 2\n", "LINE 2\n"))
            .await
            .contains("changed since"),
        "its own edit"
    );
    change(&bench);
    let error = talk
        .call("Edit", edit("line 13\n", "x\n"))
        .await
        .expect_err("it is gone");
    assert_error!(error, NoMatch);
    assert_ends_with!(
        error.model_text(),
        "/f changed since you read it: lines 12-14."
    );
    let said = other.said("Edit", edit("line 3\n", "LINE 3\n")).await;
    assert_lacks!(said, "changed since"; "the other one never read it");
    let said = talk.said("Edit", edit("line 20\n", "LINE 20\n")).await;
    assert_contains!(said, "/f changed since you read it: lines 3, 12-14.");
    let said = talk.said("Edit", edit("line 21\n", "LINE 21\n")).await;
    assert_lacks!(said, "changed since"; "it was told once");
}

#[tokio::test]
async fn multi_edit_and_apply_patch_tell_of_it_too() {
    let bench = Bench::new();
    bench.put("f", counted(30, "line {}\n"));
    let talk = Talk::new(&bench);
    talk.said("Read", json!({"file_path": "f", "offset": 1, "limit": 8}))
        .await;
    change(&bench);
    let edits = json!([{"old_string": "line 2\n", "new_string": "LINE 2\n"}]);
    let said = talk
        .said("MultiEdit", json!({"file_path": "f", "edits": edits}))
        .await;
    assert_contains!(
        said,
        "changed since you read it: outside lines 1-8, which you read."
    );
    bench.put("f", bench.get("f").replace("line 5\n", "five\n"));
    let patch = "*** Begin Patch\n*** Update File: f\n@@\n-line 20\n+LINE 20\n*** End Patch\n";
    let said = talk.said("ApplyPatch", json!({"patch": patch})).await;
    assert_contains!(said, "changed since you read it: line 5.");
    let said = talk.said("Edit", edit("line 21\n", "LINE 21\n")).await;
    assert_lacks!(said, "changed since");
}

#[tokio::test]
async fn a_write_over_a_file_that_changed_is_refused() {
    let bench = Bench::new();
    bench.put("f", counted(30, "line {}\n"));
    let talk = Talk::new(&bench);
    let write = |content: &str| json!({"file_path": "f", "content": content});
    talk.said("Read", json!({"file_path": "f"})).await;
    change(&bench);
    let before = bench.get("f");
    let error = talk
        .call("Write", write("new\n"))
        .await
        .expect_err("it changed");
    assert_error!(error, Stale: "changed since you read it: lines 12-14. Nothing was written.");
    assert_eq!(bench.get("f"), before);
    talk.said("Read", json!({"file_path": "f"})).await;
    talk.said("Write", write("new\n")).await;
    talk.said("Write", write("newer\n")).await;
    // A file that is gone holds nobody's change, and who names the hash knows the file.
    fs::remove_file(bench.root.join("f")).unwrap();
    let said = talk.said("Write", write("again\n")).await;
    assert_starts_with!(said, "Created");
    bench.put("f", "other\n");
    let read = Talk::new(&bench)
        .call("Read", json!({"file_path": "f"}))
        .await
        .expect("read");
    let mut args = write("known\n");
    args["expected_sha256"] = json!(read.meta.sha256);
    talk.said("Write", args).await;
    assert_eq!(bench.get("f"), "known\n");
    // A conversation that never read it is not asked to.
    Talk::new(&bench).said("Write", write("fresh\n")).await;
}
