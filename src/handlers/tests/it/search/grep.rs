//! Grep: what is found, how it is shown, and what is said of the rest.

use std::fs;

use punie_host::encoding::FileEncoding;
use serde_json::{Value, json};

use super::{Tree, listed, put};

#[tokio::test]
async fn grep_shows_lines_with_context() {
    let tree = Tree::new(&[
        (
            "a.txt",
            "one\ntwo\nneedle 1\nfour\nfive\nsix\nseven\nneedle 2\n",
        ),
        ("b.txt", "nothing\n"),
        ("c/d.txt", "a needle\r\nlast"),
    ]);
    let answer = tree
        .ask(
            "Grep",
            json!({"pattern": "needle", "output_mode": "content", "before_context": 1, "after_context": 1}),
        )
        .await;
    assert_starts_with!(answer, "Found 3 matching lines in 2 files in ");
    let body: Vec<&str> = answer.lines().skip(1).collect();
    assert_eq!(
        body,
        [
            "a.txt",
            "  2- two",
            "  3: needle 1",
            "  4- four",
            "  --",
            "  7- seven",
            "  8: needle 2",
            "c/d.txt",
            "  1: a needle",
            "  2- last"
        ]
    );
    let answer = tree.ask("Grep", json!({"pattern": "needle"})).await;
    assert_eq!(listed(&answer), ["a.txt", "c/d.txt"]);
    let answer = tree
        .ask("Grep", json!({"pattern": "needle", "output_mode": "count"}))
        .await;
    assert_starts_with!(answer, "Found 3 matching lines in 2 files");
    assert_eq!(listed(&answer), ["a.txt: 2", "c/d.txt: 1"]);
    let args = json!({"pattern": "needle", "path": "a.txt", "output_mode": "content"});
    let answer = tree.ask("Grep", args).await;
    assert_eq!(listed(&answer), ["a.txt", "  3: needle 1", "  8: needle 2"]);
}

#[tokio::test]
async fn grep_chooses_among_files() {
    let tree = Tree::new(&[
        ("a.rs", "needle"),
        ("src/b.rs", "needle"),
        ("src/c.py", "needle"),
        (".ignore", "skipped/\n"),
        ("skipped/d.rs", "needle"),
        (".dot/e.rs", "needle"),
    ]);
    let found = async |args: Value| {
        let answer = tree.ask("Grep", args).await;
        listed(&answer)
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found(json!({"pattern": "needle", "glob": "*.rs", "hidden": false})).await,
        ["a.rs", "src/b.rs"]
    );
    assert_eq!(
        found(json!({"pattern": "needle", "glob": "src/*.rs"})).await,
        ["src/b.rs"]
    );
    assert_eq!(
        found(json!({"pattern": "needle", "glob": "!*.rs"})).await,
        ["src/c.py"]
    );
    assert_eq!(
        found(json!({"pattern": "needle", "type": "py"})).await,
        ["src/c.py"]
    );
    assert_eq!(
        found(json!({"pattern": "needle", "type": "rust", "include_ignored": true})).await,
        [".dot/e.rs", "a.rs", "skipped/d.rs", "src/b.rs"]
    );
    let refused = tree
        .refused("Grep", json!({"pattern": "x", "type": "rus"}))
        .await;
    assert_contains!(refused.model_text(), "rust");
}

#[tokio::test]
async fn grep_reads_patterns_as_asked() {
    let tree = Tree::new(&[("a.txt", "call foo(bar)\nNeedle\nbegin\nend\n")]);
    let refused = tree.refused("Grep", json!({"pattern": "foo("})).await;
    assert_error!(refused, InvalidArgs: "literal=true", "^");
    let answer = tree
        .ask("Grep", json!({"pattern": "foo(", "literal": true}))
        .await;
    assert_eq!(listed(&answer), ["a.txt"]);
    let answer = tree.ask("Grep", json!({"pattern": "needle"})).await;
    assert_contains!(answer, "No matches", "case_insensitive=true");
    let answer = tree
        .ask("Grep", json!({"pattern": "needle", "-i": true}))
        .await;
    assert_eq!(listed(&answer), ["a.txt"]);
    let args = json!({"pattern": "begin.end", "multiline": true, "output_mode": "content"});
    let answer = tree.ask("Grep", args).await;
    assert_eq!(listed(&answer), ["a.txt", "  3: begin", "  4: end"]);
}

