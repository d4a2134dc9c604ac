//! The state that the store of outputs and their writers share.

use std::path::PathBuf;

use parking_lot::Mutex;

use super::output_inventory::{OutputInventory, OutputLimits};
use super::stored_line_indexes::StoredLineIndexes;

/// The state of one folder of outputs.
#[derive(Debug)]
pub(super) struct OutputStoreState {
    pub dir: PathBuf,
    pub limits: OutputLimits,
    pub inventory: Mutex<OutputInventory>,
    pub indexes: StoredLineIndexes,
}
