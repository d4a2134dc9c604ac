//! Real edits: what people changed in real files, done again with Edit and ApplyPatch, compared with git's own bytes.
//!
//! The history is this repository's own. Where there is none, as in a shallow clone or an unpacked archive, it is the
//! way from one release to the next of a crate of which cargo keeps two.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use punie_text::redact::MASK;
use serde_json::json;

use super::Bench;
use crate::harness::tools::reply_text;

/// So many edits must be done, or there is no test.
const ENOUGH: usize = 500;

/// One file from one version to the next.
struct Step {
    name: String,
    old: String,
    new: String,
    /// What git says of it, with its head.
    diff: String,
    hunks: Vec<Hunk>,
}

/// A hunk as git wrote it.
struct Hunk {
    /// Where it begins once the hunks before it are done, from 0.
    line: usize,
    old: String,
    new: String,
    body: String,
}

fn git(folder: &Path, args: &[&str], input: &str) -> Option<Vec<u8>> {
    let mut child = Command::new("git")
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args([
            "-c",
            "core.quotePath=true",
            "-c",
            "diff.noprefix=false",
            "-c",
            "safe.directory=*",
        ])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take()?;
    let input = input.to_owned();
    // Beside the reading: both pipes are shorter than what goes through them.
    let writing = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let out = child.wait_with_output().ok()?;
    writing.join().ok()?.ok()?;
    // `git diff --no-index` ends with 1 where there are differences.
    matches!(out.status.code(), Some(0 | 1)).then_some(out.stdout)
}

/// The hunks of one file's diff. Its counts are git's, so they hold.
fn hunks(diff: &str) -> Vec<Hunk> {
    let mut hunks: Vec<Hunk> = Vec::new();
    for line in diff.split_inclusive('\n') {
        if line.starts_with("@@ ") {
            let new = line
                .split(' ')
                .nth(2)
                .and_then(|range| range.strip_prefix('+'))
                .expect("a range");
            let start: usize = new
                .split(',')
                .next()
                .and_then(|start| start.parse().ok())
                .expect("a number");
            let (old, new, body) = (String::new(), String::new(), String::new());
            hunks.push(Hunk {
                line: start.saturating_sub(1),
                old,
                new,
                body,
            });
            continue;
        }
        let Some(hunk) = hunks.last_mut() else {
            continue;
        };
        hunk.body.push_str(line);
        match line.split_at(1) {
            (" ", text) => {
                hunk.old.push_str(text);
                hunk.new.push_str(text);
            }
            ("-", text) => hunk.old.push_str(text),
            ("+", text) => hunk.new.push_str(text),
            ("\\", _) => {
                let last = hunk
                    .body
                    .lines()
                    .rev()
                    .nth(1)
                    .map_or(' ', |line| line.chars().next().unwrap_or(' '));
                for (text, marks) in [(&mut hunk.old, " -"), (&mut hunk.new, " +")] {
                    if marks.contains(last) && text.ends_with('\n') {
                        text.pop();
                    }
                }
            }
            _ => panic!("{line:?} in {diff}"),
        }
    }
    hunks
}

/// Changed text files of the newest commits, until there are enough edits; the oldest first.
fn own_history() -> Vec<Step> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let args = [
        "log",
        "--no-merges",
        "--no-renames",
        "--diff-filter=M",
        "--full-index",
        "--format=",
        "-p",
        "-U3",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "-n",
        "120",
        "--",
        "src/*.rs",
        "crates/*.rs",
        "tests/*.rs",
        "*.toml",
    ];
    let Some(log) = git(folder, &args, "").and_then(|log| String::from_utf8(log).ok()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut edits = 0;
    for section in sections(&log) {
        let index = section
            .lines()
            .find_map(|line| line.strip_prefix("index "))
            .unwrap_or_default();
        let Some((old, new)) = index.split(' ').next().and_then(|ids| ids.split_once("..")) else {
            continue;
        };
        let name = section
            .lines()
            .find_map(|line| line.strip_prefix("+++ b/"))
            .unwrap_or_default();
        let hunks = hunks(section);
        edits += hunks.len();
        found.push((
            name.to_owned(),
            old.to_owned(),
            new.to_owned(),
            section.to_owned(),
            hunks,
        ));
        if edits >= ENOUGH + 150 {
            break;
        }
    }
    let ids: String = found
        .iter()
        .flat_map(|(_, old, new, ..)| [old.as_str(), "\n", new, "\n"])
        .collect();
    let Some(blobs) = git(folder, &["cat-file", "--batch"], &ids) else {
        return Vec::new();
    };
    let blobs = blobs_of(&blobs);
    let steps = found
        .into_iter()
        .rev()
        .filter_map(|(name, old, new, diff, hunks)| {
            let old = blobs.get(&old)?.clone();
            let new = blobs.get(&new)?.clone();
            Some(Step {
                name,
                old,
                new,
                diff,
                hunks,
            })
        });
    steps.collect()
}

