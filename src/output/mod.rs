//! Text for a model: its length, its cleaning, and the storage of the rest. Not here: secrets (redact) and building a
//! result (request).

mod binary;
pub mod clip;
mod decode;
pub mod figures;
pub mod filter;
pub mod headtail;
mod holes;
pub mod hygiene;
mod kept;
mod kept_indexes;
mod ledger;
mod line;
pub(crate) mod line_feed;
pub(crate) mod line_index;
pub mod path_text;
pub mod screen;
mod search;
mod spool;
pub mod store;
mod stretch;
pub mod uncut;

pub use binary::{BinaryRun, find_binary};
pub use clip::{Budget, Clipped};
pub use filter::{FilterFactory, StreamFilter};
pub use headtail::HeadTail;
pub use kept::{Halt, KeptLine, KeptOutput, Page, Totals, Window};
pub use search::{Found, Query, SearchError};
pub use spool::Spool;
pub use store::{FindError, Limits, OutputHandle, OutputStore};
pub use uncut::{MaskedTexts, Standing, Uncut};
