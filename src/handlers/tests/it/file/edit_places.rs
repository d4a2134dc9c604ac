//! Edit where the place is not certain: it says so and changes nothing.

use serde_json::{Value, json};

use super::Bench;
use crate::harness::tools::reply_text;

/// The words of a refusal for want of a place, after which the file is as it was.
async fn not_found(bench: &Bench, args: Value) -> String {
    let before = bench.get("f");
    let error = bench.refused("Edit", args).await;
    assert_error!(error, NoMatch);
    assert_eq!(bench.get("f"), before);
    error.model_text().to_owned()
}

#[tokio::test]
async fn replacing_every_place_forgives_line_endings_only() {
    let bench = Bench::new();
    let all = |old: &str, new: &str| json!({"file_path": "f", "old_string": old, "new_string": new, "replace_all": true});
    bench.put("f", "def f(a):\n    b = a\n    return b\n");
    let said = not_found(&bench, all(" \n", "")).await;
    assert_lacks!(said, "replace_all");

    bench.put("f", "one – two\nthree — four\n");
    let said = not_found(&bench, all("-", "+")).await;
    assert_contains!(said, "stands at lines 1, 2 is nearly the same");
    let counted =
        json!({"file_path": "f", "old_string": "-", "new_string": "+", "expected_count": 2});
    not_found(&bench, counted).await;
    // One place at a time, what is quoted nearly is found, and more than one is not offered to be replaced at once.
    let args = json!({"file_path": "f", "old_string": "-", "new_string": "+"});
    let error = bench.refused("Edit", args).await;
    assert_error!(error, Ambiguous);
    assert_lacks!(error.model_text(), "replace_all");

    bench.put("f", "a\r\nb\r\na\r\nb\r\n");
    bench.ok("Edit", all("a\nb\n", "c\n")).await;
    assert_eq!(bench.get("f"), "c\r\nc\r\n");
}

#[tokio::test]
async fn an_edit_is_called_done_only_where_a_line_of_both_texts_tells_the_place() {
    let bench = Bench::new();
    let edit =
        |old: &str, new: &str| json!({"file_path": "f", "old_string": old, "new_string": new});
    // The new text stands in another function.
    bench.put(
        "f",
        "def f(a):\n    x = compute(a)\n    return x\n\n\ndef g():\n    return None\n",
    );
    let said = not_found(
        &bench,
        edit("    x = compute(b)\n    return x", "    return None"),
    )
    .await;
    assert_contains!(said, "The nearest block is at lines 2-3");
    assert_contains!(
        said,
        "new_string stands at line 7; whether this edit put it there is not known"
    );

    // A line of both that stands in two places tells nothing.
    bench.put(
        "f",
        "def f(a):\n    x = two(a)\n    return total\n\n\ndef g(a):\n    x = three(a)\n    return total\n",
    );
    not_found(
        &bench,
        edit(
            "    x = one(a)\n    return total",
            "    x = two(a)\n    return total",
        ),
    )
    .await;

    bench.put("f", "def f(a):\n    x = compute(a)\n    return None\n");
    let reply = bench
        .ok(
            "Edit",
            edit(
                "    x = compute(a)\n    return x",
                "    x = compute(a)\n    return None",
            ),
        )
        .await;
    assert_contains!(
        reply_text(&reply),
        "stands in its place, at lines 2-3: the edit is done already"
    );
}

#[tokio::test]
async fn an_edit_that_takes_lines_out_is_not_called_done_while_they_stand_there() {
    let bench = Bench::new();
    let file = "def shared_value():\n    return 1\n\n\ndef is_slot(cls):\n    return cls.slots\n\n\ndef last():\n";
    bench.put("f", file);
    for old in [
        // One word is misspelt, one line is left out.
        "def shared_value():\n    return 1\n\n\ndef is_slot(cls):\n    return cls.slotz\n\n",
        "def shared_value():\n    return 1\n\n\n    return cls.slots\n\n",
    ] {
        let args = json!({"file_path": "f", "old_string": old, "new_string": "def shared_value():\n    return 1\n\n"});
        let refused = not_found(&bench, args).await;
        assert_lacks!(refused, "done already");
        assert_eq!(bench.get("f"), file);
    }
    bench.put(
        "f",
        "def shared_value():\n    return 1\n\n\ndef last_value():\n",
    );
    let args = json!({
        "file_path": "f",
        "old_string": "def shared_value():\n    return 1\n    x = unused()\n\n\ndef last_value():\n",
        "new_string": "def shared_value():\n    return 1\n\n\ndef last_value():\n",
    });
    let reply = bench.ok("Edit", args).await;
    assert_contains!(reply_text(&reply), "the edit is done already");
}

#[tokio::test]
async fn new_lines_keep_their_own_blanks_where_the_quote_had_some_too_many() {
    let bench = Bench::new();
    bench.put(
        "f",
        "def f() -> str:\n    ...\n\nclass A:\n    end: int\n\n",
    );
    let edits = json!([
        {"old_string": "def f() -> str:  \n    ...  \n  \n", "new_string": "def f() -> str: ...\n\n"},
        {"old_string": "    end: int  \n  \n", "new_string": "    end: int\n    more: bool\n\n"},
    ]);
    bench
        .ok("MultiEdit", json!({"file_path": "f", "edits": edits}))
        .await;
    assert_eq!(
        bench.get("f"),
        "def f() -> str: ...\n\nclass A:\n    end: int\n    more: bool\n\n"
    );
}
