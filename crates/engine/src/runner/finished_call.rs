//! A finished call, for the terminal on which the runner works.

use std::sync::Arc;

use punie_tool::request::{CallEnd, OutcomeKind};

/// The log target of the line about a finished call.
pub const ANSWERED_TARGET: &str = "punie_runner::answered";

/// A finished call, as a line about it shows it.
#[derive(Debug, Clone)]
pub struct FinishedCall {
    /// The time at which its reply was recorded, in milliseconds since 1970.
    pub at_ms: i64,
    /// The tool.
    pub tool: String,
    /// Its command, paths or query, masked; empty if titles are not kept.
    pub title: String,
    /// Its outcome.
    pub kind: OutcomeKind,
    /// The code of its error.
    pub code: Option<String>,
    /// The exit of its command, the refusal of it, and the time for which it ran.
    pub end: CallEnd,
}

/// Receives every finished call. It must not block.
pub type FinishedCallListener = Arc<dyn Fn(&FinishedCall) + Send + Sync>;
