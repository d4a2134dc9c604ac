//! Requests through the embedded backend, measured from the caller's append to the stored result: the real program
//! against the least device that the wire allows (`floor`), in the same run, so that every figure is a ratio.
//!
//! `cargo bench --bench requests -- [latency] [idle] [wakeup] [throughput] [burst] [first] [output] [grep]
//! [once] [rest] [memory]`;
//! without words, the quick ones. `--runner PATH` measures another build. Nothing here is asserted: it prints a table.
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark makes files, processes and pauses"
)]
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

mod caller;
mod commands;
mod device;
mod figures;
mod floor;
mod measures;
mod resources;
mod stage;
mod wire;

use std::path::PathBuf;

/// What is measured when nothing is named.
const QUICK: &[&str] = &[
    "latency",
    "throughput",
    "burst",
    "first",
    "output",
    "grep",
    "once",
];

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == floor::WORD) {
        return floor::run(&words[1..]);
    }
    // `cargo test` runs benchmarks too, and has no use for figures.
    let Some(at) = words.iter().position(|word| word == "--bench") else {
        return;
    };
    words.remove(at);
    let mut runner = PathBuf::from(env!("CARGO_BIN_EXE_punie-runner"));
    if let Some(at) = words.iter().position(|word| word == "--runner") {
        runner = words.remove(at + 1).into();
        words.remove(at);
    }
    if words.is_empty() {
        words = QUICK.iter().map(ToString::to_string).collect();
    }
    for word in &words {
        println!("\n## {word}");
        match word.as_str() {
            "latency" => measures::latency(&runner),
            "idle" => measures::idle(&runner),
            "wakeup" => measures::wakeup(&runner),
            "throughput" => measures::throughput(&runner),
            "burst" => measures::burst(&runner),
            "first" => commands::first(&runner),
            "output" => commands::output(&runner),
            "grep" => commands::grep(&runner),
            "once" => measures::once(&runner),
            "rest" => resources::rest(&runner),
            "memory" => resources::memory(&runner),
            other => println!("there is no measure called {other}"),
        }
    }
}
