//! Where the log goes: to stderr, at the level that is set. Not here: the answer (stdout).

use std::io::IsTerminal;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

/// A level's name; anything that is none of them is `info`.
pub fn level(name: &str) -> LevelFilter {
    name.parse().unwrap_or(LevelFilter::INFO)
}

/// Starts logging at this level. A second start in one process changes nothing.
pub fn start(level: LevelFilter) {
    let layer = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .with_filter(level);
    // Another subscriber is in place already in tests.
    let _ = tracing_subscriber::registry().with(layer).try_init();
}