#[tokio::test]
async fn grep_says_what_it_left_out() {
    let tree = Tree::new(&[
        ("big.txt", &"needle\n".repeat(2_000)),
        ("small.txt", "needle\n"),
    ]);
    put(tree.path(), "bin.dat", b"\0needle\n");
    put(
        tree.path(),
        "long.txt",
        format!("{}needle{}\n", "x".repeat(9_000), "y".repeat(9_000)).as_bytes(),
    );
    let args = json!({"pattern": "needle", "max_filesize": 10_000, "output_mode": "content"});
    let answer = tree.ask("Grep", args).await;
    assert_ends_with!(answer, "[skipped: 2 files over max_filesize]");
    assert_eq!(
        listed(&answer),
        ["bin.dat: binary file matches", "small.txt", "  1: needle"]
    );
    let args = json!({"pattern": "needle", "path": "long.txt", "output_mode": "content"});
    let answer = tree.ask("Grep", args).await;
    assert!(
        answer.contains("xneedley") && answer.len() < 1_000,
        "{answer}"
    );
}

#[tokio::test]
async fn grep_pages_without_overlap_in_order_of_path() {
    let names: Vec<String> = (0..30).map(|i| format!("f{i:02}.txt")).collect();
    let files: Vec<(&str, &str)> = names
        .iter()
        .map(|name| (name.as_str(), "needle\nneedle\nneedle\n"))
        .collect();
    let tree = Tree::new(&files);
    let mut seen = Vec::new();
    for offset in [0, 8, 16, 24] {
        let args = json!({"pattern": "needle", "sort": "path", "max_results": 8, "offset": offset});
        let answer = tree.ask("Grep", args).await;
        seen.extend(listed(&answer).into_iter().map(str::to_owned));
    }
    assert_eq!(seen, names);
    let answer =
        tree.ask("Grep", json!({"pattern": "needle", "output_mode": "content", "max_results": 4, "offset": 4, "sort": "path"})).await;
    assert_eq!(
        listed(&answer),
        [
            "f01.txt",
            "  2: needle",
            "  3: needle",
            "f02.txt",
            "  1: needle",
            "  2: needle"
        ]
    );
    let answer = tree
        .ask("Grep", json!({"pattern": "needle", "max_results": 5}))
        .await;
    assert_contains!(answer, "at least", "offset=5 for the next page");
    assert_eq!(listed(&answer).len(), 5);
}

#[tokio::test]
async fn a_named_binary_file_is_answered_in_one_line() {
    let tree = Tree::new(&[]);
    put(tree.path(), "bin.dat", b"\0\x01head\0needle\0tail\n");
    for mode in ["files_with_matches", "content", "count"] {
        let args = json!({"pattern": "needle", "path": "bin.dat", "output_mode": mode});
        let answer = tree.ask("Grep", args).await;
        assert_starts_with!(answer, "Binary file bin.dat matches"; "{mode}");
        assert_eq!(answer.lines().count(), 1, "{mode}: {answer}");
    }
    let answer = tree
        .ask("Grep", json!({"pattern": "thread", "path": "bin.dat"}))
        .await;
    assert_starts_with!(answer, "No matches");
    assert_contains!(answer, "(1 file searched)");
    assert_lacks!(answer, "skipped"; "all of it was searched");
}