fn sections(log: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = log
        .match_indices("\ndiff --git ")
        .map(|(at, _)| at + 1)
        .collect();
    if log.starts_with("diff --git ") {
        starts.insert(0, 0);
    }
    starts.push(log.len());
    // Between two commits there is an empty line.
    starts
        .windows(2)
        .map(|pair| log[pair[0]..pair[1]].trim_end_matches('\n'))
        .map(|section| {
            // The last line of a section has its ending.
            let end = section.as_ptr() as usize - log.as_ptr() as usize + section.len();
            &log[section.as_ptr() as usize - log.as_ptr() as usize..(end + 1).min(log.len())]
        })
        .collect()
}

/// The answer of `git cat-file --batch`, by the names of the blobs.
fn blobs_of(mut batch: &[u8]) -> HashMap<String, String> {
    let mut blobs = HashMap::new();
    while let Some(end) = batch.iter().position(|byte| *byte == b'\n') {
        let head = String::from_utf8_lossy(&batch[..end]).into_owned();
        batch = &batch[end + 1..];
        let mut words = head.split(' ');
        let (Some(id), Some("blob"), Some(size)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let size: usize = size.parse().expect("a size");
        if let Ok(text) = String::from_utf8(batch[..size].to_vec()) {
            blobs.insert(id.to_owned(), text);
        }
        batch = &batch[size + 1..];
    }
    blobs
}

/// Files of crates of which cargo keeps two versions, from the one to the other.
fn two_releases() -> Vec<Step> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let Some(home) = home else { return Vec::new() };
    let mut releases: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for registry in fs::read_dir(home.join("registry/src"))
        .into_iter()
        .flatten()
        .flatten()
    {
        for release in fs::read_dir(registry.path())
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = release.file_name().to_string_lossy().into_owned();
            if let Some((name, version)) = name.rsplit_once('-')
                && version.starts_with(|c: char| c.is_ascii_digit())
            {
                releases
                    .entry(name.to_owned())
                    .or_default()
                    .push(release.path());
            }
        }
    }
    let mut steps = Vec::new();
    let mut edits = 0;
    for folders in releases.values_mut().filter(|folders| folders.len() > 1) {
        folders.sort();
        for file in sources(&folders[0].join("src")) {
            let inside = file
                .strip_prefix(&folders[0])
                .expect("it was found in there");
            let other = folders[1].join(inside);
            let (Ok(old), Ok(new)) = (fs::read_to_string(&file), fs::read_to_string(&other)) else {
                continue;
            };
            let name = inside.display().to_string();
            let from = file.display().to_string();
            let to = other.display().to_string();
            let args = [
                "diff",
                "--no-index",
                "--no-color",
                "--no-ext-diff",
                "-U3",
                &from,
                &to,
            ];
            let Some(diff) = git(&home, &args, "").and_then(|diff| String::from_utf8(diff).ok())
            else {
                continue;
            };
            let Some(at) = diff.find("\n@@ ") else {
                continue;
            };
            let diff = format!("--- a/{name}\n+++ b/{name}{}", &diff[at..]);
            let hunks = hunks(&diff);
            edits += hunks.len();
            steps.push(Step {
                name,
                old,
                new,
                diff,
                hunks,
            });
            if edits >= ENOUGH + 150 {
                return steps;
            }
        }
    }
    steps
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn edits(steps: &[Step]) -> usize {
    steps.iter().map(|step| step.hunks.len()).sum()
}

/// The steps, and where they are from.
fn history() -> (Vec<Step>, &'static str) {
    let own = own_history();
    if edits(&own) >= ENOUGH {
        return (own, "this repository's history");
    }
    (
        two_releases(),
        "two releases of the same crates, because this repository has too short a history here",
    )
}

