//! The confinement of this machine's processes: tested once in a run of the runner, then applied to every command.
//! Not here: the permitted access (sandbox), and entering the confinement (launch).

#[cfg(unix)]
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;

#[cfg(unix)]
use super::protected_path_records::ProtectedPathRecords;
#[cfg(unix)]
use super::protected_path_watch::ProtectedPathWatch;
use crate::network_proxy::NetworkProxy;
use punie_sandbox::{ConfinementLevel, NetworkAccess, RequiredLevel, SandboxRules, hint};
use punie_tool::{ErrorCode, ToolError};

/// The confinement of commands. Clones share it; the default confines nothing and requires nothing.
#[derive(Clone, Default)]
pub struct Confinement {
    shared: Option<Arc<RwLock<Arc<ConfinementState>>>>,
    proxy: NetworkProxy,
}

impl std::fmt::Debug for Confinement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Confinement")
            .field("level", &self.level_text())
            .finish_non_exhaustive()
    }
}

/// The owner's settings for confinement, and the folder for its test.
#[derive(Debug, Clone)]
pub struct ConfinementSetup {
    /// The access that commands have.
    pub rules: SandboxRules,
    /// The lowest level at which commands may run.
    pub require: RequiredLevel,
    /// Turns confinement of commands on.
    pub confine: bool,
    /// Allows opening applications, which run unconfined.
    pub apps: bool,
    /// The folder for self-tests, hidden from commands.
    pub self_test: PathBuf,
    /// The file for the trust store of Java machines in commands.
    pub java_trust_store: PathBuf,
}

impl Confinement {
    /// Creates the confinement from the owner's settings. Tests nothing yet.
    pub fn new(setup: ConfinementSetup) -> Self {
        let proxy = NetworkProxy::default();
        Self::from_state(ConfinementState::new(setup, proxy))
    }

    fn from_state(state: ConfinementState) -> Self {
        Self {
            proxy: state.proxy.clone(),
            shared: Some(Arc::new(RwLock::new(Arc::new(state)))),
        }
    }

    /// Returns the confinement of commands that see no other workspaces than these folders.
    #[must_use]
    pub fn narrowed_to(&self, folders: &[PathBuf]) -> Self {
        match self.state() {
            Some(state) if state.setup.rules.workspaces != folders => state.narrowed_to(folders),
            _ => self.clone(),
        }
    }

    /// Returns whether a path lies in a folder in which calls of some session may write.
    pub fn knows_folder_around(&self, path: &Path) -> bool {
        let state = self.state();
        state.is_some_and(|state| state.setup.rules.known_folders.have_around(path))
    }

    /// Returns the proxy through which commands reach other hosts with `network = "ask"`.
    pub fn network_proxy(&self) -> &NetworkProxy {
        &self.proxy
    }

    /// Returns why a command cannot be given the runner's own network, or `None` if a person may allow it.
    pub fn whole_network_denial(&self) -> Option<String> {
        let network = self.state()?.setup.rules.network;
        let is_possible = matches!(network, NetworkAccess::Ask | NetworkAccess::Full);
        (!is_possible).then(|| {
            format!(
                "the owner set network = \"{0}\" under [sandbox] in config.toml, which \"network\": true does not \
                 lift. Leave it out, or ask the owner for network = \"ask\"",
                network.as_str()
            )
        })
    }

    /// Replaces the owner's settings for the processes that start from now on, which are tested again. Those that run
    /// keep their confinement. Does nothing where nothing can be confined.
    pub fn replace_setup(&self, setup: ConfinementSetup) {
        self.update_setup(|current| {
            let repositories = std::mem::take(&mut current.rules.repositories);
            *current = setup;
            current.rules.repositories = repositories;
        });
    }

    /// Changes the settings in force. The lock is held meanwhile, so that of two changes none is lost.
    fn update_setup(&self, change: impl FnOnce(&mut ConfinementSetup)) {
        if let Some(shared) = &self.shared {
            let mut state = shared.write();
            let mut setup = state.setup.clone();
            change(&mut setup);
            *state = Arc::new(state.with_setup(setup));
        }
    }

    /// Returns the state in force. One operation uses one state, so that a change cannot mix two.
    fn state(&self) -> Option<Arc<ConfinementState>> {
        self.shared
            .as_ref()
            .map(|shared| Arc::clone(&shared.read()))
    }

