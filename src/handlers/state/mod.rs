//! State: what outlives a call: the full text of clipped outputs, and tasks. Not here: who keeps them.

pub mod board;
mod news;
mod read_output;
mod task;
mod task_output;

use std::sync::Arc;

use crate::output::OutputStore;
use crate::tool::{Entry, ToolSet};
use board::TaskBoard;

/// What the state tools need.
#[derive(Clone)]
pub struct StateDeps {
    /// The kept outputs.
    pub outputs: OutputStore,
    /// The tasks.
    pub board: Arc<dyn TaskBoard>,
}

/// The state tools.
pub fn tools(deps: StateDeps) -> Vec<Entry> {
    let mut entries =
        ToolSet::new("state", deps.outputs.clone()).with::<read_output::ReadOutput>().into_entries();
    entries.extend(
        ToolSet::new("state", deps).with::<task::Task>().with::<task_output::TaskOutput>().into_entries(),
    );
    entries
}
