//! Edits and writes that come too late or are too large.

use serde_json::{Value, json};

use crate::file::Bench;

#[tokio::test]
async fn h35_a_file_that_changed_since_it_was_read_is_not_changed() {
    let bench = Bench::new();
    bench.put("f", "one\ntwo\n");
    let read = bench
        .ok("Read", json!({"file_path": "f"}))
        .await
        .meta
        .sha256
        .expect("a hash");
    let calls = |hash: &str| -> [(&str, Value); 3] {
        [
            (
                "Edit",
                json!({"file_path": "f", "old_string": "two", "new_string": "2", "expected_sha256": hash}),
            ),
            (
                "MultiEdit",
                json!({"file_path": "f", "edits": [{"old_string": "two", "new_string": "2"}], "expected_sha256": hash}),
            ),
            (
                "Write",
                json!({"file_path": "f", "content": "2", "overwrite": "if_unchanged", "expected_sha256": hash}),
            ),
        ]
    };
    // Another program's change, of the same length, away from the place of the edit.
    bench.put("f", "uno\ntwo\n");
    for (tool, args) in calls(&read) {
        assert_error!(bench.refused(tool, args).await, Stale: "Nothing was"; "{tool}");
    }
    assert_eq!(bench.get("f"), "uno\ntwo\n");
    bench.assert_tidy();
    // With the hash of the present content, each call succeeds.
    for n in 0..3 {
        bench.put("f", "uno\ntwo\n");
        let now = bench
            .ok("Read", json!({"file_path": "f"}))
            .await
            .meta
            .sha256
            .expect("a hash");
        let (tool, args) = calls(&now)[n].clone();
        bench.ok(tool, args).await;
        assert_contains!(bench.get("f"), "2"; "{tool}");
    }
}

#[tokio::test]
async fn h38_a_content_of_two_hundred_megabytes_is_refused_and_nothing_is_left() {
    let bench = Bench::new();
    bench.put("there", "old\n");
    let content = "x".repeat(200 << 20);
    for (tool, key, place) in [
        ("Write", "file_path", "f"),
        ("Write", "file_path", "there"),
        ("write_file", "path", "f"),
    ] {
        // The arguments are text, as they arrive over the wire.
        let args = format!("{{\"{key}\":\"{place}\",\"content\":\"{content}\"}}");
        let refused = bench
            .tools
            .find(tool)
            .expect("a tool")
            .decode_call(&args)
            .map(drop)
            .expect_err(tool);
        assert_error!(refused, InvalidArgs; "{tool}");
        assert!(
            refused.model_text().contains("the limit is") && refused.model_text().len() < 2_000,
            "{tool}: {refused}"
        );
    }
    for (tool, key) in [("Write", "file_path"), ("write_file", "path")] {
        let error = bench
            .refused(tool, json!({key: "f", "content": &content[..=(10 << 20)]}))
            .await;
        assert_error!(error, TooLarge; "{tool}");
    }
    assert!(!bench.root.join("f").exists());
    assert_eq!(bench.get("there"), "old\n");
    bench.assert_tidy();
}
