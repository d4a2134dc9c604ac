//! The rules of a sandbox, as the owner and this machine determine them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::level::NetworkAccess;

pub use punie_core::owner_choices::WorkspaceAccess;

/// The resolved targets of hidden paths, cached as long as the rules exist, because a path may become inaccessible
/// later. An entry without targets was resolved and led nowhere else.
#[derive(Debug, Default)]
pub struct ResolvedHiddenPaths(pub(super) Mutex<BTreeMap<PathBuf, BTreeSet<PathBuf>>>);

/// The folders in which commands of this run may write, or were allowed to, whatever session they belong to. Copies share
/// them.
#[derive(Debug, Clone, Default)]
pub struct KnownFolders(Arc<Mutex<BTreeSet<PathBuf>>>);

impl KnownFolders {
    /// Adds folders.
    pub fn add_folders(&self, folders: &[PathBuf]) {
        self.0.lock().extend(folders.iter().cloned());
    }

    /// Returns whether a path lies in one of them.
    pub fn have_around(&self, path: &Path) -> bool {
        self.0.lock().iter().any(|folder| path.starts_with(folder))
    }

    pub(super) fn list_folders(&self) -> Vec<PathBuf> {
        self.0.lock().iter().cloned().collect()
    }
}

/// The paths that the variables of the user's login shell name, which are known later than the rules.
#[derive(Debug, Clone, Default)]
pub struct LoginPaths {
    /// The folders of its PATH.
    pub search_path: Vec<PathBuf>,
    /// The files and folders of certificate authorities.
    pub certificates: Vec<PathBuf>,
    /// The trust store of Java machines, if there is one.
    pub java_trust_store: Option<PathBuf>,
}

/// The owner's settings and the paths of this machine that determine the sandbox.
#[derive(Debug, Clone)]
pub struct SandboxRules {
    /// The workspaces.
    pub workspaces: Vec<PathBuf>,
    /// The folders of all sessions: links in them are not trusted, and what of them is no workspace here is hidden.
    pub known_folders: KnownFolders,
    /// The folders of repositories outside of the workspaces, which git uses for working trees in them.
    pub repositories: Vec<PathBuf>,
    /// The access to these and to `write`.
    pub workspace_access: WorkspaceAccess,
    /// The user's home.
    pub user_home: Option<PathBuf>,
    /// The runner's home, which is hidden.
    pub own_home: PathBuf,
    /// The paths in the runner's home that commands may read.
    pub shown: Vec<PathBuf>,
    /// The folder in the runner's home that one service alone writes. It gets no caches of commands then.
    pub own_folder: Option<PathBuf>,
    /// The folder of the named pipes of background commands, which may reopen them.
    pub pipes: PathBuf,
    /// The commands' own folder for temporary files.
    pub temp: PathBuf,
    /// The folder that commands see as the user's home.
    pub command_home: PathBuf,
    /// The folder of what commands write in the caches that they share with the user.
    pub cache_layers: PathBuf,
    /// The folder of the homes and caches of services that share none with commands.
    pub service_homes: PathBuf,
    /// The folder where views are put together.
    pub view_stage: PathBuf,
    /// The search path for programs.
    pub search_path: Vec<PathBuf>,
    /// The files and folders of certificate authorities that the user's variables and git's settings name.
    pub certificates: Vec<PathBuf>,
    /// Additional paths that the owner makes writable.
    pub write: Vec<PathBuf>,
    /// Additional paths that the owner makes readable.
    pub read: Vec<PathBuf>,
    /// Additional paths that the owner hides.
    pub hide: Vec<PathBuf>,
    /// The network access.
    pub network: NetworkAccess,
    /// The ports of the machine's loopback that commands reach from a loopback of their own.
    pub local_ports: Vec<u16>,
    /// The resolved hidden paths, shared by all copies of these rules.
    pub resolved_hidden: Arc<ResolvedHiddenPaths>,
}

impl SandboxRules {
    /// Returns minimal rules: they hide the runner's home, grant a folder for temporary files, and grant nothing else.
    pub fn minimal(own_home: PathBuf, temp: PathBuf) -> Self {
        Self {
            workspaces: Vec::new(),
            repositories: Vec::new(),
            known_folders: KnownFolders::default(),
            workspace_access: WorkspaceAccess::Write,
            user_home: None,
            shown: Vec::new(),
            own_folder: None,
            pipes: own_home.join("pipes"),
            command_home: own_home.join("commands/home"),
            cache_layers: own_home.join("commands/caches"),
            service_homes: own_home.join("commands/services"),
            view_stage: own_home.join("view"),
            search_path: Vec::new(),
            certificates: Vec::new(),
            write: Vec::new(),
            read: Vec::new(),
            hide: Vec::new(),
            network: NetworkAccess::None,
            local_ports: Vec::new(),
            resolved_hidden: Arc::default(),
            own_home,
            temp,
        }
    }

    /// Limits the access to the workspaces and to the additional paths that the owner makes writable.
    #[must_use]
    pub fn with_workspace_access(mut self, access: WorkspaceAccess) -> Self {
        self.workspace_access = access;
        if access == WorkspaceAccess::Hidden {
            let hidden: Vec<PathBuf> = self.writable_paths().cloned().collect();
            self.hide.extend(hidden);
        }
        self
    }

    /// Narrows the rules to the folders of a session, in place of the workspaces, and to the repositories that its git
    /// uses.
    #[must_use]
    pub fn narrowed_to(self, folders: &[PathBuf], repositories: &[PathBuf]) -> Self {
        self.known_folders.add_folders(&self.workspaces);
        self.known_folders.add_folders(folders);
        Self {
            workspaces: folders.to_vec(),
            repositories: repositories.to_vec(),
            ..self
        }
    }

    /// Returns the folders of other sessions, which are hidden.
    pub(super) fn other_folders(&self) -> impl Iterator<Item = PathBuf> {
        let mut known = self.known_folders.list_folders();
        // A folder that lies in what is shown is seen with it.
        let shown = || self.writable_paths().chain(&self.read);
        known.retain(|folder| !shown().any(|own| folder.starts_with(own)));
        known.into_iter()
    }

    /// Leaves a service nothing of the user's home: it reads these paths, writes one folder, and sees an empty one as the
    /// user's home.
    #[must_use]
    pub fn with_own_folders(self, reads: Vec<PathBuf>, writes: PathBuf, home: PathBuf) -> Self {
        Self {
            shown: reads,
            own_folder: Some(writes),
            pipes: home.clone(),
            command_home: home,
            search_path: Vec::new(),
            read: Vec::new(),
            local_ports: Vec::new(),
            ..self.with_workspace_access(WorkspaceAccess::Hidden)
        }
    }

    /// Gives a service caches of its own, in place of those of commands: what it writes there, no command finds.
    #[must_use]
    pub fn with_own_caches(self, service: &str) -> Self {
        let own = self.service_homes.join(service);
        Self {
            command_home: own.join("home"),
            cache_layers: own.join("caches"),
            ..self
        }
    }

    /// Returns the workspaces, and what is writable beside them.
    pub(super) fn writable_paths(&self) -> impl Iterator<Item = &PathBuf> {
        let beside = self.repositories.iter().chain(&self.write);
        self.workspaces.iter().chain(beside)
    }
}
