//! Replays real edits through Edit, with the quoted text as models get it wrong, and counts what comes of them.
//!
//! `cargo test --release --test edit_replay -- OLD_FOLDER NEW_FOLDER ... [--git REPOSITORY COMMITS]`
//!
//! An edit is one place at which two versions of a file differ, with a line of context on each side. Each is replayed
//! as it is and once for every way of misquoting it. An edit that is applied must give the new version of that place
//! and leave every other byte; one that is refused should name the place. Exits with 1 where a file came out wrong.
#![expect(clippy::print_stdout, reason = "what it prints is what it is for")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use ignore::WalkBuilder;
use punie_core::ids::RequestId;
use punie_handlers::file::{FileDeps, tools};
use punie_host::Workspace;
use punie_host::local::local_files::LocalFiles;
use punie_tool::{ToolContext, ToolRegistry};
use serde_json::json;
use similar::{ChangeTag, DiffOp, TextDiff};

/// Endings of files that people edit.
const ENDINGS: &[&str] = &["py", "rs", "md", "ts", "toml", "rst", "txt"];
/// The largest file and the longest edit that are taken, in bytes and lines.
const LARGEST: usize = 400_000;
const LONGEST: usize = 60;

/// One place at which two versions of a file differ.
struct Edit {
    file: String,
    /// Its first line in the old version, from 1.
    line: usize,
    old: String,
    new: String,
}

/// A file, what is quoted of it, what is to be put there, and what must come of it.
struct Call {
    file: String,
    old: String,
    new: String,
    expected: String,
    /// Blanks at the end of a line that the edit changes may stay or go.
    loose_ends: bool,
}

type Misquote = fn(&Edit) -> Option<Call>;

const MISQUOTES: &[(&str, Misquote)] = &[
    ("as it is", |edit| Some(edit.call())),
    ("blanks added to line ends", |edit| {
        Some(Call {
            old: edit.old.replace('\n', "  \n"),
            ..edit.call()
        })
    }),
    ("blanks missing at line ends", |edit| {
        let blanks = |text: &str| text.replace('\n', " \n");
        let file = edit.file.replacen(&edit.old, &blanks(&edit.old), 1);
        let expected = file.replacen(&blanks(&edit.old), &with_old_blanks(edit), 1);
        Some(Call {
            expected,
            file,
            loose_ends: true,
            ..edit.call()
        })
    }),
    ("typographic quotes", |edit| {
        let old = edit.old.replace('\'', "\u{2019}").replace('"', "\u{201d}");
        (old != edit.old).then(|| Call { old, ..edit.call() })
    }),
    ("indented less", |edit| {
        let depth = shared_indentation([&edit.old, &edit.new])?;
        let less = |text: &str| map_lines(text, |line| line.get(depth..).unwrap_or("").to_owned());
        Some(Call {
            old: less(&edit.old),
            new: less(&edit.new),
            ..edit.call()
        })
    }),
    ("indented more", |edit| {
        let more = |text: &str| map_lines(text, |line| format!("    {line}"));
        Some(Call {
            old: more(&edit.old),
            new: more(&edit.new),
            ..edit.call()
        })
    }),
    ("file with CRLF", |edit| {
        let crlf = |text: &str| text.replace('\n', "\r\n");
        let call = edit.call();
        Some(Call {
            file: crlf(&call.file),
            expected: crlf(&call.expected),
            ..call
        })
    }),
    ("quoted with CRLF", |edit| {
        let crlf = |text: &str| text.replace('\n', "\r\n");
        Some(Call {
            old: crlf(&edit.old),
            new: crlf(&edit.new),
            ..edit.call()
        })
    }),
    ("one word misspelt", |edit| {
        let at = edit.old.rfind(|c: char| c.is_ascii_lowercase())?;
        let mut old = edit.old.clone();
        old.replace_range(at..=at, if &old[at..=at] == "q" { "z" } else { "q" });
        Some(Call { old, ..edit.call() })
    }),
    ("one line missing", |edit| {
        let lines: Vec<&str> = edit.old.split_inclusive('\n').collect();
        let left_out = lines.len() / 2;
        let has_words = lines[left_out].chars().any(char::is_alphanumeric);
        let kept = lines.iter().enumerate().filter(|(at, _)| *at != left_out);
        let old: String = kept.map(|(_, line)| *line).collect();
        (lines.len() > 3 && has_words).then(|| Call { old, ..edit.call() })
    }),
];

