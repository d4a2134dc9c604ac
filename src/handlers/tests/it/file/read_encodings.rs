//! Read: what text is written in, told or asked for, in small files and in big ones.

use proptest::prelude::*;
use punie_host::encoding::FileEncoding;
use serde_json::json;

use super::Bench;
use crate::harness::tools::reply_text;

fn encoded(label: &str, content: &str) -> Vec<u8> {
    FileEncoding::from_label(label)
        .unwrap()
        .encode_text(content)
        .unwrap()
        .into_owned()
}

#[tokio::test]
async fn an_older_encoding_is_told_and_named() {
    let bench = Bench::new();
    let french = "Le café du théâtre est fermé à midi.\n".repeat(3);
    let japanese = "こんにちは、世界。これはテストです。\n".repeat(3);
    bench.put("french", encoded("windows-1252", &french));
    bench.put("japanese", encoded("shift_jis", &japanese));
    let reply = bench.ok("Read", json!({"file_path": "french"})).await;
    let shown = reply_text(&reply);
    assert_contains!(
        shown,
        "(111 bytes, 3 lines, windows-1252, lf) [decoded from windows-1252]\n"
    );
    assert_contains!(shown, "     3\tLe café du théâtre est fermé à midi.\n");
    assert_eq!(reply.meta.lossy_chars, None);
    assert!(
        reply
            .meta
            .warnings
            .iter()
            .any(|warning| warning.contains("`encoding`")),
        "{:?}",
        reply.meta
    );
    let shown = bench.read(json!({"file_path": "japanese"})).await;
    assert_contains!(shown, "[decoded from Shift_JIS]", "\tこんにちは、世界。");
}

#[tokio::test]
async fn an_encoding_that_is_asked_for_is_taken_and_named() {
    let bench = Bench::new();
    bench.put("latin", encoded("windows-1252", "déjà vu\n"));
    for (label, expect) in [
        ("latin1", "déjà vu"),
        ("koi8-r", "dИjЮ vu"),
        ("UTF-8", "d\u{FFFD}j\u{FFFD} vu"),
    ] {
        let shown = bench
            .read(json!({"file_path": "latin", "encoding": label}))
            .await;
        assert_contains!(shown, &format!("     1\t{expect}\n"); "{label}");
        assert_contains!(shown, ", as asked]\n"; "{label}");
    }
    // Behind a mark or without one.
    for (name, mark) in [("wide", ""), ("marked", "\u{FEFF}")] {
        bench.put(name, encoded("utf-16be", &format!("{mark}wörld\n")));
        let shown = bench
            .read(json!({"file_path": name, "encoding": "utf-16be"}))
            .await;
        assert_contains!(shown, "     1\twörld\n");
    }
    let error = bench
        .refused("Read", json!({"file_path": "latin", "encoding": "klingon"}))
        .await;
    assert_error!(error, InvalidArgs: "klingon", "windows-1252");
}

#[tokio::test]
async fn a_few_damaged_places_leave_utf_8_what_it_is() {
    let bench = Bench::new();
    let mut damaged = "Grüße aus Köln\n".as_bytes().to_vec();
    damaged.extend(b"one bad \xFF byte\n");
    bench.put("damaged", damaged);
    let reply = bench.ok("Read", json!({"file_path": "damaged"})).await;
    let shown = reply_text(&reply);
    assert_contains!(
        shown,
        "(33 bytes, 2 lines, not utf-8, 1 invalid byte shown as U+FFFD, lf)\n"
    );
    assert_contains!(shown, "one bad \u{FFFD} byte");
    assert_eq!(reply.meta.lossy_chars, Some(1));
    // The header speaks of the whole file, whatever the window shows.
    let first = bench
        .read(json!({"file_path": "damaged", "limit": 1}))
        .await;
    assert_contains!(first, "1 invalid byte");
}

/// Over a mebibyte of text with a line of its own at the end.
fn big(line: &str, last: &str) -> String {
    let mut content = line.repeat((5 << 18) / line.len());
    content.push_str(last);
    content
}

