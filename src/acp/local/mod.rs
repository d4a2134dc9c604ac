//! This machine as the client: its file system and its processes.

<<<<<<< HEAD
#[cfg(unix)]
mod capture;
pub mod children;
pub mod environment;
#[cfg(unix)]
mod family;
pub mod identity;
#[cfg(unix)]
pub mod kill;
#[cfg(unix)]
mod login;
#[cfg(unix)]
mod process;
#[cfg(unix)]
mod pump;
#[cfg(unix)]
pub mod terminals;
#[cfg(not(unix))]
#[path = "terminals_elsewhere.rs"]
pub mod terminals;
=======
mod atomic_write;
pub mod files;
mod folder_listing;
mod line_index;
mod near_names;
mod sniff;
mod text_lines;
mod text_window;
>>>>>>> room/file

/// Serves the client tools on this machine.
#[derive(Debug, Clone)]
pub struct LocalClient {}
