//! What this device can tell about its owner: browsers, shells, projects, programs, notes. A source is read only if its
//! category was asked for; the caller has the owner's consent before it asks. Raw rows never leave a source: it returns
//! Markdown.
//!
//! Read first: [`Category`], what the owner agrees to; [`SignalPlaces`], where to look; [`SourceReport`], what was found.
//! The tools and the program use this crate. It uses `punie-core` alone.
//!
//! - `category`: the categories, each with its sources.
//! - `places`: the folders in which sources look, injected so that every system's layout can be tried on any.
//! - `budget`: the time, the entries and the cancellation of one collection.
//! - `report`: the sections, the problems, and what was left out.
//! - `file_access`: opening and listing the owner's files within bounds.
//! - `snapshot`: private copies of databases that other programs have open.
//! - `foreign_rows`, `epoch`: rows and times of databases whose schema belongs to other programs.
//! - `property_list`: property lists of macOS, within bounds.
//! - `plain_text`: foreign text on its way into a section: clipped, without control characters and secrets.
//! - `report_text`, `low_signal`: paths and counts as they are reported, and hosts that are not.
//! - `dev`: projects, the history of shells, tools for development.
//! - `apps`: programs, their use, and the usual folders.
//! - `browser`: history and bookmarks.
//! - `personal`: messages, notes, reminders and calendars, as numbers.
//! - `format`: the text of all sources.

mod apps;
mod browser;
mod budget;
mod category;
mod dev;
mod epoch;
mod file_access;
mod foreign_rows;
mod format;
mod low_signal;
mod personal;
mod places;
mod plain_text;
mod property_list;
mod report;
mod report_text;
mod snapshot;
#[cfg(test)]
mod test_places;

pub use budget::Budget;
pub use category::{Category, collect_category};
pub use format::format_report;
pub use places::{SignalPlaces, System};
pub use report::{Person, Section, SourceReport, SourceState, Tier};
pub use snapshot::sweep;