#[tokio::test]
async fn big_files_are_decoded_like_small_ones() {
    let bench = Bench::new();
    let lines = big("Größe, Länge und Höhe\r\n", "das Ende – schön\r\n");
    let total = lines.lines().count();
    for label in ["windows-1252", "utf-16le", "utf-16be"] {
        for mark in ["", "\u{FEFF}"] {
            if label == "windows-1252" && !mark.is_empty() {
                continue;
            }
            bench.put("big", encoded(label, &format!("{mark}{lines}")));
            let name = format!("{label}{}", if mark.is_empty() { "" } else { " with BOM" });
            let shown = bench.read(json!({"file_path": "big", "limit": 1})).await;
            assert_contains!(shown, &format!("lines, {name}, crlf)"));
            assert_contains!(shown, "     1\tGröße, Länge und Höhe\n"; "{name}");
            for offset in [i64::try_from(total).unwrap(), -1] {
                let shown = bench
                    .read(json!({"file_path": "big", "offset": offset}))
                    .await;
                assert_contains!(shown, &format!("{total:>6}\tdas Ende – schön\n"); "{name}");
                assert_contains!(shown, &format!("Showing {total}-{total} of "); "{name}");
            }
            let shown = bench
                .read(json!({"file_path": "big", "offset": total, "column": 12}))
                .await;
            assert_contains!(shown, "\nschön"; "{name}");
        }
    }
}

#[tokio::test]
async fn what_follows_a_plain_head_is_told_by_the_window() {
    let bench = Bench::new();
    let plain = big("nothing but ascii here\n", "");
    let mut bytes = plain.clone().into_bytes();
    bytes.extend(encoded(
        "windows-1252",
        "à la fin: café, théâtre, déjà vu\n",
    ));
    bench.put("later", bytes);
    let shown = bench.read(json!({"file_path": "later", "limit": 1})).await;
    assert_contains!(shown, "lines, utf-8, lf)\n");
    let shown = bench
        .read(json!({"file_path": "later", "offset": -1}))
        .await;
    assert_contains!(
        shown,
        "\tà la fin: café, théâtre, déjà vu\n",
        "[decoded from windows-1252]"
    );
}

#[tokio::test]
async fn what_is_loaded_for_an_edit_is_told_as_it_is_read() {
    let bench = Bench::new();
    let content = "Le café du théâtre est fermé à midi.\n".repeat(3);
    bench.put("french", encoded("windows-1252", &content));
    let wide: Vec<u8> = encoded("utf-16le", "no mark at all\n");
    bench.put("wide", wide);
    for (name, encoding) in [("french", "windows-1252"), ("wide", "utf-16le")] {
        let loaded = bench.load(name).await;
        assert_eq!(loaded.encoding.as_str(), encoding);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn the_windows_of_any_encoding_join_to_its_text(
        lines in prop::collection::vec("[a-zäéß ]{0,30}", 1..40),
        label in prop::sample::select(vec!["utf-8", "utf-16le", "utf-16be", "windows-1252", "gb18030"]),
        ending in prop::sample::select(vec!["\n", "\r\n"]),
        final_ending: bool,
        limit in 1_usize..9,
    ) {
        let mut content = lines.join(ending);
        if final_ending || content.is_empty() {
            content.push_str(ending);
        }
        let total = content.lines().count();
        let bench = Bench::new();
        bench.put("f", encoded(label, &content));
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let mut seen = Vec::new();
            while seen.len() < total {
                let offset = seen.len() + 1;
                let args = json!({"file_path": "f", "offset": offset, "limit": limit, "encoding": label});
                let page = bench.lines(args).await;
                let back = i64::try_from(total - seen.len()).unwrap();
                let args = json!({"file_path": "f", "offset": -back, "limit": limit, "encoding": label});
                assert_eq!(bench.lines(args).await, page, "from the end it is the same");
                assert!(!page.is_empty() && page.len() <= limit);
                seen.extend(page);
            }
            let expect: Vec<_> = (1..).zip(content.lines()).map(|(n, line)| (n, line.to_owned())).collect();
            assert_eq!(seen, expect);
        });
    }
}
