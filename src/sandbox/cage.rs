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
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
#[cfg(target_os = "linux")]
use std::time::SystemTime;

#[cfg(target_os = "linux")]
use super::bpf::Instruction;
#[cfg(target_os = "linux")]
use super::doors::Doors;
#[cfg(target_os = "linux")]
use super::places::Places;
#[cfg(target_os = "linux")]
use super::seccomp::Elsewhere;
#[cfg(target_os = "linux")]
use super::stamps::{Stamp, stamps};
use super::{Network, Rules};

/// Everything that confines one process. Its parts are shared with other processes.
#[derive(Debug, Clone)]
pub struct Cage {
    /// The Landlock ruleset; `None` if the kernel has no Landlock.
    #[cfg(target_os = "linux")]
    pub ruleset: Option<Arc<OwnedFd>>,
    /// The seccomp filter; empty for none.
    #[cfg(target_os = "linux")]
    pub filter: Arc<Vec<Instruction>>,
    /// The namespaces to enter.
    #[cfg(target_os = "linux")]
    pub namespaces: Spaces,
    /// The paths that are mounted read-only, or cannot be moved, in the process's own mount namespace; outer paths
    /// first. Requires existing namespaces.
    #[cfg(target_os = "linux")]
    pub covers: Vec<Cover>,
    /// The paths that are inaccessible in that mount namespace. Requires existing namespaces.
    #[cfg(target_os = "linux")]
    pub doors: Vec<CString>,
}

/// A path with a bind mount of itself on top: it cannot be moved or removed.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone)]
pub struct Cover {
    /// The path without symbolic links. If it contains one or is gone by the time of mounting, it is skipped.
    pub path: CString,
    /// The path cannot be written either.
    pub read_only: bool,
}

/// The namespaces that a process is in.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone)]
pub enum Spaces {
    /// The runner's own.
    Ours,
    /// A new user namespace, created by the process itself, and optionally a new network namespace.
    Anew {
        /// Also create a network namespace.
        network: bool,
    },
    /// Existing namespaces.
    Made(Arc<Namespaces>),
}

/// A user namespace, which the others require; an IPC namespace, if the kernel has them; and, for loopback only, a
/// network namespace with nothing but a loopback.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct Namespaces {
    /// The user namespace, entered first.
    pub user: OwnedFd,
    /// The IPC namespace, entered with the rights that the first one gives.
    pub names: Option<OwnedFd>,
    /// The network namespace, entered likewise.
    pub network: Option<OwnedFd>,
}

#[cfg(target_os = "linux")]
impl Cage {
    /// Creates a profile without confinement except for new namespaces, for the process that creates them.
    pub fn to_make_namespaces(network: bool) -> Self {
        let namespaces = Spaces::Anew { network };
        Self { ruleset: None, filter: Arc::default(), namespaces, covers: Vec::new(), doors: Vec::new() }
    }
}

/// Builds sandbox profiles by the rules. Results are cached until one of the listed folders changes.
#[derive(Debug)]
pub struct Cages {
    rules: Rules,
    #[cfg(target_os = "linux")]
    namespaces: OnceLock<Option<Arc<Namespaces>>>,
    #[cfg(target_os = "linux")]
    filter: OnceLock<Option<Arc<Vec<Instruction>>>>,
    #[cfg(target_os = "linux")]
    doors: Mutex<Arc<Doors>>,
    #[cfg(target_os = "linux")]
    latest: Mutex<Option<Latest>>,
}

/// The latest ruleset and the fingerprints of its folders.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Latest {
    stamps: Vec<Stamp>,
    ruleset: Option<Arc<OwnedFd>>,
}

