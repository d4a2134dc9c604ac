//! The content of a question: the difference that an edit would make, and a title that is a sentence.

use serde_json::{Value, json};

use crate::harness::editor::{EditorProcess, choose_option};
use crate::harness::stage::RunnerFixture;

/// Makes a call that leads to a question, and returns the tool call in that question.
async fn ask_question(
    setup: &RunnerFixture,
    editor: &EditorProcess,
    tool: &str,
    args: Value,
) -> Value {
    let before = editor.requests("session/request_permission").len();
    setup
        .call_tool(tool, &args)
        .await
        .expect_error("policy_denied");
    let asked = editor.requests("session/request_permission");
    assert_eq!(asked.len(), before + 1);
    asked[before]["toolCall"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_about_an_edit_carries_the_difference() {
    let setup = RunnerFixture::new().await;
    setup.write("a.txt", "one\ntwo\n");
    setup.write("b.txt", "left\n");
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("reject_once"));
    editor.attached(&json!({}), &setup.setting).await;
    let work = std::fs::canonicalize(&setup.setting.workspace).expect("there");
    let diff = |name: &str, old: Value, new: &str| {
        let mut diff = json!({ "type": "diff", "path": work.join(name), "newText": new });
        if !old.is_null() {
            diff["oldText"] = old;
        }
        diff
    };
    let edits = json!([{ "old_string": "one", "new_string": "1" }, { "old_string": "two", "new_string": "2" }]);
    let codex = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+2\n*** Add File: c.txt\n+new\n*** Delete File: \
                 b.txt\n*** End Patch";
    let unified = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n";
    let whole = json!("one\ntwo\n");
    let cases = cases! {
        (
            "Write",
            json!({ "file_path": "c.txt", "content": "new\n" }),
            vec![diff("c.txt", Value::Null, "new\n")],
        ),
        (
            "Write",
            json!({ "file_path": "a.txt", "content": "x\n" }),
            vec![diff("a.txt", whole.clone(), "x\n")],
        ),
        (
            "Edit",
            json!({ "file_path": "a.txt", "old_string": "two", "new_string": "2" }),
            vec![diff("a.txt", whole.clone(), "one\n2\n")],
        ),
        (
            "Edit",
            json!({ "file_path": "a.txt", "old_string": "not there", "new_string": "2" }),
            vec![diff("a.txt", json!("not there"), "2")],
        ),
        (
            "MultiEdit",
            json!({ "file_path": "a.txt", "edits": edits }),
            vec![diff("a.txt", whole.clone(), "1\n2\n")],
        ),
        (
            "ApplyPatch",
            json!({ "patch": codex }),
            vec![
                diff("a.txt", whole.clone(), "one\n2\n"),
                diff("c.txt", Value::Null, "new\n"),
                diff("b.txt", json!("left\n"), ""),
            ],
        ),
        ("ApplyPatch", json!({ "patch": unified }), vec![diff("a.txt", whole.clone(), "1\ntwo\n")]),
    };
    for (tool, args, wanted) in cases {
        let asked = ask_question(&setup, &editor, tool, args.clone()).await;
        assert_eq!(asked["content"], json!(wanted), "{tool} {args}");
    }
    assert_eq!(setup.read("a.txt"), "one\ntwo\n");
    // A patch that changes more than text is shown as it is.
    let mode = "diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 100755\n";
    let asked = ask_question(&setup, &editor, "ApplyPatch", json!({ "patch": mode })).await;
    assert_contains!(
        asked["content"][0]["content"]["text"]
            .as_str()
            .expect("text"),
        "new mode 100755"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn titles_are_sentences() {
    let setup = RunnerFixture::new().await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("reject_once"));
    editor.attached(&json!({}), &setup.setting).await;
    let cases = cases! {
        ("Bash", json!({ "command": "cargo test" }), "Run `cargo test`"),
        ("Write", json!({ "file_path": "src/main.rs", "content": "" }), "Write src/main.rs"),
        ("Edit", json!({ "file_path": "a", "old_string": "x", "new_string": "y" }), "Edit a"),
        (
            "MultiEdit",
            json!({ "file_path": "a", "edits": [{ "old_string": "x", "new_string": "y" }] }),
            "Edit a",
        ),
        (
            "ApplyPatch",
            json!({ "patch": "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch" }),
            "Edit a",
        ),
        ("GitCommit", json!({ "message": "Say why", "all": true }), "Commit `Say why`"),
        (
            "Task",
            json!({ "tool": "Bash", "args": { "command": "true" } }),
            "Start a task: Run `true`",
        ),
    };
    for (tool, args, wanted) in cases {
        assert_eq!(
            ask_question(&setup, &editor, tool, args).await["title"],
            wanted
        );
    }
}
