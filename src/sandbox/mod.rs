//! What commands may touch, prepared for the kernel to enforce: files (places, links, hidden, ruleset, doors), system
//! calls (seccomp, bpf), macOS's profile (seatbelt), and what of it holds (level, self_test). Not here: starting a
//! process in it (acp::local), which is all that happens between a child's making and its program; and the file tools,
//! which prove each path themselves (acp::workspace).

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

/// What the owner and the layout of this machine say about commands.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The folders that commands work in.
    pub workspaces: Vec<PathBuf>,
    /// The user's own folder.
    pub user_home: Option<PathBuf>,
    /// The runner's own folder: hidden.
    pub own_home: PathBuf,
    /// What of the runner's folder commands may read.
    pub shown: Vec<PathBuf>,
    /// Where the named pipes are of commands in the background, which these may open again.
    pub pipes: PathBuf,
    /// The folder for temporary files, which is theirs alone.
    pub temp: PathBuf,
    /// Programs are looked for here.
    pub search_path: Vec<PathBuf>,
    /// What the owner lets them write beside.
    pub write: Vec<PathBuf>,
    /// What the owner lets them read beside.
    pub read: Vec<PathBuf>,
    /// What the owner hides beside.
    pub hide: Vec<PathBuf>,
    /// Sockets by which the runner itself is reached, and no command.
    pub sockets: Vec<PathBuf>,
    /// What they may reach.
    pub network: Network,
    /// Where what is hidden was found to lie: shared by all copies of these rules.
    pub found: Arc<Found>,
}

impl Rules {
    /// The least: the runner's own folder is hidden, one for temporary files is there, and nothing else is granted.
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