impl Edit {
    fn call(&self) -> Call {
        Call {
            file: self.file.clone(),
            old: self.old.clone(),
            new: self.new.clone(),
            expected: self.file.replacen(&self.old, &self.new, 1),
            loose_ends: false,
        }
    }
}

impl Call {
    fn is_right(&self, file: &str) -> bool {
        if !self.loose_ends {
            return file == self.expected;
        }
        // A line that the edit does not change has its blank in both.
        let mut lines = file.split('\n').zip(self.expected.split('\n'));
        let same =
            |(is, expected): (&str, &str)| is == expected || is.strip_suffix(' ') == Some(expected);
        file.matches('\n').count() == self.expected.matches('\n').count() && lines.all(same)
    }
}

fn map_lines(text: &str, change: impl Fn(&str) -> String) -> String {
    let line = |line: &str| {
        if line.trim().is_empty() {
            line.to_owned()
        } else {
            change(line)
        }
    };
    text.split_inclusive('\n').map(line).collect()
}

/// The number of blanks that all lines begin with, where there are any.
fn shared_indentation(texts: [&str; 2]) -> Option<usize> {
    let lines = texts
        .into_iter()
        .flat_map(str::lines)
        .filter(|line| !line.trim().is_empty());
    lines
        .map(|line| line.len() - line.trim_start_matches(' ').len())
        .min()
        .filter(|depth| *depth > 0)
}

fn with_old_blanks(edit: &Edit) -> String {
    let diff = TextDiff::from_lines(&edit.old, &edit.new);
    let changes = diff
        .iter_all_changes()
        .filter(|change| change.tag() != ChangeTag::Delete);
    changes
        .map(|change| match change.tag() {
            ChangeTag::Equal => change.value().replace('\n', " \n"),
            _ => change.value().to_owned(),
        })
        .collect()
}

/// The places at which two versions differ. One that stands more than once cannot be quoted alone.
fn edits_between(old: &str, new: &str, found: &mut Vec<Edit>) {
    if old.len() > LARGEST || new.len() > LARGEST || old.contains('\r') {
        return;
    }
    let diff = TextDiff::from_lines(old, new);
    let (old_lines, new_lines) = (diff.old_slices(), diff.new_slices());
    for group in diff.grouped_ops(1) {
        let range = |of: fn(&DiffOp) -> std::ops::Range<usize>| {
            let (first, last) = (group.first().map(of), group.last().map(of));
            first
                .zip(last)
                .map_or(0..0, |(first, last)| first.start..last.end)
        };
        let (here, there) = (range(DiffOp::old_range), range(DiffOp::new_range));
        let quoted: String = old_lines[here.clone()].concat();
        if here.is_empty() || here.len() > LONGEST || old.matches(&quoted).count() != 1 {
            continue;
        }
        found.push(Edit {
            file: old.to_owned(),
            line: here.start + 1,
            old: quoted,
            new: new_lines[there].concat(),
        });
    }
}

fn edits_between_folders(old: &Path, new: &Path, found: &mut Vec<Edit>) {
    for entry in WalkBuilder::new(old)
        .standard_filters(false)
        .build()
        .filter_map(Result::ok)
    {
        let is_text = |ending: &std::ffi::OsStr| ENDINGS.iter().any(|known| ending == *known);
        let Ok(name) = entry.path().strip_prefix(old) else {
            continue;
        };
        if !entry.path().extension().is_some_and(is_text) {
            continue;
        }
        if let (Ok(before), Ok(after)) = (
            fs::read_to_string(entry.path()),
            fs::read_to_string(new.join(name)),
        ) {
            edits_between(&before, &after, found);
        }
    }
}

