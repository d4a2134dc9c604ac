//! Grep and Glob against a scan that anybody can check: the same rules, written down as plainly as they are.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Tree, listed, put};

/// A tree: paths with their content.
type Files = BTreeMap<String, Vec<u8>>;

/// What the tree's ignore files say: `x/` and `*.log` at the top, `!g1.log` in `a`, `h*` in an .ignore in `b`.
const RULES: [(&str, &str); 3] = [
    (".gitignore", "x/\n*.log\n"),
    ("a/.gitignore", "!g1.log\n"),
    ("b/.ignore", "h*\n"),
];

/// A pattern, written down as plainly as it is.
type Naive<'a> = &'a dyn Fn(&str) -> bool;

fn has_ending(path: &str, ending: &str) -> bool {
    std::path::Path::new(path)
        .extension()
        .is_some_and(|found| found == ending)
}

fn ignored(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let (name, folders) = parts.split_last().expect("a name");
    let log = has_ending(name, "log") && !(*name == "g1.log" && folders.first() == Some(&"a"));
    let h = folders.first() == Some(&"b") && parts[1..].iter().any(|part| part.starts_with('h'));
    folders.contains(&"x") || log || h
}

fn hidden(path: &str) -> bool {
    path.split('/').any(|part| part.starts_with('.'))
}

/// The lines that hold the needle, as numbers; a binary file is one line without a number.
fn naive(content: &[u8], needle: &str) -> Vec<Option<u64>> {
    let holds = |text: &[u8]| {
        text.windows(needle.len())
            .any(|window| window == needle.as_bytes())
    };
    if content.contains(&0) {
        return if holds(content) {
            vec![None]
        } else {
            Vec::new()
        };
    }
    let lines = content.split(|byte| *byte == b'\n').zip(1..);
    lines
        .filter(|(line, _)| holds(line))
        .map(|(_, number)| Some(number))
        .collect()
}

fn tree() -> impl Strategy<Value = Files> {
    let piece = prop_oneof![
        8 => "[ab ]{0,5}".prop_map(String::into_bytes),
        3 => Just(b"\n".to_vec()),
        1 => Just(b"\r\n".to_vec()),
        1 => Just(vec![0xE9, 0xFF]),
        1 => "[ab]{500,900}".prop_map(String::into_bytes),
    ];
    let content = (
        proptest::collection::vec(piece, 0..12),
        proptest::bool::weighted(0.1),
    );
    let content = content.prop_map(|(pieces, binary)| {
        let mut content = pieces.concat();
        if binary {
            content.insert(content.len() / 2, 0);
        }
        content
    });
    proptest::collection::btree_map(
        "(([abx]|h|\\.d)/){0,3}(f|\\.f|g|h)[0-3]\\.(t|log)",
        content,
        0..16,
    )
}

