//! Read: windows, long lines, encodings, missing files, big files.

use std::fs;
use std::io::{Seek, SeekFrom, Write as _};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use proptest::prelude::*;
use punie_handlers::file::{FileDeps, tools};
use punie_host::Workspace;
use punie_host::local::local_files::LocalFiles;
use serde_json::json;

use super::{Bench, counted};
use crate::harness::process::worker_program;
use crate::harness::tools::{build_registry, call_tool, reply_text};

#[tokio::test]
async fn read_numbers_lines_and_says_how_to_go_on() {
    let bench = Bench::new();
    let lines = counted(50, "line {}\r\n");
    bench.put("f.txt", &lines);
    let reply = bench
        .ok(
            "Read",
            json!({"path": "f.txt", "offset": "11", "limit": 10}),
        )
        .await;
    let shown = reply_text(&reply);
    assert_starts_with!(
        shown,
        "f.txt (441 bytes, 50 lines, utf-8, crlf)\n    11\tline 11\n"
    );
    assert_ends_with!(
        shown,
        "    20\tline 20\n\nShowing 11-20 of 50. Continue with offset=21.\n"
    );
    assert_eq!(reply.meta.sha256.as_deref().map(str::len), Some(64));

    let shown = bench
        .read(json!({"file_path": "f.txt", "offset": -2}))
        .await;
    assert_contains!(
        shown,
        "    49\tline 49\n    50\tline 50\n\nShowing 49-50 of 50, to the end.\n"
    );
    let shown = bench
        .read(json!({"file_path": "f.txt", "offset": 51}))
        .await;
    assert_contains!(shown, "There is no line 51: the file has 50 lines.");
    bench.put("empty", "");
    let text = bench.read(json!({"file_path": "empty"})).await;
    assert_contains!(text, "The file is empty.");
    bench.put("open", "a\nb");
    assert_ends_with!(
        bench.read(json!({"file_path": "open"})).await,
        "     2\tb\n\nThere is no newline at the end of the file.\n"
    );
    for args in [
        json!({"file_path": "f.txt", "limit": 0}),
        json!({"file_path": "f.txt", "limt": 1}),
        json!({}),
    ] {
        assert_error!(bench.refused("Read", args).await, InvalidArgs);
    }
}

#[tokio::test]
async fn read_stops_at_its_budget_and_pages_join_to_the_file() {
    let bench = Bench::new();
    let lines: Vec<String> = (1..=900)
        .map(|n| format!("{n} {}", "é".repeat(n % 90)))
        .collect();
    bench.put("f", lines.join("\n") + "\n");
    let mut offset = 1;
    let mut seen = Vec::new();
    while seen.len() < lines.len() {
        let args = json!({"file_path": "f", "offset": offset, "max_chars": 3_000});
        let reply = bench.ok("Read", args).await;
        let shown = reply_text(&reply);
        assert!(shown.chars().count() <= 3_000, "{}", shown.chars().count());
        let page: Vec<_> = shown
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once('\t'))
            .map(|(_, body)| body.to_owned())
            .collect();
        assert!(!page.is_empty());
        offset += page.len();
        seen.extend(page);
        let goes_on = shown.contains(&format!("Continue with offset={offset}."));
        assert_eq!(goes_on, seen.len() < lines.len(), "{shown}");
        assert_eq!(reply.meta.truncated, goes_on);
    }
    assert_eq!(seen, lines);
}

#[tokio::test]
async fn a_long_line_is_cut_and_read_on_by_column() {
    let bench = Bench::new();
    let long: String = (0..10_000)
        .map(|n| char::from(b'a' + u8::try_from(n % 26).unwrap()))
        .collect();
    bench.put("f", format!("short\n{long}\nlast\n"));
    let shown = bench.read(json!({"file_path": "f"})).await;
    assert_contains!(
        shown,
        "of this line omitted; it has 10,000 characters",
        "     3\tlast\n"
    );
    assert_contains!(
        shown,
        "\nLine 2 is cut in its middle: offset=2 column=1001 reads it on.\n"
    );
    // The note names no line that is not shown.
    let shown = bench.read(json!({"file_path": "f", "limit": 1})).await;
    assert_lacks!(shown, "is cut");
    let shown = bench
        .read(json!({"file_path": "f", "offset": 2, "column": 1_001, "max_chars": 2_000}))
        .await;
    let rest: String = shown.lines().nth(1).unwrap().to_owned();
    assert!(
        long[1_000..].starts_with(&rest) && rest.len() > 1_000,
        "{shown}"
    );
    assert_contains!(
        shown,
        &format!("Continue with offset=2 column={}.", 1_001 + rest.len())
    );
    let error = bench
        .refused("Read", json!({"file_path": "f", "offset": 1, "column": 50}))
        .await;
    assert_error!(error, InvalidArgs);
}

