//! The sandbox profile that one process applies before its program starts, and the cache of its parts. Not here:
//! applying it (acp::local).

#[cfg(target_os = "linux")]
use std::ffi::CString;
#[cfg(target_os = "linux")]
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
#[cfg(target_os = "linux")]
use std::path::{Path, PathBuf};
#[cfg(target_os = "linux")]
use std::sync::{Arc, OnceLock};
#[cfg(target_os = "linux")]
use std::time::SystemTime;

#[cfg(target_os = "linux")]
use parking_lot::Mutex;

#[cfg(target_os = "linux")]
use super::blocked_sockets::BlockedSockets;
#[cfg(target_os = "linux")]
use super::bpf::Instruction;
#[cfg(target_os = "linux")]
use super::dir_fingerprints::{DirFingerprint, take_fingerprints};
use super::level::NetworkAccess;
#[cfg(target_os = "linux")]
use super::path_grants::{PathGrants, compute_grants, compute_self_test_grants};
use super::sandbox_rules::SandboxRules;
#[cfg(target_os = "linux")]
use super::seccomp::OtherRestrictions;

/// Everything that confines one process. Its parts are shared with other processes.
#[derive(Debug, Clone)]
pub struct SandboxProfile {
    /// The Landlock ruleset; `None` if the kernel has no Landlock.
    #[cfg(target_os = "linux")]
    pub ruleset: Option<Arc<OwnedFd>>,
    /// The seccomp filter; empty for none.
    #[cfg(target_os = "linux")]
    pub filter: Arc<Vec<Instruction>>,
    /// The namespaces to enter.
    #[cfg(target_os = "linux")]
    pub namespaces: NamespaceChoice,
    /// The paths that are mounted read-only, or cannot be moved, in the process's own mount namespace; outer paths
    /// first. Requires existing namespaces.
    #[cfg(target_os = "linux")]
    pub protected_mounts: Vec<ProtectedMount>,
    /// The paths that are inaccessible in that mount namespace. Requires existing namespaces.
    #[cfg(target_os = "linux")]
    pub blocked_paths: Vec<CString>,
}

/// A path with a bind mount of itself on top: it cannot be moved or removed.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone)]
pub struct ProtectedMount {
    /// The path without symbolic links. If it contains one or is gone by the time of mounting, it is skipped.
    pub path: CString,
    /// The path cannot be written either.
    pub read_only: bool,
}

/// The namespaces that a process is in.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone)]
pub enum NamespaceChoice {
    /// The runner's own.
    Inherited,
    /// A new user namespace, created by the process itself, and optionally a new network namespace.
    New {
        /// Also create a network namespace.
        network: bool,
    },
    /// Existing namespaces.
    Existing(Arc<NamespaceSet>),
}

/// A user namespace, which the others require; an IPC namespace, if the kernel has them; and, for loopback only, a
/// network namespace with nothing but a loopback.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct NamespaceSet {
    /// The user namespace, entered first.
    pub user: OwnedFd,
    /// The IPC namespace, entered with the rights that the first one gives.
    pub ipc: Option<OwnedFd>,
    /// The network namespace, entered likewise.
    pub network: Option<OwnedFd>,
}

#[cfg(target_os = "linux")]
impl SandboxProfile {
    /// Creates a profile without confinement except for new namespaces, for the process that creates them.
    pub fn for_new_namespaces(network: bool) -> Self {
        let namespaces = NamespaceChoice::New { network };
        Self {
            ruleset: None,
            filter: Arc::default(),
            namespaces,
            protected_mounts: Vec::new(),
            blocked_paths: Vec::new(),
        }
    }
}

/// Builds sandbox profiles by the rules. Results are cached until one of the listed folders changes.
#[derive(Debug)]
pub struct ProfileBuilder {
    rules: SandboxRules,
    #[cfg(target_os = "linux")]
    namespaces: OnceLock<Option<Arc<NamespaceSet>>>,
    #[cfg(target_os = "linux")]
    filter: OnceLock<Option<Arc<Vec<Instruction>>>>,
    #[cfg(target_os = "linux")]
    blocked_sockets: Mutex<Arc<BlockedSockets>>,
    #[cfg(target_os = "linux")]
    latest: Mutex<Option<CachedRuleset>>,
}

/// The latest ruleset and the fingerprints of its folders.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct CachedRuleset {
    fingerprints: Vec<DirFingerprint>,
    ruleset: Option<Arc<OwnedFd>>,
}

impl ProfileBuilder {
    /// Creates a builder for these rules.
    pub fn new(rules: SandboxRules) -> Self {
        Self {
            #[cfg(target_os = "linux")]
            blocked_sockets: Mutex::new(Arc::new(BlockedSockets::new(&rules))),
            rules,
            #[cfg(target_os = "linux")]
            namespaces: OnceLock::new(),
            #[cfg(target_os = "linux")]
            filter: OnceLock::new(),
            #[cfg(target_os = "linux")]
            latest: Mutex::default(),
        }
    }

    /// Returns the rules.
    pub fn rules(&self) -> &SandboxRules {
        &self.rules
    }

    /// Returns the network access of commands: none if loopback is set and could not be created.
    #[cfg(target_os = "linux")]
    pub fn network_access(&self) -> NetworkAccess {
        match (self.rules.network, self.namespaces.get()) {
            (NetworkAccess::Loopback, Some(None)) => NetworkAccess::None,
            (asked, _) => asked,
        }
    }

