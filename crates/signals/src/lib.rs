//! What this device can tell about its owner: browsers, shells, projects, programs, notes. A source is read only if its
//! category was asked for; the caller has the owner's consent before it asks. Raw rows never leave a source: it returns
//! Markdown. Not here: consent, the masking of secrets, and people's aliases.
//!
//! - `category`: the categories, each with its sources.
//! - `places`: the folders in which sources look, injected so that every system's layout can be tried on any.
//! - `budget`: the time, the entries and the cancellation of one collection.
//! - `report`: the sections, the problems, and what was left out.
//! - `file_access`: opening and listing the owner's files within bounds.
//! - `snapshot`: private copies of databases that other programs have open.

mod budget;
mod category;
mod file_access;
mod places;
mod report;
mod snapshot;

pub use budget::Budget;
pub use category::{Category, collect_category};
pub use places::{SignalPlaces, System};
pub use report::{Person, Section, SourceReport, SourceState, Tier};
pub use snapshot::sweep;
