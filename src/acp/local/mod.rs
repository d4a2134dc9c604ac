//! This machine as the client: its file system and its processes.

#[cfg(unix)]
mod capture;
pub mod children;
#[cfg(unix)]
mod command;
pub mod environment;
#[cfg(unix)]
mod family;
pub mod identity;
#[cfg(unix)]
pub mod kill;
#[cfg(unix)]
mod launch;
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

/// Serves the client tools on this machine.
#[derive(Debug, Clone)]
pub struct LocalClient {}
