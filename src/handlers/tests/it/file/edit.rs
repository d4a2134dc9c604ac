//! Edit: what it changes, what it leaves alone, and what it says of a miss.

use std::fs;

use serde_json::{Value, json};

use super::Bench;
use crate::harness::tools::reply_text;

#[tokio::test]
async fn places_that_overlap_are_ambiguous() {
    let bench = Bench::new();
    for (content, lines) in [("a\na\na", "lines 1, 2"), ("a \na \na \n", "lines 1, 2")] {
        bench.put("f", content);
        for args in [
            json!({"file_path": "f", "old_string": "a\na", "new_string": "b"}),
            json!({"file_path": "f", "old_string": "a\na", "new_string": "b", "expected_count": 1}),
        ] {
            let error = bench.refused("Edit", args.clone()).await;
            // Where a count is expected, blanks at line ends are not forgiven.
            if content == "a \na \na \n" && args["expected_count"] == 1 {
                assert_error!(error, NoMatch);
                continue;
            }
            assert_error!(error, Ambiguous: lines; "{content:?}");
        }
        assert_eq!(bench.get("f"), content);
    }
    bench.put("f", "a\na\na");
    bench
        .ok(
            "Edit",
            json!({"file_path": "f", "old_string": "a\na", "new_string": "b", "replace_all": true}),
        )
        .await;
    assert_eq!(bench.get("f"), "b\na");
}

#[tokio::test]
async fn a_miss_names_the_real_difference() {
    let bench = Bench::new();
    bench.put("f", "\tlet x = 1;\n");
    let args = json!({"file_path": "f", "old_string": "let y = 1;", "new_string": "let z = 1;"});
    let text = bench.refused("Edit", args).await.model_text().to_owned();
    assert_contains!(text, "\"x = 1;\"", "\"y = 1;\"");
    assert_lacks!(text, "tab", "Cause");
    bench.put(
        "damaged",
        [b"un caf\xe9 noir\n".as_slice(), "grüße, größe\n".as_bytes()].concat(),
    );
    let args =
        json!({"file_path": "damaged", "old_string": "un caf\u{FFFD} noir", "new_string": "thé"});
    let text = bench.refused("Edit", args).await.model_text().to_owned();
    assert_contains!(text, "not UTF-8", "E9");
    assert_lacks!(text, "lines are the same");
}

#[tokio::test]
async fn a_miss_names_no_difference_that_is_forgiven() {
    let bench = Bench::new();
    for (file, old, line, expect) in cases! {
        // Blanks at an end, and a word that is another.
        ("alpha one  \nbeta two\ngamma three\n", "alpha one\nbeta 2\ngamma three\n", 2, "\"two\""),
        // Typographic quotes and dashes, and a word that is another.
        ("say “hi” – now\nand then stop\n", "say \"hi\" - now\nand then go\n", 2, "\"stop\""),
        // Line endings.
        ("first line\r\nsecond line\r\nthird\r\n", "first line\nsecond lime\nthird\n", 2, "\"ne\""),
        // All lines are indented by as much more.
        ("\t\tif ready {\n\t\t\tstart();\n\t\t}\n", "if ready {\n\tstop();\n}\n", 2, "\"art();\""),
        // One line is indented otherwise than the rest of them.
        ("    a();\n      b();\n    c();\n", "a();\nb();\nc();\n", 2, "the file is indented by 6"),
        // Line numbers as Read shows them.
        ("alpha one\nbeta two\ngamma three\n", "     1\talpha one\n     2\tbeta 2\n", 2, "\"two\""),
    } {
        bench.put("f", file);
        let args = json!({"file_path": "f", "old_string": old, "new_string": "x"});
        let text = bench.refused("Edit", args).await.model_text().to_owned();
        assert_contains!(text, &format!("First difference, line {line}:"), expect);
        assert_lacks!(
            text,
            "blanks at the line's end",
            "typographic",
            "carriage return"
        );
    }
}

#[tokio::test]
async fn a_miss_shows_what_is_near_however_short_its_lines_are() {
    let bench = Bench::new();
    for (file, old) in [
        ("a\nb\nc\n", "a\nx\nc\n"),
        ("{\n  foo();\n}\n", "{\n  bar();\n}\n"),
    ] {
        bench.put("f", file);
        let args = json!({"file_path": "f", "old_string": old, "new_string": "x"});
        let text = bench.refused("Edit", args).await.model_text().to_owned();
        assert_contains!(text, "nearest block is at lines 1-3", "line 2");
    }
}

