//! read_file: plain content, its budget, its refusals in their own words.

use punie_host::encoding::FileEncoding;
use punie_tool::ErrorCode;
use serde_json::json;

use super::{Bench, counted};
use crate::harness::tools::reply_text;

#[tokio::test]
async fn read_file_gives_the_content_as_it_is() {
    let bench = Bench::new();
    let args = json!({"path": "d/f.txt", "content": "one\r\ntwo"});
    bench.ok("write_file", args).await;
    let reply = bench.ok("read_file", json!({"path": "d/f.txt"})).await;
    assert_eq!(reply_text(&reply), "one\r\ntwo");
    assert_eq!(reply.meta.sha256.as_deref().map(str::len), Some(64));
    bench.put("empty", "");
    assert_eq!(
        reply_text(&bench.ok("read_file", json!({"path": "empty"})).await),
        ""
    );
    let french = FileEncoding::from_label("latin1")
        .unwrap()
        .encode_text("Le café du théâtre est fermé\n")
        .unwrap()
        .into_owned();
    bench.put("french", french);
    let reply = bench.ok("read_file", json!({"path": "french"})).await;
    assert_eq!(reply_text(&reply), "Le café du théâtre est fermé\n");
    assert!(
        reply
            .meta
            .warnings
            .iter()
            .any(|warning| warning.contains("windows-1252")),
        "{:?}",
        reply.meta
    );
}

#[tokio::test]
async fn read_file_keeps_to_its_budget_and_says_how_to_read_on() {
    let bench = Bench::new();
    let lines = counted(9_000, "{}\n");
    bench.put("long", &lines);
    let reply = bench.ok("read_file", json!({"path": "long"})).await;
    let shown = reply_text(&reply);
    let (body, note) = shown.rsplit_once("[... ").unwrap();
    assert!(lines.starts_with(body) && shown.len() <= 30_000 && reply.meta.truncated);
    assert_contains!(
        note,
        &format!("offset={} for the rest]", body.lines().count() + 1)
    );
}

#[tokio::test]
async fn read_file_refuses_in_its_own_words() {
    let bench = Bench::new();
    bench.put("d/f", "x\n");
    bench.put("blob", b"\0\x01\x02");
    for (path, code, start) in cases! {
        ("none", ErrorCode::NotFound, "Error: File not found\n"),
        ("d/f/below", ErrorCode::NotFound, "Error: File not found\n"),
        ("../root-evil/f", ErrorCode::OutsideWorkspace, "Error: Security violation\n"),
        ("d", ErrorCode::IsDirectory, ""),
        ("blob", ErrorCode::NotText, ""),
        ("", ErrorCode::InvalidArgs, ""),
    } {
        let error = bench.refused("read_file", json!({"path": path})).await;
        assert_eq!(error.stable_code(), code, "{path}: {error}");
        assert_starts_with!(error.model_text(), start; "{path}");
    }
}
