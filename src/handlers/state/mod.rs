//! State that outlives a call: the full text of cut outputs, and tasks. Not here: storing it.

pub mod board;
mod news;
mod read_output;
mod task;
mod task_output;

use std::sync::Arc;

use crate::output::OutputStore;
use crate::tool::{Entry, ToolSet};
use board::TaskBoard;

/// The dependencies of the state tools.
#[derive(Clone)]
pub struct StateDeps {
    /// The stored outputs.
    pub outputs: OutputStore,
    /// The tasks.
    pub board: Arc<dyn TaskBoard>,
}

/// Returns the state tools.
pub fn tools(deps: StateDeps) -> Vec<Entry> {
    let mut entries =
        ToolSet::new("state", deps.outputs.clone()).with::<read_output::ReadOutput>().into_entries();
    entries.extend(
        ToolSet::new("state", deps).with::<task::Task>().with::<task_output::TaskOutput>().into_entries(),
    );
    entries
}