#[tokio::test]
async fn edit_changes_one_place_and_shows_it() {
    let bench = Bench::new();
    bench.put("f.rs", "a\nb\nc\nlet x = $&1;\nd\ne\nf\ng");
    let reply = bench
        .ok(
            "Edit",
            json!({"path": "f.rs", "old_str": "let x = $&1;", "newText": "let x = $$2;\nlet y = \\1;"}),
        )
        .await;
    assert_eq!(
        bench.get("f.rs"),
        "a\nb\nc\nlet x = $$2;\nlet y = \\1;\nd\ne\nf\ng"
    );
    assert_contains!(
        reply_text(&reply),
        "1 replacement at lines 4-5.\n     1\ta\n"
    );
    assert_ends_with!(reply_text(&reply), "     8\tf\n");
    let change = &reply.meta.files[0];
    assert!(change.before.is_some() && change.after.is_some() && change.before != change.after);

    let again =
        json!({"path": "f.rs", "old_str": "let x = $&1;", "newText": "let x = $$2;\nlet y = \\1;"});
    let error = bench.refused("Edit", again).await;
    assert_contains!(error.model_text(), "new_string stands at lines 4-5");
    bench.assert_tidy();
}

#[tokio::test]
async fn h36_edit_refuses_what_is_not_the_only_place() {
    let bench = Bench::new();
    bench.put("f", "x = 1\ny = 2\nx = 1\n");
    let edit = |more: Value| {
        let mut args = json!({"file_path": "f", "old_string": "x = 1", "new_string": "x = 3"});
        args.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        args
    };
    let error = bench.refused("Edit", edit(json!({}))).await;
    assert_error!(error, Ambiguous: "2 places", "lines 1, 3");
    assert_error!(
        bench
            .refused("Edit", edit(json!({"expected_count": 3})))
            .await,
        Ambiguous
    );
    let error = bench
        .refused("Edit", edit(json!({"old_string": "x  = 1"})))
        .await;
    assert_error!(error, NoMatch: "     1\tx = 1\n");
    assert_error!(
        bench
            .refused("Edit", edit(json!({"old_string": "x = 3"})))
            .await,
        InvalidArgs
    );
    let error = bench.refused("Edit", edit(json!({"old_string": ""}))).await;
    assert_error!(error, InvalidArgs);
    let error = bench
        .refused("Edit", edit(json!({"expected_sha256": "0".repeat(64)})))
        .await;
    assert_error!(error, Stale);
    assert_eq!(bench.get("f"), "x = 1\ny = 2\nx = 1\n");

    let reply = bench
        .ok("Edit", edit(json!({"replace_all": true, "dry_run": true})))
        .await;
    assert_ends_with!(
        reply_text(&reply),
        "\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n-x = 1\n+x = 3\n y = 2\n-x = 1\n+x = 3\n"
    );
    assert_eq!(bench.get("f"), "x = 1\ny = 2\nx = 1\n");
    bench.ok("Edit", edit(json!({"expected_count": 2}))).await;
    assert_eq!(bench.get("f"), "x = 3\ny = 2\nx = 3\n");
}

#[tokio::test]
async fn h37_edit_keeps_every_other_byte() {
    let bench = Bench::new();
    bench.put("dos", "\u{FEFF}a\r\nb\r\nmix\nc");
    let args = json!({"file_path": "dos", "old_string": "a\nb", "new_string": "a\nb2\nb3"});
    bench.ok("Edit", args).await;
    assert_eq!(bench.get("dos"), "\u{FEFF}a\r\nb2\r\nb3\r\nmix\nc");
    bench.put("latin", b"caf\xe9 one\n\xff\xfe two\n");
    let args = json!({"file_path": "latin", "old_string": "one", "new_string": "1"});
    bench.ok("Edit", args).await;
    assert_eq!(
        fs::read(bench.root.join("latin")).unwrap(),
        b"caf\xe9 1\n\xff\xfe two\n"
    );
    bench.put("quotes", "say \u{201C}hi\u{201D}\n");
    let args = json!({"file_path": "quotes", "old_string": "\"hi\"", "new_string": "'ho'"});
    let reply = bench.ok("Edit", args).await;
    assert_eq!(bench.get("quotes"), "say 'ho'\n");
    assert_contains!(reply_text(&reply), "typographic");
    bench.put("numbered", "fn a() {\n}\n");
    let reply = bench
        .ok("Edit", json!({"file_path": "numbered", "old_string": "     1\tfn a() {\n     2\t}\n", "new_string": "fn b() {\n}\n"}))
        .await;
    assert_eq!(bench.get("numbered"), "fn b() {\n}\n");
    assert_contains!(reply_text(&reply), "Line numbers were taken out");
}

#[tokio::test]
async fn an_empty_old_string_makes_a_file() {
    let bench = Bench::new();
    bench.put("empty", "");
    for (path, verb) in [("new/f", "Created"), ("empty", "Filled")] {
        let args = json!({"file_path": path, "old_string": "", "new_string": "text\n"});
        let reply = bench.ok("Edit", args).await;
        assert_starts_with!(reply_text(&reply), verb);
        assert_eq!(bench.get(path), "text\n");
    }
    let args = json!({"file_path": "absent", "old_string": "a", "new_string": "b"});
    assert_error!(bench.refused("Edit", args).await, NotFound);
}
