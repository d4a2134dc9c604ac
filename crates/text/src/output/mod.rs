//! Text for a model: its length, its cleaning, and the storage of the rest.

mod binary_data;
mod call_record_store;
mod control_scanner;
mod elided_text;
pub mod head_tail;
pub mod hidden_characters;
pub mod line_feed;
pub mod line_index;
mod long_line;
pub mod number_format;
mod output_handle;
mod output_inventory;
mod output_search;
pub mod output_store;
mod output_store_state;
pub mod path_text;
pub mod secret_boundaries;
mod sparse_file;
mod spool;
mod stored_line_indexes;
mod stored_output;
pub mod terminal_screen;
pub mod terminal_text;
pub mod text_budget;
mod utf8_decoder;

pub use binary_data::{BinaryRun, find_binary_data};
pub use call_record_store::{CallRecord, CallRecordStore};
pub use head_tail::HeadTail;
pub use output_handle::OutputHandle;
pub use output_inventory::OutputLimits;
pub use output_search::{OutputSearchError, OutputSearchQuery, OutputSearchResult};
pub use output_store::{FindOutputError, OutputStore};
pub use secret_boundaries::{MaskedRanges, SecretBoundaries};
pub use spool::OutputSpool;
pub use stored_output::{
    OutputLine, OutputPage, OutputReadStop, OutputTotals, OutputWindow, StoredOutput,
};
pub use text_budget::{ClippedText, TextBudget};