/// A quote of the hunk's old lines that is the only such text, and what takes its place: with lines before it as far
/// as it needs them.
fn quoted(text: &str, hunk: &Hunk) -> (String, String) {
    let starts: Vec<usize> = std::iter::once(0)
        .chain(text.match_indices('\n').map(|(at, _)| at + 1))
        .collect();
    let start = starts[hunk.line];
    assert_starts_with!(text[start..], &hunk.old; "the hunks before it were done as git did them");
    let end = start + hunk.old.len();
    let mut line = hunk.line;
    // Also for a reader who overlooks blanks: some of the lines may be there again, indented in another way.
    while line > 0
        && text
            .match_indices(&text[starts[line]..end])
            .nth(1)
            .is_some()
    {
        line -= 1;
    }
    let more = &text[starts[line]..start];
    (format!("{more}{}", hunk.old), format!("{more}{}", hunk.new))
}

/// The step in the format of Codex, where each hunk's lines are the only such ones without any number.
fn codex(step: &Step) -> Option<String> {
    let mut patch = format!("*** Begin Patch\n*** Update File: {}\n", step.name);
    let lines: Vec<&str> = step.old.lines().map(str::trim).collect();
    for hunk in &step.hunks {
        let block: Vec<&str> = hunk.old.lines().map(str::trim).collect();
        let is_only = lines
            .windows(block.len().max(1))
            .filter(|window| *window == block)
            .nth(1)
            .is_none();
        if !is_only
            || block.iter().all(|line| line.is_empty())
            || hunk.body.contains("\\ No newline")
        {
            return None;
        }
        patch.push_str("@@\n");
        patch.push_str(&hunk.body);
    }
    Some(patch + "*** End Patch\n")
}

/// What was done again.
#[derive(Debug, Default)]
struct Done {
    edits: usize,
    patches: usize,
    in_codex: usize,
}

/// Does the steps again, each by Edit and by ApplyPatch; every file must have git's bytes after each.
async fn again(steps: &[Step]) -> Done {
    let mut done = Done::default();
    let bench = Bench::new();
    for step in steps {
        // A text with the mark of a masked secret is not written where there was none.
        if step.new.contains(MASK) && !step.old.contains(MASK) {
            continue;
        }
        let by_edit = format!("edit/{}", step.name);
        let by_patch = format!("patch/{}", step.name);
        for name in [&by_edit, &by_patch] {
            // Mostly it holds just this, from the step before.
            if fs::read_to_string(bench.root.join(name)).ok().as_deref() != Some(step.old.as_str())
            {
                bench.put(name, &step.old);
            }
        }
        for hunk in step.hunks.iter().filter(|hunk| !hunk.old.is_empty()) {
            let (old, new) = quoted(&bench.get(&by_edit), hunk);
            let args = json!({"file_path": by_edit, "old_string": old, "new_string": new});
            bench.ok("Edit", args).await;
            done.edits += 1;
        }
        assert_eq!(
            bench.get(&by_edit),
            step.new,
            "{} by Edit\n{}",
            step.name,
            step.diff
        );

        let in_codex = if done.patches % 2 == 0 {
            None
        } else {
            codex(step)
        };
        done.in_codex += usize::from(in_codex.is_some());
        let mut patch = in_codex.unwrap_or_else(|| step.diff.clone());
        for mark in ["--- a/", "+++ b/", "*** Update File: "] {
            patch = patch.replace(
                &format!("{mark}{}\n", step.name),
                &format!("{mark}{by_patch}\n"),
            );
        }
        let said = reply_text(&bench.ok("ApplyPatch", json!({"patch": patch})).await).to_owned();
        assert_eq!(
            bench.get(&by_patch),
            step.new,
            "{} by ApplyPatch: {said}\n{patch}",
            step.name
        );
        done.patches += 1;
    }
    done
}

#[tokio::test]
async fn real_edits_give_the_bytes_that_git_has() {
    let (steps, source) = tokio::task::spawn_blocking(history).await.unwrap();
    let done = again(&steps).await;
    assert!(
        done.edits >= ENOUGH,
        "only {} edits were found in {source}; the test needs {ENOUGH}: a full clone (`git fetch --unshallow`), or two \
         releases of a crate in cargo's registry",
        done.edits
    );
    assert!(
        done.patches > 20 && done.in_codex > 5,
        "{done:?} from {source}"
    );
}

/// The way out for a clone without history: where cargo keeps two releases of a crate, they are a history too.
#[tokio::test]
async fn two_releases_of_a_crate_give_the_bytes_of_the_later_one() {
    let mut steps = tokio::task::spawn_blocking(two_releases).await.unwrap();
    steps.truncate(12);
    let done = again(&steps).await;
    assert_eq!(done.patches, steps.len());
}
