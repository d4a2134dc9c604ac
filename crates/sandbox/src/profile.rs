//! The sandbox profile that one process applies before its program starts, and the views and rulesets that processes
//! share.

#[cfg(target_os = "linux")]
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
#[cfg(target_os = "linux")]
use std::path::{Path, PathBuf};
#[cfg(target_os = "linux")]
use std::sync::{Arc, OnceLock};

#[cfg(target_os = "linux")]
use parking_lot::Mutex;

#[cfg(target_os = "linux")]
use super::bpf::Instruction;
#[cfg(target_os = "linux")]
use super::cache_layers::{CacheLayers, CommandCache};
#[cfg(target_os = "linux")]
use super::git_settings::authorities_in_settings;
use super::level::NetworkAccess;
#[cfg(target_os = "linux")]
use super::mount_steps::MountStep;
#[cfg(target_os = "linux")]
pub use super::namespaces::{FIRST_PORT_DESCRIPTOR, HeldView, NamespaceChoice, NamespaceSet};
#[cfg(target_os = "linux")]
use super::path_grants::{
    PathGrant, compute_grants, compute_self_test_grants, compute_view_grants,
};
use super::sandbox_rules::LoginPaths;
use super::sandbox_rules::SandboxRules;
#[cfg(target_os = "linux")]
use super::seccomp::OtherRestrictions;
#[cfg(target_os = "linux")]
use super::view::ViewPlan;
#[cfg(target_os = "linux")]
use super::view_contents::ViewContents;
#[cfg(target_os = "linux")]
use super::view_signature::{SignedPaths, ViewSignature};

/// Everything that confines one process. Its parts are shared with other processes.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone)]
pub struct SandboxProfile {
    /// The Landlock ruleset; `None` if the kernel has no Landlock.
    pub ruleset: Option<Arc<OwnedFd>>,
    /// The seccomp filter; empty for none.
    pub filter: Arc<Vec<Instruction>>,
    /// The namespaces to enter.
    pub namespaces: NamespaceChoice,
    /// The mount namespace with the view of the files. Requires existing namespaces.
    pub view: Option<Arc<HeldView>>,
    /// The mounts to make in the process's own copy of that view. Requires existing namespaces.
    pub mounts: Vec<MountStep>,
    /// The caches to mount in that copy before, each where the kernel allows it.
    pub caches: Option<Arc<CacheLayers>>,
}

/// Everything that confines one process: nothing here, the program is started by a wrapper.
#[cfg(not(target_os = "linux"))]
#[derive(Debug, Clone)]
pub struct SandboxProfile {}

/// The parts of a profile that differ for a command with the whole network.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct WholeNetwork {
    namespaces: NamespaceChoice,
    filter: Option<Arc<Vec<Instruction>>>,
}

/// The number of views that are held; a view is made again when its conversation goes on.
#[cfg(target_os = "linux")]
const MAX_HELD_VIEWS: usize = 8;

#[cfg(target_os = "linux")]
#[derive(Debug)]
struct CachedView {
    /// The conversation's folder for temporary files.
    temp: PathBuf,
    signature: ViewSignature,
    contents: Arc<ViewContents>,
    view: Arc<HeldView>,
}

#[cfg(target_os = "linux")]
impl SandboxProfile {
    /// Creates a profile without confinement except for these namespaces and mounts, for the process that makes them.
    pub fn for_making(namespaces: NamespaceChoice, mounts: Vec<MountStep>) -> Self {
        Self {
            ruleset: None,
            filter: Arc::default(),
            namespaces,
            view: None,
            mounts,
            caches: None,
        }
    }

    /// Returns the descriptors by which a process takes this profile on.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let view = self.view.iter().flat_map(|view| view.descriptors());
        let others = self.ruleset.as_deref().into_iter().chain(view);
        self.namespaces.descriptors().chain(others).map(AsFd::as_fd)
    }
}

/// Builds sandbox profiles by the rules, and holds the views of the files.
#[derive(Debug)]
pub struct ProfileBuilder {
    rules: SandboxRules,
    #[cfg(target_os = "linux")]
    namespaces: OnceLock<Option<Arc<NamespaceSet>>>,
    #[cfg(target_os = "linux")]
    filter: OnceLock<Option<Arc<Vec<Instruction>>>>,
    /// The namespaces and the filter of a command that a person allowed the whole network.
    #[cfg(target_os = "linux")]
    whole_network: OnceLock<WholeNetwork>,
    /// Known later than the rules.
    #[cfg(target_os = "linux")]
    login_paths: Mutex<LoginPaths>,
    /// The paths whose signature tells whether a view is still right.
    #[cfg(target_os = "linux")]
    signed_paths: Mutex<Option<SignedPaths>>,
    #[cfg(target_os = "linux")]
    views: Mutex<Vec<CachedView>>,
}