    /// Returns the level at which commands are confined. The first caller waits for the self-test, some tens of
    /// milliseconds.
    pub async fn level(&self) -> ConfinementLevel {
        match self.state() {
            Some(state) => state.prove_level_once().await,
            None => ConfinementLevel::None,
        }
    }

    /// Returns the level; `None` until the self-test has run.
    pub fn proven_level(&self) -> Option<ConfinementLevel> {
        match self.state() {
            None => Some(ConfinementLevel::None),
            Some(shared) => shared.proven.get().cloned(),
        }
    }

    /// Returns the level as text for results and heartbeats: `unproven` until the self-test has run.
    pub fn level_text(&self) -> String {
        let proven = self.proven_level();
        proven.map_or_else(|| "unproven".to_owned(), |level| level.to_string())
    }

    /// Rejects a command that would run with less confinement than the owner requires.
    ///
    /// # Errors
    /// `policy_denied`, with the setting that would allow it.
    pub async fn check_required_level(&self) -> Result<(), ToolError> {
        match self.state() {
            Some(state) => state.check_required_level().await,
            None => Ok(()),
        }
    }

    /// Rejects opening applications, which run unconfined with any arguments, unless the owner allows it.
    ///
    /// # Errors
    /// `policy_denied`, with the setting that would allow it.
    pub fn check_app_allowed(&self) -> Result<(), ToolError> {
        match self.state() {
            Some(shared) if !shared.setup.apps && shared.setup.require != RequiredLevel::None => {
                let text = "Nothing was opened. An application runs unconfined and with any arguments, so that opening \
                            one would undo the confinement of commands. The owner can allow it: apps = true under \
                            [sandbox] in config.toml. Then restart the runner.";
                Err(ToolError::new(ErrorCode::PolicyDenied, text))
            }
            _ => Ok(()),
        }
    }

    /// Limits the retries of package managers if commands have no network: npm waits 70 s before it gives up.
    #[cfg(unix)]
    pub(super) fn limit_network_retries(&self, env: &mut BTreeMap<String, String>) {
        if self.effective_network() == NetworkAccess::Full {
            return;
        }
        // pip names the cause only when it retries.
        let times = [
            ("npm_config_fetch_retries", "0"),
            ("PIP_RETRIES", "1"),
            ("CARGO_NET_RETRY", "0"),
            ("YARN_HTTP_RETRY", "0"),
        ];
        for (name, times) in times {
            env.entry(name.to_owned())
                .or_insert_with(|| times.to_owned());
        }
    }

    /// Starts watching the protected paths that concern a command in this folder. `None` if nothing is confined.
    #[cfg(unix)]
    pub(super) async fn watch_protected_paths(&self, cwd: &Path) -> Option<ProtectedPathWatch> {
        let shared = self.state().filter(|shared| shared.setup.confine)?;
        let cwd = cwd.to_owned();
        let level = shared.prove_level_once().await;
        tokio::task::spawn_blocking(move || {
            ProtectedPathWatch::start(&shared.guard, &cwd, level.protects_paths())
        })
        .await
        .ok()
    }

    /// Watches the protected paths for a command that an earlier runner started.
    #[cfg(unix)]
    pub(super) fn watch_adopted_command(&self) -> Option<ProtectedPathWatch> {
        let shared = self.state().filter(|shared| shared.setup.confine)?;
        Some(ProtectedPathWatch::start(
            &shared.guard,
            Path::new("/"),
            false,
        ))
    }

    /// Sets the trash for changed protected paths, and the notices to the owner.
    #[cfg(unix)]
    pub fn set_protected_path_records(&self, records: Arc<dyn ProtectedPathRecords>) {
        if let Some(shared) = self.state() {
            shared.guard.set_records(records);
        }
    }

    /// Returns whether commands see the workspaces' protected paths read-only. False if changes are only detected
    /// afterwards, and until the self-test has run.
    pub fn has_read_only_protection(&self) -> bool {
        self.state().is_some_and(|shared| {
            shared
                .proven
                .get()
                .is_some_and(ConfinementLevel::protects_paths)
        })
    }

