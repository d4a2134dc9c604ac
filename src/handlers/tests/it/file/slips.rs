//! Slips of models in edits: taken where one reading is left, and told; refused where they would delete something.

use serde_json::{Value, json};

use super::Bench;
use crate::harness::tools::reply_text;

async fn edit(bench: &Bench, file: &str, old: &str, new: &str) -> String {
    let args = json!({"file_path": file, "old_string": old, "new_string": new});
    reply_to(bench, "Edit", args).await
}

async fn reply_to(bench: &Bench, tool: &str, args: Value) -> String {
    reply_text(&bench.ok(tool, args).await).to_owned()
}

#[tokio::test]
async fn a_placeholder_for_code_is_refused_wherever_it_would_be_written() {
    let bench = Bench::new();
    let whole = "fn a() {\n    one();\n    two();\n    three();\n}\n";
    let old = "    one();\n    two();\n    three();";
    let new = "    one();\n    // ... existing code ...";
    let patch = "*** Begin Patch\n*** Update File: f\n@@\n     one();\n-    two();\n-    three();\n+    // ... existing code ...\n*** End Patch\n";
    bench.put("f", whole);
    for (tool, args) in cases! {
        ("Edit", json!({"file_path": "f", "old_string": old, "new_string": new})),
        ("MultiEdit", json!({"file_path": "f", "edits": [{"old_string": old, "new_string": new}]})),
        (
            "Write",
            json!({"file_path": "f", "content": "fn a() {\n    // ... existing code ...\n}\n"}),
        ),
        ("write_file", json!({"path": "f", "content": "# rest of the file unchanged\n"})),
        ("ApplyPatch", json!({"patch": patch})),
    } {
        let error = bench.refused(tool, args).await;
        assert_error!(error, InvalidArgs: "take the place of code"; "{tool}");
        assert_eq!(bench.get("f"), whole, "{tool}");
    }
    // A new file has no code that it could stand for.
    bench
        .ok("Write", json!({"file_path": "new", "content": "# ...\n"}))
        .await;
}

#[tokio::test]
async fn lines_that_end_in_a_carriage_return_alone_are_lines() {
    let bench = Bench::new();
    bench.put("f", "one\rtwo\rthree\r");
    let shown = bench.read(json!({"file_path": "f"})).await;
    assert_contains!(shown, "cr alone");
    let answer = edit(&bench, "f", "two\nthree", "2\n3").await;
    assert_contains!(answer, "at lines 2-3");
    assert_eq!(bench.get("f"), "one\r2\r3\r");
    let patch = "*** Begin Patch\n*** Update File: f\n@@\n one\n-2\n+zwei\n+drei\n*** End Patch\n";
    bench.ok("ApplyPatch", json!({"patch": patch})).await;
    let edits =
        json!({"file_path": "f", "edits": [{"old_string": "drei\n3", "new_string": "x\ny"}]});
    bench.ok("MultiEdit", edits).await;
    assert_eq!(bench.get("f"), "one\rzwei\rx\ry\r");
}

#[tokio::test]
async fn accents_in_another_form_are_found_and_stay_as_in_the_file() {
    let bench = Bench::new();
    bench.put("Cafe\u{301}.txt", "un cafe\u{301}\n");
    let shown = bench.read(json!({"file_path": "Caf\u{e9}.txt"})).await;
    assert_contains!(shown, "un cafe\u{301}");
    let answer = edit(&bench, "Caf\u{e9}.txt", "un caf\u{e9}", "un th\u{e9}").await;
    assert_contains!(answer, "another Unicode form");
    assert_eq!(bench.get("Cafe\u{301}.txt"), "un the\u{301}\n");
    let args = json!({"file_path": "Caf\u{e9}.txt", "content": "new\n"});
    bench.ok("Write", args).await;
    assert_eq!(bench.get("Cafe\u{301}.txt"), "new\n");
    let error = bench
        .refused("Read", json!({"file_path": "Caf\u{e8}.txt"}))
        .await;
    assert_error!(error, NotFound);
}

#[tokio::test]
async fn a_blank_line_too_many_is_passed_over() {
    let bench = Bench::new();
    for (old, new, after) in [
        ("a\nb\n\n", "A\nb\n\n", "A\nb\nc\n"),
        ("\na\nb", "\nA\nb", "A\nb\nc\n"),
        ("a\n\n\n", "A\n", "A\nb\nc\n"),
    ] {
        bench.put("f", "a\nb\nc\n");
        let answer = edit(&bench, "f", old, new).await;
        assert_contains!(answer, "Blank lines around old_string");
        assert_eq!(bench.get("f"), after, "{old:?}");
    }
    // Where the blank lines are all that changes, they are meant.
    let args = json!({"file_path": "f", "old_string": "b\nc\n\n", "new_string": "b\nc\n"});
    assert_error!(bench.refused("Edit", args).await, NoMatch);
    // A blank line of context that the end of the file has not.
    bench.put("f", "a\nb\n");
    let patch = "*** Begin Patch\n*** Update File: f\n@@\n a\n-b\n+c\n \n*** End Patch\n";
    bench.ok("ApplyPatch", json!({"patch": patch})).await;
    assert_eq!(bench.get("f"), "a\nc\n");
}

