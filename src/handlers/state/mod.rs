//! State that outlives a call: the full text of cut outputs, and tasks.

pub mod background_tasks;
mod new_output;
mod read_output;
mod task;
mod task_output;

use std::sync::Arc;

use background_tasks::TaskBoard;
use punie_text::output::OutputStore;
use punie_tool::{ToolDeps, ToolEntry, ToolSet};

/// The dependencies of the state tools.
#[derive(Clone)]
pub struct StateDeps {
    /// The stored outputs.
    pub outputs: OutputStore,
    /// The tasks.
    pub board: Arc<dyn TaskBoard>,
}

impl ToolDeps for StateDeps {}

/// Returns the state tools.
pub fn tools(deps: StateDeps) -> Vec<ToolEntry> {
    let mut entries = ToolSet::new("state", deps.outputs.clone())
        .with_tool::<read_output::ReadOutput>()
        .into_entries();
    entries.extend(
        ToolSet::new("state", deps)
            .with_tool::<task::Task>()
            .with_tool::<task_output::TaskOutput>()
            .into_entries(),
    );
    entries
}
