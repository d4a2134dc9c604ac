//! list_files, and Read of a folder, which lists it too.

use std::fs;

use serde_json::json;

use super::Bench;
use crate::harness::tools::reply_text;

#[tokio::test]
async fn folders_are_listed() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new();
    bench.put("b.txt", "12");
    bench.put("a/c.txt", "1");
    bench.put("a/skip.log", "1");
    bench.put(".ignore", "*.log\n");
    bench.put("bad/ok", "1");
    fs::write(
        bench
            .root
            .join("bad")
            .join(std::ffi::OsStr::from_bytes(b"x\xff")),
        "1",
    )
    .unwrap();
    for args in [json!({"file_path": "."}), json!({"file_path": bench.root})] {
        let shown = bench.read(args).await;
        assert_contains!(
            shown,
            "/ (folder, 4 entries)\n.ignore (6 bytes)\na/\nb.txt (2 bytes)\nbad/\n"
        );
    }
    let shown = bench.ok("list_files", json!({"recursive": true})).await;
    assert_contains!(reply_text(&shown), "a/c.txt (1 byte)\n");
    assert_lacks!(reply_text(&shown), "skip.log");
    let shown = bench.ok("list_files", json!({"path": "bad"})).await;
    assert_contains!(reply_text(&shown), "\"x\\377\" (1 byte)\n");
    let error = bench.refused("list_files", json!({"path": "b.txt"})).await;
    assert_error!(error, InvalidArgs);
    for n in 0..600 {
        fs::write(bench.root.join("bad").join(format!("f{n:03}")), "").unwrap();
    }
    let shown = bench.ok("list_files", json!({"path": "bad"})).await;
    assert_contains!(
        reply_text(&shown),
        "Showing 1-500 of 602; 102 more entries left out."
    );
    assert!(shown.meta.truncated);
}
