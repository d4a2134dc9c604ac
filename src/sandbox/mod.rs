//! The rules for commands, prepared for the kernel to enforce: granted and hidden paths, sockets, system calls, the
//! macOS profile, and the measured level. Not here: starting a confined process (acp::local), which does everything
//! between fork and exec; and the file tools, which check each path themselves (acp::workspace).

#[cfg(target_os = "linux")]
mod bpf;
pub mod cage;
#[cfg(target_os = "linux")]
mod doors;
mod hidden;
pub mod hint;
pub mod level;
mod links;
#[cfg(target_os = "linux")]
mod places;
#[cfg(target_os = "linux")]
mod ruleset;
#[cfg(any(target_os = "macos", test))]
pub mod seatbelt;
#[cfg(target_os = "linux")]
mod seccomp;
pub mod self_test;
#[cfg(target_os = "linux")]
mod stamps;

#[cfg(target_os = "linux")]
pub use bpf::Instruction;
pub use cage::{Cage, Cages};
pub use hidden::{Found, is_absent};
pub use level::{Escape, Level, Network, Require};
pub use links::settled;
#[cfg(target_os = "linux")]
pub use ruleset::restrict_thread;
#[cfg(target_os = "linux")]
pub use seccomp::filter_without_network;

use std::path::PathBuf;
use std::sync::Arc;

/// The owner's settings and the paths of this machine that determine the sandbox.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The workspaces.
    pub workspaces: Vec<PathBuf>,
    /// The user's home.
    pub user_home: Option<PathBuf>,
    /// The runner's home, which is hidden.
    pub own_home: PathBuf,
    /// The paths in the runner's home that commands may read.
    pub shown: Vec<PathBuf>,
    /// The folder of the named pipes of background commands, which may reopen them.
    pub pipes: PathBuf,
    /// The commands' own folder for temporary files.
    pub temp: PathBuf,
    /// The search path for programs.
    pub search_path: Vec<PathBuf>,
    /// Additional paths that the owner makes writable.
    pub write: Vec<PathBuf>,
    /// Additional paths that the owner makes readable.
    pub read: Vec<PathBuf>,
    /// Additional paths that the owner hides.
    pub hide: Vec<PathBuf>,
    /// The runner's own sockets, which commands may not reach.
    pub sockets: Vec<PathBuf>,
    /// The network access.
    pub network: Network,
    /// The resolved hidden paths, shared by all copies of these rules.
    pub found: Arc<Found>,
}

impl Rules {
    /// Returns minimal rules: they hide the runner's home, grant a folder for temporary files, and grant nothing else.
    pub fn least(own_home: PathBuf, temp: PathBuf) -> Self {
        Self {
            workspaces: Vec::new(),
            user_home: None,
            shown: Vec::new(),
            pipes: own_home.join("pipes"),
            search_path: Vec::new(),
            write: Vec::new(),
            read: Vec::new(),
            hide: Vec::new(),
            sockets: Vec::new(),
            network: Network::None,
            found: Arc::default(),
            own_home,
            temp,
        }
    }
}