#[tokio::test]
async fn read_knows_encodings_and_binary_files() {
    let bench = Bench::new();
    bench.put("bom", "\u{FEFF}héllo\n");
    let utf16: Vec<u8> = b"\xFF\xFE"
        .iter()
        .copied()
        .chain("wörld\n".encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    bench.put("utf16", utf16);
    bench.put("control", b"a\x07b\n");
    for (name, expect) in [
        ("bom", "utf-8 with BOM, lf)\n     1\théllo\n"),
        ("utf16", "utf-16le with BOM, lf)\n     1\twörld\n"),
    ] {
        let shown = bench.read(json!({"file_path": name})).await;
        assert_contains!(shown, expect);
    }
    assert_eq!(
        bench
            .ok("Read", json!({"file_path": "control"}))
            .await
            .meta
            .control_chars,
        Some(1)
    );

    bench.put("base.db", b"SQLite format 3\0\x10\0");
    for (name, words) in [("base.db", ["SQLite", "SqliteQuery", "53 51 4c"])] {
        let error = bench.refused("Read", json!({"file_path": name})).await;
        assert_error!(error, NotText);
        assert!(
            words.iter().all(|word| error.model_text().contains(word)),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_missing_file_comes_with_what_may_be_meant() {
    let bench = Bench::new();
    let main = bench.put("src/main.rs", "fn main() {}\n");
    let deep = bench.put("crates/core/src/engine.rs", "\n");
    symlink("nowhere", bench.root.join("broken")).unwrap();
    for (path, expect) in cases! {
        ("src/mian.rs", format!("Did you mean {}?", main.display())),
        ("scr/main.rs", main.display().to_string()),
        ("src/engine.rs", deep.display().to_string()),
        ("src/none/at/all", format!("that exists is {}.", bench.root.join("src").display())),
        ("broken", "is a link to nowhere, which does not exist".to_owned()),
    } {
        let error = bench.refused("Read", json!({"file_path": path})).await;
        assert_error!(error, NotFound: &expect; "{path}");
    }
    let error = bench.refused("read_file", json!({"path": "none"})).await;
    assert_starts_with!(error.model_text(), "Error: File not found\n");
}

// Big files.

/// Writes text at the start of a file and at offset `size`, with a hole between.
fn make_sparse_file(bench: &Bench, name: &str, size: u64) -> PathBuf {
    let path = bench.put(name, "first line of text\n".repeat(1_000));
    let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(size)).unwrap();
    file.write_all(b"\nlast but one\nlast\n").unwrap();
    path
}

#[tokio::test]
async fn the_ends_of_a_huge_file_are_near() {
    let bench = Bench::new();
    for (name, size) in [("20g", 20_u64 << 30), ("1t", 1 << 40)] {
        make_sparse_file(&bench, name, size);
        let reply = bench
            .ok("Read", json!({"file_path": name, "offset": -2}))
            .await;
        assert_contains!(reply_text(&reply), "    -2\tlast but one\n    -1\tlast\n");
        assert_eq!(reply.meta.sha256, None);
        let shown = bench
            .read(json!({"file_path": name, "offset": 999, "limit": 2}))
            .await;
        assert_contains!(
            shown,
            "   999\tfirst line of text\n  1000\tfirst line of text\n"
        );
        assert_contains!(shown, "more than", "Continue with offset=1001.");
        let shown = bench
            .read(json!({"file_path": name, "offset": 1_000}))
            .await;
        assert_contains!(shown, "it has more than 64 MB", "too long to look past");
    }
}

#[tokio::test]
async fn deep_pages_of_a_big_file_are_exact() {
    let bench = Bench::new();
    let content = counted(300_000, "this is line number {}\n");
    let path = bench.put("big", &content);
    let total = "300,000 lines";
    for offset in [150_000_u64, 150_003, 299_999, 1, 40_000] {
        let shown = bench
            .read(json!({"file_path": "big", "offset": offset, "limit": 2}))
            .await;
        assert_contains!(shown, total);
        let expect = format!(
            "{offset:>6}\tthis is line number {offset}\n{:>6}\tthis is line number {}\n",
            offset + 1,
            offset + 1
        );
        assert_contains!(shown, &expect);
    }
    let shown = bench.read(json!({"file_path": "big", "offset": -1})).await;
    assert_contains!(shown, "300000\tthis is line number 300000\n");
    // A change of the file makes the index of its lines useless.
    fs::write(&path, content.replacen("this is", "it became\nthis is", 1)).unwrap();
    let shown = bench
        .read(json!({"file_path": "big", "offset": 150_001, "limit": 1}))
        .await;
    assert_contains!(shown, "150001\tthis is line number 150000\n");
}

#[tokio::test]
async fn lines_between_the_holes_of_a_sparse_file_are_exact() {
    let bench = Bench::new();
    let size = 20_u64 << 30;
    // The file has 1,000 lines at the start and a few at the end. A hole and "middle 1" form line 1,001.
    let mut file = fs::File::options()
        .write(true)
        .open(make_sparse_file(&bench, "sparse", size))
        .unwrap();
    file.seek(SeekFrom::Start(size / 2)).unwrap();
    file.write_all(counted(300_000, "middle {}\n").as_bytes())
        .unwrap();
    let shown = bench
        .read(json!({"file_path": "sparse", "offset": 200_999, "limit": 2}))
        .await;
    assert_contains!(shown, "200999\tmiddle 199999\n201000\tmiddle 200000\n");
    let refused = bench
        .read(json!({"file_path": "sparse", "offset": 5_000_000}))
        .await;
    assert_contains!(refused, "301,003 lines");
    for offset in [301_002, -2] {
        let shown = bench
            .read(json!({"file_path": "sparse", "offset": offset}))
            .await;
        assert_contains!(shown, "301002\tlast but one\n301003\tlast\n");
    }
}

#[tokio::test]
async fn a_file_of_unknown_size_is_read_within_bounds() {
    let workspace = Workspace::open_roots(&[PathBuf::from("/proc/self")]).unwrap();
    let deps = FileDeps::new(Arc::new(LocalFiles::new()), workspace, worker_program());
    let reply = call_tool(
        &build_registry(tools(deps)),
        "Read",
        json!({"file_path": "status"}),
    )
    .await
    .unwrap();
    assert_contains!(reply_text(&reply), "\tName:");
}

#[tokio::test]
async fn a_file_up_to_100_mb_has_its_hash_on_every_page() {
    use sha2::Digest as _;
    let bench = Bench::new();
    let content = counted(300_000, "this is line number {}\n");
    bench.put("big", &content);
    let digest = sha2::Sha256::digest(&content);
    let expect: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let expect = expect.concat();
    for offset in [1, 250_000, -1] {
        let args = json!({"file_path": "big", "offset": offset, "limit": 1});
        let reply = bench.ok("Read", args).await;
        assert_eq!(reply.meta.sha256.as_deref(), Some(expect.as_str()));
    }
    make_sparse_file(&bench, "over", 100 << 20);
    let reply = bench
        .ok("Read", json!({"file_path": "over", "limit": 1}))
        .await;
    assert_eq!(reply.meta.sha256, None);
    assert_contains!(reply_text(&reply), "more than 1 line,");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn long_lines_joined_by_column_are_the_line(
        body in "[a-zäß€🦀]{900,2500}",
        repeat in 1_usize..4,
        behind in prop::sample::select(vec!["", "\n", "\r\n", "\nnext\n"]),
        max_chars in 1_000_u64..3_000,
    ) {
        let line = body.repeat(repeat);
        let bench = Bench::new();
        bench.put("f", format!("first\n{line}{behind}"));
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let (mut joined, mut column) = (String::new(), 1);
            loop {
                let args = json!({"file_path": "f", "offset": 2, "column": column, "max_chars": max_chars});
                let shown = bench.read(args).await;
                assert!(shown.chars().count() as u64 <= max_chars);
                assert_lacks!(shown, "\r"; "a line's ending is no part of it");
                let part = shown.lines().nth(1).unwrap().to_owned();
                column += part.chars().count();
                joined.push_str(&part);
                if !shown.contains(&format!("Continue with offset=2 column={column}.")) {
                    assert_contains!(shown, "of line 2, which ends there.");
                    break;
                }
            }
            assert_eq!(joined, line);
        });
    }
}