impl Cages {
    /// Creates a builder for these rules.
    pub fn new(rules: Rules) -> Self {
        Self {
            #[cfg(target_os = "linux")]
            doors: Mutex::new(Arc::new(Doors::new(&rules))),
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
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the network access of commands: none if loopback is set and could not be created.
    #[cfg(target_os = "linux")]
    pub fn network(&self) -> Network {
        match (self.rules.network, self.namespaces.get()) {
            (Network::Loopback, Some(None)) => Network::None,
            (asked, _) => asked,
        }
    }

    /// Returns the network access of commands.
    #[cfg(not(target_os = "linux"))]
    pub fn network(&self) -> Network {
        if cfg!(target_os = "macos") { self.rules.network } else { Network::Full }
    }

    /// Records the namespaces that profiles enter, or that none could be created. Only the first call counts.
    #[cfg(target_os = "linux")]
    pub fn found(&self, namespaces: Option<Namespaces>) {
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
    pub fn doors(&self) -> Vec<CString> {
        let doors = Arc::clone(&self.doors.lock().unwrap_or_else(PoisonError::into_inner));
        doors.now()
    }

    /// Adds folders to the search path: commands may read these from now on.
    #[cfg(target_os = "linux")]
    pub fn look_for_programs_in(&self, folders: impl IntoIterator<Item = PathBuf>) {
        let more: Vec<PathBuf> =
            folders.into_iter().filter(|folder| !self.rules.search_path.contains(folder)).collect();
        if more.is_empty() {
            return;
        }
        let mut rules = self.rules.clone();
        rules.search_path.extend(more);
        *self.doors.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(Doors::new(&rules));
    }

    /// Builds the profile for a process that starts now, without bind mounts and blocked sockets.
    ///
    /// # Errors
    /// The kernel's error for a ruleset that it should support, or a hidden path that cannot be resolved.
    #[cfg(target_os = "linux")]
    pub fn cage(&self) -> io::Result<Cage> {
        let network = self.network();
        let ruleset = self.ruleset(network)?;
        self.with(ruleset, network)
    }

    /// Builds a profile that also allows reading this folder, wherever it is.
    ///
    /// # Errors
    /// As [`Cages::cage`].
    #[cfg(target_os = "linux")]
    pub fn cage_showing(&self, folder: &Path) -> io::Result<Cage> {
        let network = self.network();
        let mut rules = self.rules.clone();
        rules.shown.push(folder.to_owned());
        self.with(ruleset_of(&super::places::places(&rules)?, network)?, network)
    }

    /// Builds the profile for the self-test, which measures enforcement even if hidden paths cannot be resolved.
    ///
    /// # Errors
    /// As [`Cages::cage`].
    #[cfg(target_os = "linux")]
    pub fn cage_for_a_trial(&self) -> io::Result<Cage> {
        let network = self.network();
        self.with(ruleset_of(&super::places::for_a_trial(&self.rules), network)?, network)
    }

    #[cfg(target_os = "linux")]
    fn with(&self, ruleset: Option<Arc<OwnedFd>>, network: Network) -> io::Result<Cage> {
        let has_names = || matches!(self.namespaces.get(), Some(Some(made)) if made.names.is_some());
        let made = self.filter.get_or_init(|| {
            let elsewhere = Elsewhere { lengths: super::ruleset::keeps_lengths(), names: has_names() };
            super::seccomp::filter(network, elsewhere).map(Arc::new)
        });
        let Some(filter) = made else {
            let text = "there is no filter of system calls for this processor";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        };
        let namespaces = match self.namespaces.get() {
            Some(Some(made)) => Spaces::Made(Arc::clone(made)),
            _ => Spaces::Ours,
        };
        let (covers, doors) = (Vec::new(), Vec::new());
        Ok(Cage { ruleset, filter: Arc::clone(filter), namespaces, covers, doors })
    }

    #[cfg(target_os = "linux")]
    fn ruleset(&self, network: Network) -> io::Result<Option<Arc<OwnedFd>>> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Latest { stamps, ruleset }) = &*latest
            && stamps.iter().all(Stamp::holds)
        {
            return Ok(ruleset.clone());
        }
        let began = SystemTime::now();
        let places = super::places::places(&self.rules)?;
        let stamps = stamps(&self.rules, &places);
        let ruleset = ruleset_of(&places, network)?;
        let stays = stamps.iter().all(|stamp| stamp.is_older_than(began));
        *latest = stays.then(|| Latest { stamps, ruleset: ruleset.clone() });
        Ok(ruleset)
    }
}

/// Creates a ruleset; `None` if the kernel has no Landlock.
#[cfg(target_os = "linux")]
fn ruleset_of(places: &Places, network: Network) -> io::Result<Option<Arc<OwnedFd>>> {
    let made = super::ruleset::ruleset(&places.list, network == Network::None).map_err(io::Error::other)?;
    Ok(made.map(Arc::new))
}