fn edits_of_history(repository: &str, commits: &str, found: &mut Vec<Edit>) -> Result<()> {
    let git = |args: &[&str]| -> Result<String> {
        let output = Command::new("git")
            .arg("-C")
            .arg(repository)
            .args(args)
            .output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    for commit in git(&["log", "--no-merges", "--format=%H", "-n", commits])?.lines() {
        let changed = git(&[
            "diff-tree",
            "-r",
            "--no-commit-id",
            "--diff-filter=M",
            "--name-only",
            commit,
        ])?;
        let is_text = |name: &&str| {
            ENDINGS
                .iter()
                .any(|ending| name.ends_with(&format!(".{ending}")))
        };
        for name in changed.lines().filter(is_text) {
            let (before, after) = (format!("{commit}^:{name}"), format!("{commit}:{name}"));
            edits_between(&git(&["show", &before])?, &git(&["show", &after])?, found);
        }
    }
    Ok(())
}

/// What came of the calls of one kind.
#[derive(Default)]
struct Tally {
    applied: usize,
    refused: usize,
    /// Refused with the place of the edit as the nearest block.
    placed: usize,
    wrong: usize,
}

async fn replay(edits: &[Edit]) -> Result<BTreeMap<&'static str, Tally>> {
    let folder = tempfile::tempdir()?;
    let workspace = Workspace::open_roots(&[folder.path().to_owned()])?;
    let tools = ToolRegistry::new([tools(FileDeps::new(
        Arc::new(LocalFiles::new()),
        workspace,
        no_worker(),
    ))])?;
    let path = folder.path().join("file");
    let mut tallies: BTreeMap<&'static str, Tally> = BTreeMap::new();
    for edit in edits {
        for (name, misquote) in MISQUOTES {
            let Some(call) = misquote(edit).filter(|call| call.expected != call.file) else {
                continue;
            };
            // What stands there as it is quoted is no misquote.
            if call.old != edit.old && call.file.contains(&call.old) {
                continue;
            }
            fs::write(&path, &call.file)?;
            let args = json!({"file_path": "file", "old_string": call.old, "new_string": call.new});
            let entry = tools.find("Edit").ok().context("the tool is registered")?;
            let ready = entry
                .decode_call(&args.to_string())
                .map_err(|error| anyhow::anyhow!("{error}"))?;
            let answer = ready
                .run_call(ToolContext::for_detached_call(RequestId::new()))
                .await;
            let is = String::from_utf8(fs::read(&path)?)?;
            let tally = tallies.entry(name).or_default();
            match answer {
                Ok(_) if call.is_right(&is) => tally.applied += 1,
                Err(error) if is == call.file => {
                    tally.refused += 1;
                    tally.placed += usize::from(names_the_place(error.model_text(), edit));
                }
                _ => {
                    tally.wrong += 1;
                    println!("WRONG ({name}): {args}");
                    let diff = TextDiff::from_lines(&call.expected, &is);
                    println!("{}", diff.unified_diff().header("expected", "is"));
                }
            }
        }
    }
    Ok(tallies)
}

/// Whether the nearest block that a refusal shows overlaps the place of the edit.
fn names_the_place(text: &str, edit: &Edit) -> bool {
    let Some((_, rest)) = text.split_once("nearest block is at line") else {
        return false;
    };
    let digits: Vec<usize> = rest
        .trim_start_matches('s')
        .split([':', '\n'])
        .next()
        .unwrap_or("")
        .split('-')
        .filter_map(|number| number.trim().replace(',', "").parse().ok())
        .collect();
    let (Some(first), Some(last)) = (digits.first(), digits.last()) else {
        return false;
    };
    let end = edit.line + edit.old.lines().count() - 1;
    *first <= end && *last >= edit.line
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let mut edits = Vec::new();
    while let Some(first) = arguments.next() {
        let second = arguments.next().context("folders come in pairs")?;
        if first == "--git" {
            edits_of_history(
                &second,
                &arguments.next().context("--git REPOSITORY COMMITS")?,
                &mut edits,
            )?;
        } else {
            edits_between_folders(&PathBuf::from(first), &PathBuf::from(second), &mut edits);
        }
    }
    println!("{} edits", edits.len());
    let mut wrong = 0;
    for (name, tally) in replay(&edits).await? {
        let Tally {
            applied,
            refused,
            placed,
            ..
        } = tally;
        println!(
            "{name}: {applied} applied, {refused} refused ({placed} with the right block), {} wrong",
            tally.wrong
        );
        wrong += tally.wrong;
    }
    Ok(if wrong == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// No document is read here.
fn no_worker() -> punie_host::worker::WorkerProgram {
    punie_host::worker::WorkerProgram {
        program: "no-worker".into(),
        temp_root: std::env::temp_dir(),
        time_zone: None,
    }
}