#[tokio::test]
async fn default_pages_do_not_overlap_and_miss_nothing() {
    let names: Vec<String> = (0..60).map(|i| format!("d{}/f{i:02}.txt", i % 7)).collect();
    let files: Vec<(&str, &str)> = names
        .iter()
        .map(|name| (name.as_str(), "needle\n"))
        .collect();
    let tree = Tree::new(&files);
    let mut seen = Vec::new();
    for offset in (0..60).step_by(10) {
        let args = json!({"pattern": "needle", "max_results": 10, "offset": offset});
        let answer = tree.ask("Grep", args).await;
        seen.extend(listed(&answer).into_iter().map(str::to_owned));
    }
    let mut sorted = names;
    sorted.sort();
    assert_eq!(seen, sorted);
}

#[tokio::test]
async fn nothing_found_tells_of_ignored_files_and_of_how_many_were_searched() {
    let tree = Tree::new(&[
        (".gitignore", "out/\n.env\n"),
        ("out/a.js", "needle"),
        (".env", "needle"),
        ("c", "x"),
    ]);
    let answer = tree.ask("Grep", json!({"pattern": "needle"})).await;
    assert_contains!(answer, "(2 files searched)");
    assert_contains!(
        answer,
        "But 2 ignored or hidden files match: use include_ignored=true."
    );
    assert_ends_with!(
        answer,
        "[skipped: 1 ignored directory (out), 1 ignored file (.env)]"
    );
    let answer = tree
        .ask("Grep", json!({"pattern": "needle", "glob": "*.py"}))
        .await;
    assert_contains!(answer, "0 files searched", "No file there fits");
}

#[tokio::test]
async fn a_binary_file_in_a_tree_is_one_line() {
    let tree = Tree::new(&[("a.txt", "needle\n")]);
    put(tree.path(), "b.bin", b"needle\nneedle\n\0\x01needle\n");
    put(
        tree.path(),
        "c.bin",
        &[vec![0; 2_000_000], b"needle".to_vec()].concat(),
    );
    let args = json!({"pattern": "needle", "output_mode": "content"});
    let answer = tree.ask("Grep", args).await;
    assert_eq!(
        listed(&answer),
        [
            "a.txt",
            "  1: needle",
            "b.bin: binary file matches",
            "c.bin: binary file matches"
        ]
    );
    let answer = tree.ask("Grep", json!({"pattern": "needle"})).await;
    assert_eq!(
        listed(&answer),
        ["a.txt", "b.bin (binary file)", "c.bin (binary file)"]
    );
}

#[tokio::test]
async fn text_in_other_encodings_is_found_or_told_of() {
    let tree = Tree::new(&[("utf8.txt", "\u{FEFF}naïve café\n")]);
    let wide: Vec<u8> = "\u{FEFF}naïve café\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    put(tree.path(), "utf16.txt", &wide);
    put(tree.path(), "latin.txt", b"na\xEFve caf\xE9\n");
    let args = json!({"pattern": "^naïve café$", "output_mode": "content"});
    let answer = tree.ask("Grep", args).await;
    assert_eq!(
        listed(&answer),
        [
            "latin.txt (decoded from windows-1252)",
            "  1: naïve café",
            "utf16.txt",
            "  1: naïve café",
            "utf8.txt",
            "  1: naïve café"
        ]
    );
    let args = json!({"pattern": "caf", "path": "latin.txt", "output_mode": "content"});
    let answer = tree.ask("Grep", args).await;
    assert_eq!(
        listed(&answer),
        ["latin.txt (decoded from windows-1252)", "  1: naïve café"]
    );
    let args = json!({"pattern": "café", "path": "latin.txt", "encoding": "windows-1252", "output_mode": "content"});
    assert_eq!(
        listed(&tree.ask("Grep", args).await),
        ["latin.txt", "  1: naïve café"]
    );
    let refused = tree
        .refused("Grep", json!({"pattern": "x", "encoding": "klingon"}))
        .await;
    assert_error!(refused, InvalidArgs);
}

