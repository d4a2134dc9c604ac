//! The plain tools, and what holds for all of them.

use std::fs;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punie_runner::ids::RequestId;
use punie_runner::tool::{ErrorCode, ToolCx};
use serde_json::json;

use super::{Bench, counted};
use crate::harness::tools::{call_with, text};

// The plain tools.

#[tokio::test]
async fn the_plain_tools_speak_their_own_words() {
    let bench = Bench::new();
    let reply = bench.ok("write_file", json!({"path": "d/f.txt", "content": "one\r\ntwo"})).await;
    assert_eq!(text(&reply), "Successfully wrote to d/f.txt");
    let reply = bench.ok("read_file", json!({"path": "d/f.txt"})).await;
    assert_eq!(text(&reply), "one\r\ntwo");
    let lines = counted(9_000, "{}\n");
    bench.put("long", &lines);
    let reply = bench.ok("read_file", json!({"path": "long"})).await;
    let shown = text(&reply);
    let (body, note) = shown.rsplit_once("[... ").unwrap();
    assert!(lines.starts_with(body) && shown.len() <= 30_000 && reply.meta.truncated);
    assert!(note.contains(&format!("offset={} for the rest]", body.lines().count() + 1)), "{note}");
    let error = bench.refused("read_file", json!({"path": "d"})).await;
    assert_eq!(error.code(), ErrorCode::IsDirectory);
    let error = bench.refused("write_file", json!({"path": ".bashrc", "content": "x"})).await;
    assert!(error.text().starts_with("Permission denied to write .bashrc"), "{error}");
}

// Cancel.

#[tokio::test]
async fn a_cancelled_call_does_nothing() {
    let bench = Bench::new();
    bench.put("f", "a\n");
    for (tool, args) in [
        ("Read", json!({"file_path": "f"})),
        ("Write", json!({"file_path": "f", "content": "b"})),
        ("Edit", json!({"file_path": "f", "old_string": "a", "new_string": "b"})),
        ("read_file", json!({"path": "f"})),
        ("write_file", json!({"path": "f", "content": "b"})),
        ("list_files", json!({"recursive": true})),
    ] {
        let cx = ToolCx::detached(RequestId::new());
        cx.cancel.cancel();
        let error = call_with(&bench.tools, tool, args, cx).await.expect_err(tool);
        assert_eq!(error.code(), ErrorCode::Cancelled, "{tool}");
    }
    assert_eq!(bench.get("f"), "a\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_grows_is_read_as_it_was() {
    let bench = Bench::new();
    let path = bench.put("log", "start\n");
    let stop = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
            let mut written = 0;
            while !stop.load(Ordering::Relaxed) && written < 3 << 20 {
                file.write_all(b"one more line\n").unwrap();
                written += 14;
            }
        }
    });
    for _ in 0..100 {
        let reply = bench.ok("Read", json!({"file_path": "log", "limit": 1})).await;
        assert!(text(&reply).contains("     1\tstart\n"), "{}", text(&reply));
        let tail = bench.read(json!({"file_path": "log", "offset": -1})).await;
        let last = tail.lines().nth(1).and_then(|line| line.split_once('\t')).map(|(_, body)| body).unwrap();
        // A line that is being appended may be seen in part.
        assert!(last == "start" || "one more line".starts_with(last), "{tail}");
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
}

#[tokio::test]
async fn the_catalog_shows_each_tool_with_its_keys() {
    let bench = Bench::new();
    let names: Vec<_> = bench.tools.specs().map(|spec| spec.name).collect();
    assert_eq!(names, ["ApplyPatch", "Edit", "Read", "Write", "list_files", "read_file", "write_file"]);
    for spec in bench.tools.specs() {
        assert!(spec.description.len() > 40, "{}", spec.name);
        for (alias, key) in spec.aliases {
            assert!(spec.schema["properties"].get(key).is_some(), "{}: {alias} -> {key}", spec.name);
        }
        for example in spec.examples {
            assert!(bench.tools.find(spec.name).unwrap().decode(example).is_ok(), "{}: {example}", spec.name);
        }
    }
}