    /// Returns the network access of commands.
    #[cfg(not(target_os = "linux"))]
    pub fn network_access(&self) -> NetworkAccess {
        if cfg!(target_os = "macos") {
            self.rules.network
        } else {
            NetworkAccess::Full
        }
    }

    /// Records the namespaces that profiles enter, or that none could be created. Only the first call counts.
    #[cfg(target_os = "linux")]
    pub fn set_namespaces(&self, namespaces: Option<NamespaceSet>) {
        // The first value stays, because the filter depends on it.
        let _ = self.namespaces.set(namespaces.map(Arc::new));
    }

    /// Returns whether commands have their own namespaces.
    #[cfg(target_os = "linux")]
    pub fn has_namespaces(&self) -> bool {
        matches!(self.namespaces.get(), Some(Some(_)))
    }

    /// Returns the paths to block for a process that starts now.
    #[cfg(target_os = "linux")]
    pub fn blocked_paths(&self) -> Vec<CString> {
        let blocked = Arc::clone(&self.blocked_sockets.lock());
        blocked.current_paths()
    }

    /// Adds folders to the search path: commands may read these from now on.
    #[cfg(target_os = "linux")]
    pub fn add_search_folders(&self, folders: impl IntoIterator<Item = PathBuf>) {
        let more: Vec<PathBuf> = folders
            .into_iter()
            .filter(|folder| !self.rules.search_path.contains(folder))
            .collect();
        if more.is_empty() {
            return;
        }
        let mut rules = self.rules.clone();
        rules.search_path.extend(more);
        *self.blocked_sockets.lock() = Arc::new(BlockedSockets::new(&rules));
    }

    /// Builds the profile for a process that starts now, without bind mounts and blocked sockets.
    ///
    /// # Errors
    /// The kernel's error for a ruleset that it should support, or a hidden path that cannot be resolved.
    #[cfg(target_os = "linux")]
    pub fn build_profile(&self) -> io::Result<SandboxProfile> {
        let network = self.network_access();
        self.profile_with(self.current_ruleset(network)?, network)
    }

    /// Builds a profile that also allows reading this folder, wherever it is.
    ///
    /// # Errors
    /// As [`ProfileBuilder::build_profile`].
    #[cfg(target_os = "linux")]
    pub fn build_profile_showing(&self, folder: &Path) -> io::Result<SandboxProfile> {
        let network = self.network_access();
        let mut rules = self.rules.clone();
        rules.shown.push(folder.to_owned());
        let ruleset = create_shared_ruleset(&compute_grants(&rules)?, network)?;
        self.profile_with(ruleset, network)
    }

    /// Builds the profile for the self-test, which measures enforcement even if hidden paths cannot be resolved.
    ///
    /// # Errors
    /// As [`ProfileBuilder::build_profile`].
    #[cfg(target_os = "linux")]
    pub fn build_self_test_profile(&self) -> io::Result<SandboxProfile> {
        let network = self.network_access();
        let ruleset = create_shared_ruleset(&compute_self_test_grants(&self.rules), network)?;
        self.profile_with(ruleset, network)
    }

    #[cfg(target_os = "linux")]
    fn profile_with(
        &self,
        ruleset: Option<Arc<OwnedFd>>,
        network: NetworkAccess,
    ) -> io::Result<SandboxProfile> {
        let has_ipc = || matches!(self.namespaces.get(), Some(Some(set)) if set.ipc.is_some());
        let filter = self.filter.get_or_init(|| {
            let elsewhere = OtherRestrictions {
                blocks_truncation: super::ruleset::can_block_truncation(),
                has_ipc_namespace: has_ipc(),
            };
            super::seccomp::build_filter(network, elsewhere).map(Arc::new)
        });
        let Some(filter) = filter else {
            let text = "there is no filter of system calls for this processor";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        };
        let namespaces = match self.namespaces.get() {
            Some(Some(made)) => NamespaceChoice::Existing(Arc::clone(made)),
            _ => NamespaceChoice::Inherited,
        };
        Ok(SandboxProfile {
            ruleset,
            filter: Arc::clone(filter),
            namespaces,
            protected_mounts: Vec::new(),
            blocked_paths: Vec::new(),
        })
    }

    #[cfg(target_os = "linux")]
    fn current_ruleset(&self, network: NetworkAccess) -> io::Result<Option<Arc<OwnedFd>>> {
        let mut latest = self.latest.lock();
        if let Some(cached) = &*latest
            && cached.fingerprints.iter().all(DirFingerprint::is_unchanged)
        {
            return Ok(cached.ruleset.clone());
        }
        let began = SystemTime::now();
        let grants = compute_grants(&self.rules)?;
        let fingerprints = take_fingerprints(&self.rules, &grants);
        let ruleset = create_shared_ruleset(&grants, network)?;
        let may_be_cached = fingerprints.iter().all(|one| one.is_older_than(began));
        *latest = may_be_cached.then(|| CachedRuleset {
            fingerprints,
            ruleset: ruleset.clone(),
        });
        Ok(ruleset)
    }
}

/// Creates a ruleset; `None` if the kernel has no Landlock.
#[cfg(target_os = "linux")]
fn create_shared_ruleset(
    grants: &PathGrants,
    network: NetworkAccess,
) -> io::Result<Option<Arc<OwnedFd>>> {
    let made = super::ruleset::create_ruleset(&grants.list, network == NetworkAccess::None)
        .map_err(io::Error::other)?;
    Ok(made.map(Arc::new))
}