#[tokio::test]
async fn a_match_in_another_case_is_told_of_in_small_large_and_marked_files() {
    let large = format!("{}Needle\n", "some words on a line\n".repeat(40_000));
    for content in ["Needle\n", "\u{FEFF}Needle\n", &large] {
        let tree = Tree::new(&[("a.txt", content), ("b.txt", "nothing\n")]);
        let answer = tree.ask("Grep", json!({"pattern": "needle"})).await;
        assert_contains!(
            answer,
            "It matches in 1 file in another case: use case_insensitive=true."
        );
    }
}

#[tokio::test]
async fn a_large_file_is_searched_to_its_end() {
    let content = format!("{}needle\n", "some words on a line\n".repeat(100_000));
    let tree = Tree::new(&[("large.txt", &content)]);
    let args = json!({"pattern": "needle", "output_mode": "content"});
    let answer = tree.ask("Grep", args).await;
    assert_eq!(listed(&answer), ["large.txt", "  100001: needle"]);
}

#[tokio::test]
async fn counts_are_full_whatever_is_shown() {
    let names: Vec<String> = (0..30).map(|i| format!("f{i:02}")).collect();
    let files: Vec<(&str, &str)> = names
        .iter()
        .map(|name| (name.as_str(), "needle\nneedle\n"))
        .collect();
    let tree = Tree::new(&files);
    let args = json!({"pattern": "needle", "output_mode": "count", "max_results": 4});
    let answer = tree.ask("Grep", args).await;
    assert_starts_with!(answer, "Found 60 matching lines in 30 files (showing 1-4)");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_early_end_looks_into_hardly_more_files_than_it_shows() {
    let names: Vec<String> = (0..3_000)
        .map(|i| format!("d{:02}/f{i:04}", i / 100))
        .collect();
    let files: Vec<(&str, &str)> = names
        .iter()
        .map(|name| (name.as_str(), "needle\n"))
        .collect();
    let tree = Tree::new(&files);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for (sort, more) in [("any", threads), ("path", 10 * threads)] {
        let mut fewest = usize::MAX;
        // A thread that the system holds up for a while lets the others go ahead: that says nothing of the search.
        for _ in 0..3 {
            let opens = Opens::below(tree.path());
            let args = json!({"pattern": "needle", "max_results": 20, "sort": sort});
            let answer = tree.ask("Grep", args).await;
            assert_starts_with!(answer, "Found at least 21 files (showing 1-20)");
            assert_eq!(listed(&answer).len(), 20);
            if sort == "path" {
                assert_eq!(listed(&answer), names[..20]);
            }
            fewest = fewest.min(opens.files());
        }
        assert!(
            (20..=21 + more).contains(&fewest),
            "{sort}: {fewest} files were opened"
        );
    }
}

/// The kernel's own list of what is opened in some folders.
#[cfg(target_os = "linux")]
struct Opens(std::os::fd::OwnedFd);

#[cfg(target_os = "linux")]
impl Opens {
    fn below(root: &std::path::Path) -> Self {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
        let fd = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).expect("a watch");
        for folder in fs::read_dir(root).expect("folders") {
            add_watch(&fd, folder.expect("a folder").path(), WatchFlags::OPEN).expect("watched");
        }
        Self(fd)
    }

    fn files(&self) -> usize {
        use rustix::fs::inotify::{ReadFlags, Reader};
        let mut buffer: Vec<u8> = Vec::with_capacity(64 << 10);
        let mut reader = Reader::new(&self.0, buffer.spare_capacity_mut());
        let mut files = 0;
        while let Ok(event) = reader.next() {
            files += usize::from(!event.events().contains(ReadFlags::ISDIR));
        }
        files
    }
}

