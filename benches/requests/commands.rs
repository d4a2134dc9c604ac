//! Commands and searches beside the same without any device: the first command of a process, a gigabyte of output,
//! a Grep beside ripgrep.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use punie_core::ids::RequestId;
use serde_json::json;

use super::caller::{Ask, Caller, Results};
use super::device::{Device, Kind};
use super::figures::{Times, ms, ratio};
use super::measures::IN_TURN;
use super::stage::Stage;

/// The first `Bash` of a process that has been idle for two seconds.
pub fn first(runner: &Path) {
    let mut times = [Times::default(), Times::default(), Times::default()];
    for _ in 0..11 {
        for (kind, times) in IN_TURN.into_iter().zip(&mut times) {
            let stage = Stage::set();
            let _device = Device::start(kind, &stage, runner);
            let (results, mut caller) = (Results::watch(&stage), Caller::new(&stage));
            std::thread::sleep(Duration::from_secs(2));
            times.add(caller.ask(&results, &Ask::bash("true")));
        }
    }
    let [floor, journal, runner] = times;
    println!(
        "| first command of a process | floor p50 / p99 | floor with a journal | runner |\n|---|---|---|---|"
    );
    println!(
        "| Bash true | {} | {} | {} |",
        floor.shown(),
        journal.shown(),
        runner.shown()
    );
}

/// A gigabyte through Bash, beside a pipe that is read and dropped.
pub fn output(runner: &Path) {
    let commands = [
        ("NUL bytes", "head -c 1000000000 /dev/zero"),
        (
            "one letter and NUL bytes",
            "printf a; head -c 1000000000 /dev/zero",
        ),
        ("random bytes", "head -c 1000000000 /dev/urandom"),
        ("short lines", "yes | head -c 1000000000"),
        ("lines of 80", "yes $(printf %079d 0) | head -c 1000000000"),
    ];
    let stage = Stage::set();
    let _device = Device::start(Kind::Runner, &stage, runner);
    let (results, mut caller) = (Results::watch(&stage), Caller::new(&stage));
    caller.ask(&results, &Ask::bash("true"));
    println!("| 1 GB of | pipe | runner | more | answer ends with |\n|---|---|---|---|---|");
    for (name, command) in commands {
        let (mut pipe, mut whole) = (Times::default(), Times::default());
        let mut end = String::new();
        for _ in 0..3 {
            pipe.add(drained(command));
            let id = RequestId::new();
            whole.add(caller.ask_as(&results, &id, &Ask::bash(command)));
            end = end_of_text(&caller.payload(&id));
        }
        let (pipe, whole) = (pipe.percentile(50), whole.percentile(50));
        println!(
            "| {name} | {} | {} | {} | {end} |",
            ms(pipe),
            ms(whole),
            ms(whole.saturating_sub(pipe))
        );
    }
}

/// The command's output, read and dropped.
fn drained(command: &str) -> Duration {
    let begun = Instant::now();
    let mut bash = Command::new("/bin/bash");
    let child = bash
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child.expect("bash");
    let mut pipe = child.stdout.take().expect("a pipe");
    let mut buffer = vec![0; 256 << 10];
    while pipe.read(&mut buffer).expect("bytes") > 0 {}
    child.wait().expect("an end");
    begun.elapsed()
}

fn end_of_text(payload: &str) -> String {
    let answer: serde_json::Value = serde_json::from_str(payload).expect("JSON");
    let text = answer["result"].as_str().unwrap_or_default();
    let end = text.char_indices().rev().nth(39).map_or(0, |(at, _)| at);
    text[end..].escape_debug().to_string()
}

/// Grep over the sources of all dependencies beside `rg`, where there is one. Both go by ignore files, skip hidden ones
/// and those over 10 MB, and list files with matches.
pub fn grep(runner: &Path) {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let Some(tree) = home
        .map(|home| home.join("registry/src"))
        .filter(|tree| tree.is_dir())
    else {
        return println!("there is no tree of sources");
    };
    if Command::new("rg").arg("--version").output().is_err() {
        return println!("there is no rg");
    }
    let stage = Stage::set();
    let _device = Device::start_in(Kind::Runner, &stage, runner, &tree);
    let (results, mut caller) = (Results::watch(&stage), Caller::new(&stage));
    println!("| Grep | rg | runner | ratio |\n|---|---|---|---|");
    let patterns = [
        ("a word that is nowhere", "a_word_that_is_nowhere"),
        (
            "a regex without a literal that is nowhere",
            r"[0-9]{5}[a-z]{4}[0-9]{7}[A-Z]",
        ),
        (
            "a regex over lines with words",
            r"\b[A-Z][a-z]+[0-9]{9}[a-z]\b",
        ),
        ("a rare word", "needle"),
    ];
    for (name, pattern) in patterns {
        let (mut rg, mut ours) = (Times::default(), Times::default());
        let args = json!({"pattern": pattern, "max_results": 1_000_000}).to_string();
        for n in 0..8 {
            let begun = Instant::now();
            let mut command = Command::new("rg");
            command
                .args(["--no-config", "-l", "--max-filesize", "10M", "-e", pattern])
                .arg(&tree);
            command.stdin(Stdio::null()).output().expect("rg");
            let theirs = begun.elapsed();
            let took = caller.ask(
                &results,
                &Ask {
                    tool: "Grep",
                    args: args.clone(),
                },
            );
            // The first round reads the disk.
            if n > 0 {
                rg.add(theirs);
                ours.add(took);
            }
        }
        let (rg, ours) = (rg.percentile(50), ours.percentile(50));
        println!(
            "| {name} | {} | {} | {:.2} |",
            ms(rg),
            ms(ours),
            ratio(ours, rg)
        );
    }
}