impl ProfileBuilder {
    /// Creates a builder for these rules.
    pub fn new(rules: SandboxRules) -> Self {
        Self {
            rules,
            #[cfg(target_os = "linux")]
            namespaces: OnceLock::new(),
            #[cfg(target_os = "linux")]
            filter: OnceLock::new(),
            #[cfg(target_os = "linux")]
            whole_network: OnceLock::new(),
            #[cfg(target_os = "linux")]
            login_paths: Mutex::default(),
            #[cfg(target_os = "linux")]
            signed_paths: Mutex::default(),
            #[cfg(target_os = "linux")]
            views: Mutex::default(),
        }
    }

    /// Returns the rules.
    pub fn rules(&self) -> &SandboxRules {
        &self.rules
    }

    /// Returns the network access of commands: none if they need a loopback of their own and it could not be created.
    #[cfg(target_os = "linux")]
    pub fn network_access(&self) -> NetworkAccess {
        match (self.rules.network, self.namespaces.get()) {
            (asked, Some(None)) if asked.needs_own_loopback() => NetworkAccess::None,
            (asked, _) => asked,
        }
    }

    /// Returns the network access of commands.
    #[cfg(not(target_os = "linux"))]
    pub fn network_access(&self) -> NetworkAccess {
        if cfg!(target_os = "macos") {
            match self.rules.network {
                // There is no namespace in which the proxy could listen.
                NetworkAccess::Ask => NetworkAccess::Loopback,
                set => set,
            }
        } else {
            NetworkAccess::Full
        }
    }
}

#[cfg(target_os = "linux")]
impl ProfileBuilder {
    /// Records the namespaces that profiles enter, or that none could be created. Only the first call counts.
    pub fn set_namespaces(&self, namespaces: Option<NamespaceSet>) {
        // The first value stays, because the filter depends on it.
        let _ = self.namespaces.set(namespaces.map(Arc::new));
    }

    /// Returns the namespaces of commands, if there are any.
    pub fn namespaces(&self) -> Option<Arc<NamespaceSet>> {
        self.namespaces.get().cloned().flatten()
    }

    /// Sets the paths of the login shell: commands may read these from now on.
    pub fn set_login_paths(&self, paths: LoginPaths) {
        *self.login_paths.lock() = paths;
        *self.signed_paths.lock() = None;
    }

    /// Returns the paths of the login shell.
    pub fn login_paths(&self) -> LoginPaths {
        self.login_paths.lock().clone()
    }

    /// Returns the rules with the paths that the login shell's variables and git's settings name.
    pub(super) fn current_rules(&self) -> SandboxRules {
        let (mut rules, added) = (self.rules.clone(), self.login_paths());
        let is_new = |folder: &PathBuf| !self.rules.search_path.contains(folder);
        // A service with folders of its own sees the programs that it was given.
        if rules.own_folder.is_none() {
            rules
                .search_path
                .extend(added.search_path.into_iter().filter(is_new));
        }
        rules.certificates.extend(added.certificates);
        rules.shown.extend(added.java_trust_store);
        let of_git = rules.user_home.as_deref().map(authorities_in_settings);
        rules.certificates.extend(of_git.unwrap_or_default());
        rules
    }

    /// Returns the view that is held for the conversation with this folder for temporary files, or the signature for a
    /// new one. Blocks for some forty system calls.
    pub fn find_view(&self, temp: &Path) -> Result<Arc<HeldView>, ViewSignature> {
        let mut signed = self.signed_paths.lock();
        let views = self.views.lock();
        let find = |signature: &ViewSignature| {
            let mut held = views.iter();
            let found = held.find(|held| {
                let is_seen = |socket: &Path| held.contents.is_foreign_socket(socket);
                held.temp == temp && held.signature.still_holds(signature, is_seen)
            });
            found.map(|held| Arc::clone(&held.view))
        };
        let known = signed.as_ref().map(|paths| paths.take_signature(temp));
        if let Some(view) = known.as_ref().and_then(find) {
            return Ok(view);
        }
        // Where something has changed, more paths may count now, such as those of a new version of a toolchain.
        let paths = SignedPaths::from_rules(&self.current_rules());
        let signature = paths.take_signature(temp);
        *signed = Some(paths);
        find(&signature).ok_or(signature)
    }

    /// Plans a view for the conversation with this folder for temporary files; one that is also shown a path is for one
    /// command. Blocks, and makes the folders that the view needs.
    ///
    /// # Errors
    /// The system's, for a folder that cannot be made.
    pub fn plan_view(
        &self,
        temp: &Path,
        shown: Option<&Path>,
        caches: &[CommandCache],
    ) -> io::Result<ViewPlan> {
        ViewPlan::new(&self.current_rules(), temp, shown, caches)
    }