#[tokio::test]
async fn lines_that_end_with_a_carriage_return_are_lines() {
    let tree = Tree::new(&[
        ("crlf.txt", "one\r\ntwo\r\nthree;\r\n"),
        ("lf.txt", "one\ntwo\nthree;\n"),
    ]);
    let count = async |pattern: &str, more: Value| {
        let mut args = json!({"pattern": pattern, "output_mode": "content"});
        args.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        tree.ask("Grep", args).await
    };
    for pattern in ["^two$", "o$", "^t.o$"] {
        let answer = count(pattern, json!({})).await;
        assert_starts_with!(answer, "Found 2 matching lines in 2 files in "; "{pattern}");
    }
    let answer = count("[^;]$", json!({})).await;
    assert_starts_with!(answer, "Found 4 matching lines in 2 files in ");
    for (pattern, literal) in [
        (r"two\nthree", false),
        ("two\nthree", false),
        ("two\nthree", true),
    ] {
        let answer = count(pattern, json!({"multiline": true, "literal": literal})).await;
        assert_starts_with!(answer, "Found 4 matching lines in 2 files in "; "{pattern:?}");
    }
}

#[tokio::test]
async fn grep_finds_what_read_decodes() {
    let tree = Tree::new(&[]);
    let japanese = "設定ファイルを読み込みます。\nエラーが発生しました: E42\n処理を終了します。\n";
    let chinese = "配置文件已经读取完成。\n发生错误: E42\n程序现在结束。\n";
    let russian = "Файл настроек прочитан.\nПроизошла ошибка: E42\nРабота завершена.\n";
    let french = "Le café du théâtre est fermé.\nUne erreur a été trouvée: E42\nÀ bientôt.\n";
    let texts = [
        ("sjis.txt", "shift_jis", japanese, "エラー"),
        ("euc.txt", "euc-jp", japanese, "エラー"),
        ("gbk.txt", "gbk", chinese, "错误"),
        ("koi8.txt", "koi8-r", russian, "ошибка"),
        ("latin.txt", "windows-1252", french, "trouvée"),
        ("wide.txt", "utf-16le", french, "trouvée"),
    ];
    // In memory as a whole, and piece by piece.
    for times in [1, 6_000] {
        for (name, label, text, word) in texts {
            let encoding = FileEncoding::from_label(label).expect(label);
            let text = text.repeat(times);
            put(
                tree.path(),
                name,
                &encoding.encode_text(&text).expect(label),
            );
            let ask = async |pattern: &str| {
                let args = json!({"pattern": pattern, "path": name, "output_mode": "content", "max_results": 1});
                tree.ask("Grep", args).await
            };
            let line = text.lines().nth(1).expect("a line");
            for pattern in [word, "E42", &format!("^.*{word}.*E\\d+$")] {
                let answer = ask(pattern).await;
                assert_contains!(answer, &format!("\n{name} (decoded from "); "{pattern}");
                assert!(
                    answer.contains(&format!("\n  2: {line}\n")) || times == 1,
                    "{pattern}: {answer}"
                );
                assert!(
                    answer.ends_with(&format!("\n  2: {line}")) || times > 1,
                    "{pattern}: {answer}"
                );
            }
            let answer = ask("nowhere").await;
            assert_contains!(answer, "(1 file searched)");
            assert_lacks!(answer, "[skipped");
        }
    }
}

#[tokio::test]
async fn files_that_are_not_searched_as_text_are_told_of() {
    let tree = Tree::new(&[]);
    let wide: Vec<u8> = "\u{FEFF}needle\n"
        .chars()
        .flat_map(|c| u32::from(c).to_le_bytes())
        .collect();
    put(tree.path(), "utf32.txt", &wide);
    let answer = tree.ask("Grep", json!({"pattern": "needle"})).await;
    assert_contains!(answer, "(0 files searched)", "[skipped: 1 file in UTF-32]");
    // The encoding shows only far behind what is looked at to tell it.
    let late = [b"plain words\n".repeat(60_000), b"caf\xE9\n".to_vec()].concat();
    put(tree.path(), "late.log", &late);
    let answer = tree
        .ask("Grep", json!({"pattern": "café", "path": "late.log"}))
        .await;
    assert_contains!(
        answer,
        "[not UTF-8: 1 large file without a match searched as bytes"
    );
    let args = json!({"pattern": "café", "path": "late.log", "encoding": "windows-1252"});
    assert_eq!(listed(&tree.ask("Grep", args).await), ["late.log"]);
}

