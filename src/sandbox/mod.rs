//! The rules for commands, prepared for the kernel to enforce: granted and hidden paths, sockets, system calls, the
//! macOS profile, and the measured level. Not here: starting a confined process (acp::local), which does everything
//! between fork and exec; and the file tools, which check each path themselves (acp::workspace).

#[cfg(target_os = "linux")]
mod blocked_sockets;
#[cfg(target_os = "linux")]
mod bpf;
#[cfg(target_os = "linux")]
mod dir_fingerprints;
mod hidden_paths;
pub mod hint;
pub mod level;
#[cfg(target_os = "linux")]
mod path_grants;
pub mod profile;
#[cfg(target_os = "linux")]
mod ruleset;
#[cfg(any(target_os = "macos", test))]
pub mod seatbelt;
#[cfg(target_os = "linux")]
mod seccomp;
pub mod self_test;
mod untrusted_links;

#[cfg(target_os = "linux")]
pub use bpf::Instruction;
pub use hidden_paths::{ResolvedHiddenPaths, is_absent};
pub use level::{ConfinementLevel, EscapeAttempt, NetworkAccess, RequiredLevel};
pub use profile::{ProfileBuilder, SandboxProfile};
#[cfg(target_os = "linux")]
pub use ruleset::restrict_thread;
#[cfg(target_os = "linux")]
pub use seccomp::filter_without_network;
pub use untrusted_links::resolve_owner_paths;

use std::path::PathBuf;
use std::sync::Arc;

/// The owner's settings and the paths of this machine that determine the sandbox.
#[derive(Debug, Clone)]
pub struct SandboxRules {
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
    pub network: NetworkAccess,
    /// The resolved hidden paths, shared by all copies of these rules.
    pub resolved_hidden: Arc<ResolvedHiddenPaths>,
}

impl SandboxRules {
    /// Returns minimal rules: they hide the runner's home, grant a folder for temporary files, and grant nothing else.
    pub fn minimal_rules(own_home: PathBuf, temp: PathBuf) -> Self {
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
            network: NetworkAccess::None,
            resolved_hidden: Arc::default(),
            own_home,
            temp,
        }
    }
}