/// Asks for page after page, and gives what they list together.
async fn pages(tree: &Tree, tool: &str, args: &Value, size: u64, limit: &str) -> Vec<String> {
    let mut all = Vec::new();
    for page in 0.. {
        let mut args = args.clone();
        args[limit] = json!(size);
        args["offset"] = json!(page * size);
        let answer = tree.ask(tool, args).await;
        if answer.starts_with("No ") || answer.contains("is past the end") {
            break;
        }
        let bare = |line: &str| {
            line.split(" (decoded from ")
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        all.extend(listed(&answer).into_iter().map(bare));
        if !answer.contains("[more ") {
            break;
        }
        assert!(page < 1_000, "the pages have no end: {answer}");
    }
    all
}

/// The pairs of file and line in pages of lines.
fn lines_of(listed: &[String]) -> Vec<(String, Option<u64>)> {
    let mut found = Vec::new();
    let mut file = String::new();
    for line in listed {
        if let Some(line) = line.strip_prefix("  ") {
            let (number, _) = line.split_once(':').expect("a number");
            found.push((file.clone(), Some(number.parse().expect("a number"))));
        } else if let Some(binary) = line.strip_suffix(": binary file matches") {
            found.push((binary.to_owned(), None));
        } else {
            file.clone_from(line);
        }
    }
    found
}

fn on_disk(files: &Files) -> Tree {
    let tree = Tree::new(&RULES);
    for (path, content) in files {
        put(tree.path(), path, content);
    }
    tree
}

/// Switches of both tools, with what they leave of a tree.
fn chosen(files: &Files, all: bool, dots: bool) -> impl Iterator<Item = (&String, &Vec<u8>)> {
    files
        .iter()
        .filter(move |(path, _)| (all || !ignored(path)) && (dots || !hidden(path)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn grep_finds_the_lines_that_a_naive_scan_finds(
        files in tree(),
        needle in "[ab]{1,3}",
        size in 1_u64..6,
        all in any::<bool>(),
        dots in any::<bool>(),
    ) {
        let tree = on_disk(&files);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let args = |mode: &str| json!({
            "pattern": &needle, "output_mode": mode, "include_ignored": all, "hidden": dots, "glob": "*.{t,log}",
        });
        let mut expected: Vec<(String, Vec<Option<u64>>)> = chosen(&files, all, dots)
            .map(|(path, content)| (path.clone(), naive(content, &needle)))
            .filter(|(_, lines)| !lines.is_empty())
            .collect();
        // In order of path: a folder before a file whose name goes on where its own ends.
        expected.sort_by(|a, b| std::path::Path::new(&a.0).cmp(std::path::Path::new(&b.0)));

        let found = runtime.block_on(pages(&tree, "Grep", &args("files_with_matches"), size, "max_results"));
        let found: Vec<&str> = found.iter().map(|line| line.trim_end_matches(" (binary file)")).collect();
        prop_assert_eq!(found, expected.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>());

        let found = runtime.block_on(pages(&tree, "Grep", &args("count"), size, "max_results"));
        let counts: Vec<String> = expected.iter().map(|(path, lines)| match lines.as_slice() {
            [None] => format!("{path}: binary file matches"),
            lines => format!("{path}: {}", lines.len()),
        }).collect();
        prop_assert_eq!(found, counts);

        let found = runtime.block_on(pages(&tree, "Grep", &args("content"), size, "max_results"));
        let lines: Vec<(String, Option<u64>)> = expected
            .iter()
            .flat_map(|(path, lines)| lines.iter().map(move |line| (path.clone(), *line)))
            .collect();
        prop_assert_eq!(lines_of(&found), lines);
    }

    #[test]
    fn glob_finds_the_paths_that_a_naive_match_finds(
        files in tree(),
        size in 1_u64..6,
        all in any::<bool>(),
        dots in any::<bool>(),
    ) {
        let tree = on_disk(&files);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let patterns: [(&str, Naive<'_>); 6] = [
            ("*.t", &|path| has_ending(path, "t")),
            ("**/g?.{t,log}", &|path| name(path).starts_with('g')),
            ("a/**/*.t", &|path| path.starts_with("a/") && has_ending(path, "t")),
            ("b/*.t", &|path| path.starts_with("b/") && has_ending(path, "t") && path.matches('/').count() == 1),
            ("h/", &|path| path.starts_with("h/")),
            ("!*.log", &|path| has_ending(path, "t")),
        ];
        for (pattern, matches) in patterns {
            let expected: BTreeSet<&str> =
                chosen(&files, all, dots).map(|(path, _)| path.as_str()).filter(|path| matches(path)).collect();
            for sort in ["name", "mtime"] {
                let args = json!({"pattern": pattern, "sort": sort, "include_ignored": all, "hidden": dots});
                // A folder that the pattern names may be missing.
                let folder = pattern.split_once('/').map(|(folder, _)| folder).filter(|f| !f.contains('*'));
                if folder.is_some_and(|folder| !tree.path().join(folder).is_dir()) {
                    continue;
                }
                let found = runtime.block_on(pages(&tree, "Glob", &args, size, "limit"));
                let rules = |path: &&str| !RULES.iter().any(|(rules, _)| rules == path);
                let found: Vec<&str> = found.iter().map(String::as_str).filter(rules).collect();
                prop_assert_eq!(found.len(), found.iter().collect::<BTreeSet<_>>().len(), "{}: twice", pattern);
                let found: BTreeSet<&str> = found.into_iter().collect();
                prop_assert_eq!(&found, &expected, "{} by {}", pattern, sort);
            }
        }
    }
}
