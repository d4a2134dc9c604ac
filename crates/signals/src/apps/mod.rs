//! Programs and their use, and what lies in the owner's usual folders.

mod activity_databases;
mod app_list;
mod desktop_entries;
mod folder_contents;
mod installed;
mod known_apps;
mod recent_documents;
mod system_signals;

use super::report::Source;

pub(crate) const SOURCES: &[Source] = &[
    (app_list::NAME, app_list::read_apps),
    (system_signals::NAME, system_signals::read_system_signals),
];
