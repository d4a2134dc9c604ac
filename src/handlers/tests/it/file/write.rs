//! Write: what it makes and replaces, what it keeps, and what it refuses.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use serde_json::json;

use super::Bench;
use crate::harness::tools::reply_text;

#[tokio::test]
async fn write_makes_replaces_and_says_what_it_did() {
    let bench = Bench::new();
    let reply = bench
        .ok(
            "Write",
            json!({"file_path": "new/deep/f", "content": "one\ntwo\n"}),
        )
        .await;
    assert_starts_with!(reply_text(&reply), "Created ");
    assert_ends_with!(reply_text(&reply), "8 characters, 2 lines.");
    let change = &reply.meta.files[0];
    assert_eq!(change.before, None);
    let first = change.after.clone().unwrap();

    let reply = bench
        .ok("Write", json!({"path": "new/deep/f", "content": "three\n"}))
        .await;
    assert_starts_with!(reply_text(&reply), "Replaced ");
    assert_eq!(reply.meta.files[0].before.as_deref(), Some(first.as_str()));
    let now = reply.meta.sha256.clone().unwrap();

    let inode = fs::metadata(bench.root.join("new/deep/f")).unwrap().ino();
    let reply = bench
        .ok(
            "Write",
            json!({"file_path": "new/deep/f", "content": "three\n"}),
        )
        .await;
    assert!(reply_text(&reply).starts_with("No change: ") && reply.meta.files.is_empty());
    assert_eq!(
        fs::metadata(bench.root.join("new/deep/f")).unwrap().ino(),
        inode
    );

    assert_error!(
        bench
            .refused(
                "Write",
                json!({"file_path": "new/deep/f", "content": "x", "overwrite": "never"}),
            )
            .await,
        Stale
    );
    bench
        .ok(
            "Write",
            json!({"file_path": "fresh", "content": "x", "overwrite": "never"}),
        )
        .await;
    let conditional = |hash: &str| json!({"file_path": "new/deep/f", "content": "four\n", "overwrite": "if_unchanged", "expected_sha256": hash});
    assert_error!(bench.refused("Write", conditional(&first)).await, Stale);
    bench.ok("Write", conditional(&now)).await;
    assert_eq!(bench.get("new/deep/f"), "four\n");

    for args in [
        json!({"file_path": "f", "content": "x", "overwrite": "if_unchanged"}),
        json!({"file_path": "f", "content": "x", "expected_sha256": "abc"}),
        json!({"file_path": "f", "content": "x", "overwrite": "sometimes"}),
    ] {
        assert_error!(bench.refused("Write", args).await, InvalidArgs);
    }
    assert_error!(
        bench
            .refused(
                "Write",
                json!({"file_path": "no/such", "content": "x", "create_dirs": false}),
            )
            .await,
        NotFound
    );
    let error = bench
        .refused("Write", json!({"file_path": "new", "content": "x"}))
        .await;
    assert_error!(error, IsDirectory);
    assert!(!bench.root.join("f").exists());
    bench.assert_tidy();
}

#[tokio::test]
async fn h39_mode_links_and_shape_of_a_file_are_kept() {
    let bench = Bench::new();
    let path = bench.put("run.sh", "#!/bin/sh\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    symlink("run.sh", bench.root.join("link")).unwrap();
    let args = json!({"file_path": "link", "content": "#!/bin/sh\nexit\n"});
    bench.ok("Write", args).await;
    let args = json!({"file_path": "link", "old_string": "exit", "new_string": "exit 1"});
    bench.ok("Edit", args).await;
    assert_eq!(bench.get("run.sh"), "#!/bin/sh\nexit 1\n");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o751
    );
    assert!(
        fs::symlink_metadata(bench.root.join("link"))
            .unwrap()
            .is_symlink()
    );
    let args = json!({"file_path": "run.sh", "content": "x", "executable": false});
    bench.ok("Write", args).await;
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o640
    );
    let args = json!({"file_path": "run.sh", "content": "x", "executable": true});
    bench.ok("Write", args).await;
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o750
    );

    bench.put("dos.txt", "\u{FEFF}a\r\nb\r\n");
    let args = json!({"file_path": "dos.txt", "content": "c\nd\n"});
    let reply = bench.ok("Write", args).await;
    assert_eq!(bench.get("dos.txt"), "\u{FEFF}c\r\nd\r\n");
    assert_eq!(reply.meta.warnings.len(), 2, "{:?}", reply.meta.warnings);
    let utf16 = |text: &str| -> Vec<u8> {
        std::iter::once(0xFEFF)
            .chain(text.encode_utf16())
            .flat_map(u16::to_be_bytes)
            .collect()
    };
    bench.put("wide.txt", utf16("a\r\n"));
    bench
        .ok("Write", json!({"file_path": "wide.txt", "content": "b\n"}))
        .await;
    assert_eq!(
        fs::read(bench.root.join("wide.txt")).unwrap(),
        utf16("b\r\n")
    );
}