#[tokio::test]
async fn a_limit_that_is_lowered_is_told_of() {
    let tree = Tree::new(&[("a.txt", "needle\n")]);
    let args = json!({"pattern": "needle", "multiline": true, "max_filesize": 500_000_000});
    let answer = tree.ask("Grep", args).await;
    assert_ends_with!(
        answer,
        "[max_filesize is 67,108,864 bytes, the most there is with multiline=true]"
    );
    let args = json!({"pattern": "needle", "max_filesize": 500_000_000});
    let answer = tree.ask("Grep", args).await;
    assert_lacks!(answer, "max_filesize");
}

#[tokio::test]
async fn a_pattern_is_judged_as_it_was_written() {
    let tree = Tree::new(&[("a.txt", "foo bar\n")]);
    for multiline in [false, true] {
        let args = |pattern: &str| json!({"pattern": pattern, "multiline": multiline});
        let answer = tree.ask("Grep", args("(?x)foo # a comment")).await;
        assert_eq!(listed(&answer), ["a.txt"]);
        for pattern in [
            "foo)(bar",
            "(?x)foo( # c",
            "a)",
            &"(".repeat(400),
            &format!("{}a{}", "(".repeat(251), ")".repeat(251)),
        ] {
            let refused = tree.refused("Grep", args(pattern)).await;
            assert_contains!(refused.model_text(), pattern);
            assert_lacks!(refused.model_text(), "(?:");
        }
    }
}

#[tokio::test]
async fn an_empty_result_says_what_the_pattern_or_the_files_may_be() {
    let tree = Tree::new(&[
        ("a.txt", "alpha\ngamma\n"),
        ("report.pdf", "%PDF-1.7 packed\n"),
        (".gitignore", "/{{name}}.yml\n"),
        ("{{name}}.yml", "alpha\n"),
        ("app/[id]/page.tsx", "alpha\n"),
        ("u.txt", "un cafe\u{301}\n"),
    ]);
    let answer = tree.ask("Grep", json!({"pattern": r"beta\|delta"})).await;
    assert_contains!(answer, r"`\|` is a bar", "1 document (PDF, office)");
    let answer = tree
        .ask("Grep", json!({"pattern": "alpha", "head_limit": 0}))
        .await;
    assert_starts_with!(answer, "Found 2 files");
    assert_contains!(answer, "1 ignored file ({{name}}.yml)");
    let args = json!({"pattern": "alpha", "glob": "app/[id]/*.tsx"});
    let answer = tree.ask("Grep", args).await;
    assert_contains!(answer, "app/[id]/page.tsx", "taken as letters");
    for (glob, found) in [(json!("*.txt,*.tsx"), 2), (json!(["*.txt", "*.md"]), 1)] {
        let answer = tree
            .ask("Grep", json!({"pattern": "alpha", "glob": glob}))
            .await;
        assert_starts_with!(answer, &format!("Found {found} file"));
    }
    for args in [
        json!({"pattern": "caf\u{e9}"}),
        json!({"pattern": "caf\u{e9}", "literal": true}),
        json!({"pattern": "CAF\u{e9}", "case_insensitive": true}),
        json!({"pattern": "un\\s+caf\u{e9}$", "output_mode": "content"}),
    ] {
        let answer = tree.ask("Grep", args.clone()).await;
        assert_contains!(answer, "u.txt"; "{args}");
    }
}
