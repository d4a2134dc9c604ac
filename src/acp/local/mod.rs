//! This machine as the client: its file system and its processes.

mod atomic_write;
pub mod files;
mod folder_listing;
mod line_index;
mod near_names;
mod sniff;
mod temp_file;
mod text_lines;
mod text_window;

/// Serves the client tools on this machine.
#[derive(Debug, Clone)]
pub struct LocalClient {}