#[tokio::test]
async fn an_owner_is_kept_where_the_system_allows_it() {
    let bench = Bench::new();
    let path = bench.put("f", "a\n");
    if std::os::unix::fs::chown(&path, Some(12_345), Some(12_345)).is_err() {
        return;
    }
    bench
        .ok("Write", json!({"file_path": "f", "content": "b\n"}))
        .await;
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (12_345, 12_345));
}

#[tokio::test]
async fn a_file_that_was_no_utf8_is_replaced_with_a_warning() {
    let bench = Bench::new();
    let big = [b"\xc3\xa4".repeat(200_001).as_slice(), b"\xe9\n"].concat();
    for (name, content, expect) in [
        (
            "image",
            b"\x89PNG\r\n\x1a\n\0\0".as_slice(),
            "a PNG image, not UTF-8 text: 1 invalid byte; replaced as a whole.",
        ),
        (
            "big",
            big.as_slice(),
            "not UTF-8 text: 1 invalid byte; replaced as a whole.",
        ),
    ] {
        for (tool, key) in [("Write", "file_path"), ("write_file", "path")] {
            bench.put(name, content);
            let reply = bench
                .ok(tool, json!({key: name, "content": "plain\n"}))
                .await;
            assert_contains!(reply_text(&reply), expect; "{tool} {name}");
            assert_contains!(reply.meta.warnings[0], expect);
        }
    }
    assert_eq!(bench.get("image"), "plain\n");
    bench.put("utf8", "grüße\n");
    let reply = bench
        .ok("Write", json!({"file_path": "utf8", "content": "plain\n"}))
        .await;
    assert!(reply.meta.warnings.is_empty(), "{:?}", reply.meta.warnings);
}

/// The mark of a masked secret, written so that this file does not hold it.
fn mark() -> String {
    ["[REDACTED", ":secret]"].concat()
}

#[tokio::test]
async fn the_mark_of_a_masked_secret_is_not_written() {
    let bench = Bench::new();
    let mark = mark();
    let content = format!("key = {mark}\nmode = fast\n");
    bench.put("conf", "key = hunter2\nmode = slow\n");
    for (tool, args) in cases! {
        ("Write", json!({"file_path": "conf", "content": content})),
        ("Write", json!({"file_path": "new", "content": content})),
        ("write_file", json!({"path": "conf", "content": content})),
        ("write_file", json!({"path": "new", "content": content})),
        ("Edit", json!({"file_path": "conf", "old_string": "slow", "new_string": content})),
        (
            "Edit",
            json!({"file_path": "conf", "old_string": "slow", "new_string": content, "dry_run": true}),
        ),
        ("Edit", json!({"file_path": "conf", "old_string": content, "new_string": "x"})),
        ("Edit", json!({"file_path": "new", "old_string": "", "new_string": content})),
    } {
        let error = bench.refused(tool, args.clone()).await;
        assert_error!(error, InvalidArgs; "{tool} {args}");
        for words in [mark.as_str(), "stands for a secret value", "Edit"] {
            assert_contains!(error.model_text(), words; "{tool}");
        }
    }
    assert_eq!(bench.get("conf"), "key = hunter2\nmode = slow\n");
    assert!(!bench.root.join("new").exists());
    let error = bench
        .refused("Write", json!({"file_path": ".", "content": content}))
        .await;
    assert_error!(error, IsDirectory);
    bench.assert_tidy();
}

#[tokio::test]
async fn a_file_that_has_the_mark_as_its_own_text_can_be_written() {
    let bench = Bench::new();
    let mark = mark();
    let content = format!("now {mark} and {mark}\n");
    // The mark lies across the pieces in which the file is read.
    bench.put("far", format!("{}{mark}\n", "x".repeat((256 << 10) - 5)));
    let wide: Vec<u8> = std::iter::once(0xFEFF)
        .chain(mark.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    bench.put("wide", wide);
    for name in ["far", "wide"] {
        bench
            .ok("Write", json!({"file_path": name, "content": content}))
            .await;
    }
    let args = json!({"file_path": "far", "old_string": "now", "new_string": mark});
    bench.ok("Edit", args).await;
    assert_eq!(bench.get("far"), content.replace("now", &mark));
}
