//! The law of patches: the difference of two trees makes the one of the other, byte for byte, and its reverse makes
//! the one again. Unified diffs come from git itself, the other format from a writer of the test's own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::json;

use super::Bench;

type Tree = BTreeMap<String, Vec<u8>>;

/// How a file is written.
#[derive(Debug, Clone, Copy)]
struct Form {
    crlf: bool,
    mark: bool,
    open: bool,
}

impl Form {
    fn bytes(self, lines: &[String]) -> Vec<u8> {
        let ending = if self.crlf { "\r\n" } else { "\n" };
        let mut text = String::new();
        if self.mark {
            text.push('\u{FEFF}');
        }
        for (at, line) in lines.iter().enumerate() {
            text.push_str(line);
            if !(self.open && at + 1 == lines.len()) {
                text.push_str(ending);
            }
        }
        text.into_bytes()
    }
}

/// A file before and after, as lines; none where there is no such file.
#[derive(Debug, Clone)]
struct Pair {
    form: Form,
    name: String,
    /// Another name afterwards.
    renamed: Option<String>,
    before: Option<Vec<String>>,
    after: Option<Vec<String>>,
    /// The form afterwards, where it may change.
    later: Form,
}

fn form() -> impl Strategy<Value = Form> {
    (
        any::<bool>(),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.3),
    )
        .prop_map(|(crlf, mark, open)| Form { crlf, mark, open })
}

/// Lines of which some stand more than once, with characters that heads of diffs have.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-c]{1,2}",
        2 => Just(String::new()),
        2 => "    [a-z]{3,8}\\(\\);",
        1 => Just("}".to_owned()),
        1 => "[-+@ ]{1,3} [a-z]{2}",
        1 => "\t[äß–“”]{1,4} ",
        4 => "let [a-z]{6} = [0-9]{4};",
    ]
}

fn edited(lines: Vec<String>) -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
    let len = lines.len();
    prop::collection::vec(
        (0..=len, 0_usize..3, prop::collection::vec(line(), 0..3)),
        1..5,
    )
    .prop_map(move |edits| {
        let mut new = lines.clone();
        for (at, gone, come) in edits {
            let at = at.min(new.len());
            let end = (at + gone).min(new.len());
            new.splice(at..end, come);
        }
        (lines.clone(), new)
    })
}

fn pair(number: usize) -> impl Strategy<Value = Pair> {
    let lines = || prop::collection::vec(line(), 0..40);
    (
        form(),
        form(),
        lines().prop_flat_map(edited),
        0..6_u8,
        any::<bool>(),
    )
        .prop_map(move |(form, later, (before, after), kind, renames)| {
            let name = ["f", "d/g h", "d/e/ä", "x.rs"][number % 4].to_owned() + &number.to_string();
            let (before, after) = match kind {
                0 => (None, Some(before)),
                1 => (Some(before), None),
                _ => (Some(before), Some(after)),
            };
            let stays = before.is_some() && after.is_some();
            let renamed = (stays && renames).then(|| format!("moved/{name}"));
            Pair {
                form,
                name,
                renamed,
                before,
                after,
                later,
            }
        })
}

fn pairs() -> impl Strategy<Value = Vec<Pair>> {
    (1..5_usize).prop_flat_map(|count| (0..count).map(pair).collect::<Vec<_>>())
}

fn trees(pairs: &[Pair]) -> (Tree, Tree) {
    let mut before = Tree::new();
    let mut after = Tree::new();
    for pair in pairs {
        if let Some(lines) = &pair.before {
            before.insert(pair.name.clone(), pair.form.bytes(lines));
        }
        if let Some(lines) = &pair.after {
            after.insert(
                pair.renamed.clone().unwrap_or_else(|| pair.name.clone()),
                pair.later.bytes(lines),
            );
        }
    }
    (before, after)
}

/// Makes the folder hold exactly this tree.
fn lay(root: &Path, tree: &Tree) {
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != ".git") {
            fs::remove_dir_all(path).unwrap();
        } else if path.is_file() {
            fs::remove_file(path).unwrap();
        }
    }
    for (name, bytes) in tree {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

fn git(root: &Path, args: &[&str]) -> String {
    let out = Command::new("git")
        .current_dir(root)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .args(["-c", "core.autocrlf=false", "-c", "core.safecrlf=false"])
        .args(args)
        .output()
        .expect("git runs");
    assert!(
        out.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).expect("text")
}

fn written(root: &Path, tree: &Tree) -> String {
    lay(root, tree);
    git(root, &["add", "-A"]);
    git(root, &["write-tree"]).trim().to_owned()
}

fn tree_of(bench: &Bench) -> Tree {
    bench.tree().into_iter().collect()
}

/// Runs a future of the tools to its end.
fn finish<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap()
        .block_on(work)
}

async fn apply(bench: &Bench, patch: &str) -> Result<String, String> {
    match bench.call("ApplyPatch", json!({"patch": patch})).await {
        Ok(reply) => Ok(crate::harness::tools::reply_text(&reply).to_owned()),
        Err(error) => Err(format!("{error}\n{patch}")),
    }
}

#[test]
fn the_diff_of_two_trees_makes_the_one_of_the_other_and_back() {
    let repository = tempfile::tempdir().unwrap();
    git(repository.path(), &["init", "-q"]);
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    runner
        .run(&pairs(), |pairs| {
            let (before, after) = trees(&pairs);
            let old = written(repository.path(), &before);
            let new = written(repository.path(), &after);
            let args =
                |from, to| ["diff", "--no-ext-diff", "--text", "-M", from, to].map(str::to_owned);
            for (from, to, start, end) in
                [(&old, &new, &before, &after), (&new, &old, &after, &before)]
            {
                let args = args(from.as_str(), to.as_str());
                let diff = git(repository.path(), &args.each_ref().map(String::as_str));
                if diff.is_empty() {
                    continue;
                }
                let bench = Bench::new();
                lay(&bench.root, start);
                let said = finish(apply(&bench, &diff)).map_err(TestCaseError::fail)?;
                prop_assert_eq!(&tree_of(&bench), end, "{}\n{}", diff, said);
            }
            Ok(())
        })
        .unwrap();
}

