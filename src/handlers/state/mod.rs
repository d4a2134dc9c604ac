//! Calls that outlive their answer: the outputs that were kept. Not here: the shells themselves (shell).

mod read_output;

use crate::output::OutputStore;
use crate::tool::{Entry, ToolSet};

/// The domain's tools.
pub fn tools(outputs: OutputStore) -> Vec<Entry> {
    ToolSet::new("state", outputs).with::<read_output::ReadOutput>().into_entries()
}
