//! What one process takes on before its program starts, and where it is kept for the next. Not here: taking it on
//! (acp::local::launch).

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

/// Everything that confines one process; it shares its parts with others.
#[derive(Debug, Clone)]
pub struct Cage {
    /// The Landlock ruleset; none where the kernel has no Landlock.
    #[cfg(target_os = "linux")]
    pub ruleset: Option<Arc<OwnedFd>>,
    /// The filter of system calls; empty for none.
    #[cfg(target_os = "linux")]
    pub filter: Arc<Vec<Instruction>>,
    /// The namespaces that it enters.
    #[cfg(target_os = "linux")]
    pub namespaces: Spaces,
    /// What it finds read-only, or cannot move, in a view of the files that is its own; the outer before the inner.
    /// Only in namespaces that were made before.
    #[cfg(target_os = "linux")]
    pub covers: Vec<Cover>,
    /// What leads nowhere in that view. Likewise.
    #[cfg(target_os = "linux")]
    pub doors: Vec<CString>,
}

/// A path that is covered by a mount of itself: it cannot be moved or removed.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone)]
pub struct Cover {
    /// Without any link in it; one that is none by then is left as it is.
    pub path: CString,
    /// Nor written.
    pub read_only: bool,
}

/// Which namespaces a process is in.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone)]
pub enum Spaces {
    /// The runner's.
    Ours,
    /// A user's of its own, made by it, and a network's where that is asked for.
    Anew {
        /// Whether it has a network of its own too.
        network: bool,
    },
    /// Those that were made before.
    Made(Arc<Namespaces>),
}

/// A user namespace, which is there for the others; one of names of memory and queues, where the kernel has such; and, for
/// commands that reach each other only, a network namespace with a loopback and nothing else.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct Namespaces {
    /// Entered first.
    pub user: OwnedFd,
    /// Entered with the rights that the first gives.
    pub names: Option<OwnedFd>,
    /// Likewise.
    pub network: Option<OwnedFd>,
}

#[cfg(target_os = "linux")]
impl Cage {
    /// No confinement but namespaces of its own, for the process that makes them.
    pub fn to_make_namespaces(network: bool) -> Self {
        let namespaces = Spaces::Anew { network };
        Self { ruleset: None, filter: Arc::default(), namespaces, covers: Vec::new(), doors: Vec::new() }
    }
}

/// Makes cages by the rules. What is made is kept for as long as the folders that were listed stay as they are.
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

/// The ruleset that was made last, and what it was made from.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Latest {
    stamps: Vec<Stamp>,
    ruleset: Option<Arc<OwnedFd>>,
}

impl Cages {
    /// By these rules.
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

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// What commands can reach: no loopback where none could be made.
    #[cfg(target_os = "linux")]
    pub fn network(&self) -> Network {
        match (self.rules.network, self.namespaces.get()) {
            (Network::Loopback, Some(None)) => Network::None,
            (asked, _) => asked,
        }
    }

    /// What commands can reach.
    #[cfg(not(target_os = "linux"))]
    pub fn network(&self) -> Network {
        if cfg!(target_os = "macos") { self.rules.network } else { Network::Full }
    }

    /// Tells once whether namespaces could be made, which cages then enter.
    #[cfg(target_os = "linux")]
    pub fn found(&self, namespaces: Option<Namespaces>) {
        // The first finding stands: the filter follows from it.
        let _ = self.namespaces.set(namespaces.map(Arc::new));
    }

    /// Whether commands are in namespaces of their own.
    #[cfg(target_os = "linux")]
    pub fn has_namespaces(&self) -> bool {
        matches!(self.namespaces.get(), Some(Some(_)))
    }

    /// What is to lead nowhere for a process that starts now.
    #[cfg(target_os = "linux")]
    pub fn doors(&self) -> Vec<CString> {
        let doors = Arc::clone(&self.doors.lock().unwrap_or_else(PoisonError::into_inner));
        doors.now()
    }

    /// Programs are looked for here too: from now on these folders are in sight.
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

    /// The cage for a process that starts now, without covers and with all doors open.
    ///
    /// # Errors
    /// What the kernel says to a ruleset that it should know; and that nobody can tell where something hidden lies.
    #[cfg(target_os = "linux")]
    pub fn cage(&self) -> io::Result<Cage> {
        let network = self.network();
        let ruleset = self.ruleset(network)?;
        self.with(ruleset, network)
    }

    /// The same for one that alone may read in this folder too, wherever it is.
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

    /// The same for the self-test, which finds out what is enforced whatever the owner's folders are like.
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

/// None where the kernel knows no Landlock.
#[cfg(target_os = "linux")]
fn ruleset_of(places: &Places, network: Network) -> io::Result<Option<Arc<OwnedFd>>> {
    let made = super::ruleset::ruleset(&places.list, network == Network::None).map_err(io::Error::other)?;
    Ok(made.map(Arc::new))
}