/// One file's part of a patch in the format of Codex: whole runs of lines with as much context as makes them the
/// only ones, the order of hunks included.
fn section(
    name: &str,
    renamed: Option<&str>,
    before: &[String],
    after: &[String],
) -> Option<String> {
    let same_head = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let same_tail = before[same_head..]
        .iter()
        .rev()
        .zip(after[same_head..].iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let gone = &before[same_head..before.len() - same_tail];
    let come = &after[same_head..after.len() - same_tail];
    let mut text = format!("*** Update File: {name}\n");
    if let Some(renamed) = renamed {
        writeln!(text, "*** Move to: {renamed}").unwrap();
    }
    if gone.is_empty() && come.is_empty() {
        return renamed.map(|_| text);
    }
    for context in 1..=before.len() + 1 {
        let from = same_head.saturating_sub(context);
        let to = (same_head + gone.len() + context).min(before.len());
        let block = &before[from..to];
        let is_whole = from == 0 && to == before.len();
        if block.iter().all(|line| line.trim().is_empty()) && !is_whole {
            continue;
        }
        // Also as the most lenient tier would see them.
        let alike = |a: &[String]| a.iter().zip(block).all(|(a, b)| a.trim() == b.trim());
        if !is_whole
            && before
                .windows(block.len())
                .filter(|window| alike(window))
                .count()
                > 1
        {
            continue;
        }
        text.push_str("@@\n");
        let mut put = |mark: char, lines: &[String]| {
            for line in lines {
                text.push(mark);
                text.push_str(line);
                text.push('\n');
            }
        };
        put(' ', &before[from..same_head]);
        put('-', gone);
        put('+', come);
        put(' ', &before[same_head + gone.len()..to]);
        return Some(text);
    }
    None
}

fn codex(pairs: &[Pair], backwards: bool) -> Option<String> {
    let mut text = String::from("*** Begin Patch\n");
    for pair in pairs {
        let there = pair.renamed.as_deref();
        let (name, renamed) = match (there, backwards) {
            (Some(there), true) => (there, Some(pair.name.as_str())),
            _ => (pair.name.as_str(), there.filter(|_| !backwards)),
        };
        let (before, after) = if backwards {
            (&pair.after, &pair.before)
        } else {
            (&pair.before, &pair.after)
        };
        match (before, after) {
            (None, Some(lines)) => {
                writeln!(text, "*** Add File: {name}").unwrap();
                for line in lines {
                    writeln!(text, "+{line}").unwrap();
                }
            }
            (Some(_), None) => writeln!(text, "*** Delete File: {name}").unwrap(),
            (Some(before), Some(after)) => text.push_str(&section(name, renamed, before, after)?),
            (None, None) => {}
        }
    }
    text.push_str("*** End Patch\n");
    Some(text)
}

#[test]
fn a_patch_in_the_format_of_codex_makes_one_tree_of_another_and_back() {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 96,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let counted = std::cell::Cell::new(0);
    runner
        .run(&pairs(), |mut pairs| {
            for pair in &mut pairs {
                // This format says nothing of marks and line endings: a file keeps its own, a new one has plain ones.
                if pair.before.is_none() || pair.after.is_none() {
                    pair.form = Form {
                        crlf: false,
                        mark: false,
                        open: false,
                    };
                }
                // A file without lines has no endings to keep, and one whose last line is another none left open.
                let last = |lines: &Option<Vec<String>>| {
                    lines.as_ref().and_then(|lines| lines.last()).cloned()
                };
                let before = last(&pair.before);
                let after = last(&pair.after);
                pair.form.crlf &= before.is_some() && after.is_some();
                pair.form.open &= before == after && before.is_some_and(|line| !line.is_empty());
                // Nor has one whose last line is the same text and yet another line: gone from it or come to it.
                if let (Some(before), Some(after)) = (&pair.before, &pair.after) {
                    let head = before.iter().zip(after).take_while(|(a, b)| a == b).count();
                    pair.form.open &= head < before.len().min(after.len());
                }
                // One open line shows no ending that could be kept.
                let is_one = |lines: &Option<Vec<String>>| {
                    lines.as_ref().is_some_and(|lines| lines.len() == 1)
                };
                pair.form.crlf &=
                    !(pair.form.open && (is_one(&pair.before) || is_one(&pair.after)));
                pair.later = pair.form;
            }
            let (before, after) = trees(&pairs);
            let (Some(there), Some(back)) = (codex(&pairs, false), codex(&pairs, true)) else {
                return Ok(());
            };
            if before == after {
                return Ok(());
            }
            let bench = Bench::new();
            lay(&bench.root, &before);
            let said = finish(apply(&bench, &there)).map_err(TestCaseError::fail)?;
            prop_assert_eq!(&tree_of(&bench), &after, "{}\n{}", there, said);
            let said = finish(apply(&bench, &back)).map_err(TestCaseError::fail)?;
            prop_assert_eq!(&tree_of(&bench), &before, "{}\n{}", back, said);
            counted.set(counted.get() + 1);
            Ok(())
        })
        .unwrap();
    assert!(
        counted.get() > 20,
        "only {} cases were patches",
        counted.get()
    );
}