    /// Completes a view from its mount namespace and the covered folders in it. Holds it if it has a signature.
    ///
    /// # Errors
    /// The kernel's, for a ruleset that it should support.
    pub fn hold_view(
        &self,
        temp: &Path,
        plan: &ViewPlan,
        mounts: OwnedFd,
        covered: Vec<OwnedFd>,
        signature: Option<ViewSignature>,
    ) -> io::Result<Arc<HeldView>> {
        let grants = compute_view_grants(&self.current_rules(), plan);
        let ruleset = create_ruleset(&grants, covered, self.network_access())?;
        let view = Arc::new(HeldView {
            mounts,
            shared_caches: plan.shared_caches.clone(),
            ruleset,
        });
        if let Some(signature) = signature {
            let mut views = self.views.lock();
            views.retain(|held| held.temp != temp);
            if views.len() == MAX_HELD_VIEWS {
                views.remove(0);
            }
            let (temp, view) = (temp.to_owned(), Arc::clone(&view));
            views.push(CachedView {
                temp,
                signature,
                contents: Arc::clone(&plan.contents),
                view,
            });
        }
        Ok(view)
    }

    /// Releases the views that are held, and their descriptors. They are made again when their conversations go on.
    pub fn release_views(&self) {
        self.views.lock().clear();
    }

    /// Builds the profile for a process that starts now in this view.
    ///
    /// # Errors
    /// There is no filter for this processor.
    pub fn build_in(&self, view: Arc<HeldView>) -> io::Result<SandboxProfile> {
        let mut profile = self.profile_with(view.ruleset.clone())?;
        profile.view = Some(view);
        Ok(profile)
    }

    /// Builds the profile for a process that starts now without a view: it sees the system and the home without the
    /// hidden paths, and may read `shown`.
    ///
    /// # Errors
    /// The kernel's error for a ruleset that it should support, or a hidden path that cannot be resolved.
    pub fn build_without_view(
        &self,
        shown: Option<&Path>,
        network: NetworkAccess,
    ) -> io::Result<SandboxProfile> {
        let mut rules = self.current_rules();
        rules.shown.extend(shown.map(Path::to_owned));
        let grants = compute_grants(&rules)?;
        self.profile_with(create_ruleset(&grants, Vec::new(), network)?)
    }

    /// Changes the profile for a process that a person allowed the whole network. Its view must not come from a
    /// setting without any network, whose ruleset shuts TCP.
    ///
    /// # Errors
    /// There is no filter for this processor, or no descriptor is free.
    pub fn allow_whole_network(&self, profile: &mut SandboxProfile) -> io::Result<()> {
        let whole = if let Some(whole) = self.whole_network.get() {
            whole
        } else {
            let made = WholeNetwork {
                namespaces: match self.namespaces() {
                    Some(set) => NamespaceChoice::Existing(Arc::new(set.without_network()?)),
                    None => NamespaceChoice::Inherited,
                },
                filter: self.build_filter(NetworkAccess::Full),
            };
            self.whole_network.get_or_init(|| made)
        };
        profile.namespaces = whole.namespaces.clone();
        profile.filter = whole.filter.clone().ok_or_else(no_filter_error)?;
        Ok(())
    }

    fn build_filter(&self, network: NetworkAccess) -> Option<Arc<Vec<Instruction>>> {
        let elsewhere = OtherRestrictions {
            blocks_truncation: super::ruleset::can_block_truncation(),
            has_ipc_namespace: self.namespaces().is_some_and(|set| set.ipc.is_some()),
        };
        super::seccomp::build_filter(network, elsewhere).map(Arc::new)
    }

    /// Builds the profile for the self-test without a view, which measures enforcement even if hidden paths cannot be
    /// resolved.
    ///
    /// # Errors
    /// As [`ProfileBuilder::build_without_view`].
    pub fn build_self_test(&self) -> io::Result<SandboxProfile> {
        let grants = compute_self_test_grants(&self.rules);
        self.profile_with(create_ruleset(&grants, Vec::new(), self.network_access())?)
    }

    fn profile_with(&self, ruleset: Option<Arc<OwnedFd>>) -> io::Result<SandboxProfile> {
        let namespaces = self.namespaces();
        let filter = self
            .filter
            .get_or_init(|| self.build_filter(self.network_access()));
        let filter = filter.as_ref().ok_or_else(no_filter_error)?;
        let namespaces = namespaces.map_or(NamespaceChoice::Inherited, NamespaceChoice::Existing);
        Ok(SandboxProfile {
            ruleset,
            filter: Arc::clone(filter),
            namespaces,
            view: None,
            mounts: Vec::new(),
            caches: None,
        })
    }
}

#[cfg(target_os = "linux")]
fn no_filter_error() -> io::Error {
    let text = "there is no filter of system calls for this processor";
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// Creates a ruleset; `None` if the kernel has no Landlock. `shown` are open folders that may be read.
#[cfg(target_os = "linux")]
fn create_ruleset(
    grants: &[PathGrant],
    shown: Vec<OwnedFd>,
    network: NetworkAccess,
) -> io::Result<Option<Arc<OwnedFd>>> {
    let shuts_tcp = network == NetworkAccess::None;
    let made = super::ruleset::create_ruleset(grants, shown, shuts_tcp);
    Ok(made.map_err(super::ruleset::as_io_error)?.map(Arc::new))
}