    /// Returns whether the processes of each command are counted apart and limited. False until the self-test has run.
    pub fn limits_processes(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self
            .state()
            .is_some_and(|shared| shared.profiles.namespaces().is_some())
            && punie_sandbox::process_limit::uncounted_reason().is_none();
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Returns why commands must not run unconfined, as in an editor's terminal, or `None` if the owner allows it.
    pub fn local_only_reason(&self) -> Option<String> {
        let required = self.state()?.setup.require;
        (required != RequiredLevel::None).then(|| {
            format!(
                "nothing confines commands there, and the owner requires confinement \"{}\". The owner can allow it: \
                 require = \"none\" under [sandbox] in config.toml. It takes effect at once",
                required.as_str()
            )
        })
    }

    /// Describes the rules for commands in one or two sentences for the model: the owner's settings before the
    /// self-test, then the rules in force.
    pub fn describe_rules(&self) -> String {
        const UNCONFINED: &str = "Nothing confines commands on this device.";
        let shared = self.state().filter(|shared| shared.setup.confine);
        let Some(shared) =
            shared.filter(|shared| shared.proven.get() != Some(&ConfinementLevel::None))
        else {
            return UNCONFINED.to_owned();
        };
        let reach = match shared.profiles.network_access() {
            NetworkAccess::Full => "the network is open",
            NetworkAccess::Loopback => "no network but between themselves",
            NetworkAccess::Ask => {
                "other hosts only through the proxy in HTTPS_PROXY, which asks the owner about each host"
            }
            NetworkAccess::None => "no network",
        };
        let ask = match shared.profiles.network_access() {
            NetworkAccess::Full => "",
            NetworkAccess::Ask => {
                " (what cannot use a proxy, such as ssh, needs \"network\": true in Bash: the owner is asked then)"
            }
            NetworkAccess::None | NetworkAccess::Loopback => {
                " (the owner opens it by network = \"full\" under [sandbox] in config.toml)"
            }
        };
        let rules = &shared.setup.rules;
        let added = rules
            .write
            .iter()
            .filter(|folder| !folder.starts_with(&rules.own_home))
            .chain(&rules.repositories);
        let folders: Vec<String> = added.map(|folder| folder.display().to_string()).collect();
        let also = if folders.is_empty() {
            String::new()
        } else {
            format!(", and in {}", folders.join(", "))
        };
        let home = if self.has_view() {
            " Of the home they see toolchains and caches of their own only."
        } else {
            ""
        };
        format!("Commands may write only in the workspaces and $TMPDIR{also}; {reach}{ask}.{home}")
    }

    /// Returns a hint for the output of a command that confinement may have made fail.
    pub fn output_hint(&self, output: &str, failed: bool) -> Option<String> {
        let shared = self.state()?;
        if *shared.proven.get()? == ConfinementLevel::None {
            return None;
        }
        let network = shared.profiles.network_access();
        if self.limits_processes() && hint::tells_process_limit(output) {
            return Some(hint::PROCESS_LIMIT.to_owned());
        }
        let rules = &shared.setup.rules;
        hidden_repository_hint(rules, output).or_else(|| {
            if failed {
                hint::hint_after_failure(rules, network, output)
            } else {
                hint::hint_after_success(rules, network, output)
            }
        })
    }

    /// Returns the network access of commands, as far as it is known.
    pub fn effective_network(&self) -> NetworkAccess {
        match self.state() {
            Some(shared) if shared.proven.get() != Some(&ConfinementLevel::None) => {
                shared.profiles.network_access()
            }
            _ => NetworkAccess::Full,
        }
    }
}

mod confinement_state;
#[cfg(unix)]
mod service_confinement;
use confinement_state::ConfinementState;

#[cfg(all(unix, any(target_os = "macos", test)))]
mod wrapper_confinement;

mod repositories;
use repositories::hidden_repository_hint;

mod temp_folders;

mod command_caches;
pub use command_caches::{CachesInUse, EmptyCache};

#[cfg(target_os = "linux")]
mod cache_mounts;
#[cfg(target_os = "linux")]
mod linux_confinement;
#[cfg(target_os = "linux")]
mod namespace_maker;
#[cfg(target_os = "linux")]
pub(super) use linux_confinement::ConfinedProcess;

#[cfg(not(target_os = "linux"))]
mod confinement_elsewhere;
