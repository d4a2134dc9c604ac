//! Where the log goes: to stderr, at the level that is set. Not here: the answer (stdout).

use std::io::IsTerminal;

use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

use crate::config::{Color, LogLevel};

/// Starts logging at this level. A second start in one process changes nothing.
pub fn start(level: LogLevel, color: Color) {
    let colored = match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => std::io::stderr().is_terminal(),
    };
    let layer = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(colored)
        .with_target(false)
        .with_filter(level.filter());
    // Another subscriber is in place already in tests.
    let _ = tracing_subscriber::registry().with(layer).try_init();
}