#[tokio::test]
async fn a_last_line_without_its_newline_is_called_that() {
    let bench = Bench::new();
    bench.put("f", "a\nb");
    let patch = "*** Begin Patch\n*** Update File: f\n@@\n a\n-b\n+c\n*** End Patch\n";
    let answer = reply_to(&bench, "ApplyPatch", json!({"patch": patch})).await;
    assert_contains!(answer, "which has no newline");
    assert_lacks!(answer, "line endings");
    assert_eq!(bench.get("f"), "a\nc");
}

#[tokio::test]
async fn what_could_be_read_before_and_no_longer_can_is_told() {
    let bench = Bench::new();
    let broken = "no longer can: it is no valid JSON";
    bench.put("f.json", "{\"a\": 1,\n\"b\": 2}\n");
    let answer = edit(&bench, "f.json", "\"b\": 2}", "\"b\": 2").await;
    assert_contains!(answer, broken);
    // It was broken before.
    let answer = edit(&bench, "f.json", "\"b\": 2", "\"c\": 2").await;
    assert_lacks!(answer, broken);
    bench.put("f.json", "{\"a\": 1}\n");
    let edits =
        json!({"file_path": "f.json", "edits": [{"old_string": "1}", "new_string": "1,}"}]});
    let answer = reply_to(&bench, "MultiEdit", edits).await;
    assert_contains!(answer, broken);
    bench.put("f.toml", "[a]\nb = 1\n");
    let patch = "*** Begin Patch\n*** Update File: f.toml\n@@\n [a]\n-b = 1\n+b =\n*** End Patch\n";
    let answer = reply_to(&bench, "ApplyPatch", json!({"patch": patch})).await;
    assert_contains!(answer, "it is no valid TOML");
}

const NOTEBOOK: &str = r##"{
 "cells": [
  {"cell_type": "markdown", "source": "# Title"},
  {
   "cell_type": "code", "execution_count": 1,
   "outputs": [{"output_type": "stream", "name": "stdout", "text": ["x\n"]}],
   "source": [
    "import os\n",
    "print(\"x\")\n",
    "y = 'caf\u00e9'"
   ]
  },
  {"cell_type": "code", "source": ["y = 1\n", "z = y"]}
 ],
 "nbformat": 4
}
"##;

#[tokio::test]
async fn a_quote_of_a_notebooks_cell_changes_its_source_alone() {
    let bench = Bench::new();
    bench.put("n.ipynb", NOTEBOOK);
    let answer = edit(
        &bench,
        "n.ipynb",
        "import os\nprint(\"x\")",
        "import os\nprint(\"z\")\n\tw",
    )
    .await;
    assert_contains!(answer, "the source of cell 2");
    let expect = NOTEBOOK.replace(
        r#""print(\"x\")\n","#,
        "\"print(\\\"z\\\")\\n\",\n    \"\\tw\\n\",",
    );
    assert_eq!(bench.get("n.ipynb"), expect);
    assert!(serde_json::from_str::<Value>(&expect).is_ok());

    bench.put("n.ipynb", NOTEBOOK);
    let edits = json!({"file_path": "n.ipynb", "edits": [
        {"old_string": "# Title", "new_string": "# New\ntitle"},
        {"old_string": "z = y", "new_string": "z = y + 1"},
    ]});
    bench.ok("MultiEdit", edits).await;
    let expect = NOTEBOOK
        .replace("# Title", "# New\\ntitle")
        .replace("z = y", "z = y + 1");
    assert_eq!(bench.get("n.ipynb"), expect);

    bench.put("n.ipynb", NOTEBOOK);
    let twice = json!({"file_path": "n.ipynb", "old_string": "y = ", "new_string": "w = "});
    assert_error!(bench.refused("Edit", twice.clone()).await, Ambiguous: "cell 2, 3");
    let mut everywhere = twice;
    everywhere["replace_all"] = json!(true);
    bench.ok("Edit", everywhere).await;
    assert_eq!(bench.get("n.ipynb"), NOTEBOOK.replace("y = ", "w = "));

    // The JSON itself can be quoted, too.
    bench.put("n.ipynb", NOTEBOOK);
    edit(&bench, "n.ipynb", "\"nbformat\": 4", "\"nbformat\": 5").await;
    assert_eq!(
        bench.get("n.ipynb"),
        NOTEBOOK.replace("\"nbformat\": 4", "\"nbformat\": 5")
    );
}

#[tokio::test]
async fn an_answer_quotes_no_byte_order_mark() {
    let bench = Bench::new();
    bench.put("f", "\u{feff}alpha\nbeta\n");
    let answer = edit(&bench, "f", "alpha", "ALPHA").await;
    assert_contains!(answer, "1\tALPHA");
    assert_lacks!(answer, "\u{feff}");
    assert_eq!(bench.get("f"), "\u{feff}ALPHA\nbeta\n");
}
