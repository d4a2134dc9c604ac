//! The confinement that one set of the owner's settings leads to: the self-test runs once for it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::OnceCell;

#[cfg(unix)]
use super::super::protected_path_guard::ProtectedPathGuard;
use super::{Confinement, ConfinementSetup};
use crate::network_proxy::NetworkProxy;
#[cfg(unix)]
use punie_sandbox::find_program_prefix;
use punie_sandbox::{ConfinementLevel, ProfileBuilder};
use punie_tool::{ErrorCode, ResultMeta, ToolError};

/// The most confinements of sessions that are held: each has namespaces of its own.
const MAX_NARROWED: usize = 64;

/// The confinement by one set of settings.
pub(super) struct ConfinementState {
    pub(super) setup: ConfinementSetup,
    pub(super) profiles: ProfileBuilder,
    pub(super) proxy: NetworkProxy,
    pub(super) proven: OnceCell<ConfinementLevel>,
    #[cfg(unix)]
    pub(super) guard: ProtectedPathGuard,
    /// Starts the processes that make views, if commands have views of the files.
    #[cfg(target_os = "linux")]
    pub(super) view_spawner: std::sync::OnceLock<super::super::child_process::ProcessSpawner>,
    #[cfg(target_os = "linux")]
    pub(super) caches: Arc<super::cache_mounts::CacheMounts>,
    /// The confinements of sessions, by their folders.
    pub(super) narrowed: parking_lot::Mutex<HashMap<Vec<PathBuf>, Confinement>>,
    /// The repositories outside of their folders that the git of sessions uses, by the folders.
    pub(super) session_repositories: Arc<parking_lot::Mutex<HashMap<Vec<PathBuf>, Vec<PathBuf>>>>,
    /// Passes connections on to the local ports.
    #[cfg(target_os = "linux")]
    pub(super) forwarding: parking_lot::Mutex<tokio::task::JoinSet<()>>,
}

impl ConfinementState {
    /// Creates the state. Tests nothing yet.
    pub(super) fn new(setup: ConfinementSetup, proxy: NetworkProxy) -> Self {
        Self {
            profiles: ProfileBuilder::new(setup.rules.clone()),
            proxy,
            proven: OnceCell::new(),
            #[cfg(unix)]
            guard: ProtectedPathGuard::new(setup.rules.clone()),
            #[cfg(target_os = "linux")]
            view_spawner: std::sync::OnceLock::new(),
            #[cfg(target_os = "linux")]
            caches: Arc::default(),
            #[cfg(target_os = "linux")]
            forwarding: parking_lot::Mutex::default(),
            narrowed: parking_lot::Mutex::default(),
            session_repositories: Arc::default(),
            setup,
        }
    }

    /// Returns the confinement of commands that are narrowed to these folders, which is tested when it is first used.
    pub(super) fn narrowed_to(&self, folders: &[PathBuf]) -> Confinement {
        let mut narrowed = self.narrowed.lock();
        if let Some(known) = narrowed.get(folders) {
            return known.clone();
        }
        let repositories = self.session_repositories.lock().get(folders).cloned();
        let mut setup = self.setup.clone();
        setup.rules = setup
            .rules
            .narrowed_to(folders, &repositories.unwrap_or_default());
        let confinement = Confinement::from_state(self.with_setup(setup));
        if narrowed.len() >= MAX_NARROWED {
            narrowed.clear();
        }
        narrowed.insert(folders.to_vec(), confinement.clone());
        confinement
    }

    /// Sets the repositories that git uses in commands that are narrowed to these folders.
    pub(super) fn set_session_repositories(&self, folders: &[PathBuf], repositories: Vec<PathBuf>) {
        let mut known = self.session_repositories.lock();
        if known.get(folders).map_or(&[][..], Vec::as_slice) == repositories {
            return;
        }
        known.insert(folders.to_vec(), repositories);
        drop(known);
        self.narrowed.lock().remove(folders);
    }

    /// Creates a state with other settings. What was learnt of this machine, and of sessions, is kept.
    pub(super) fn with_setup(&self, mut setup: ConfinementSetup) -> Self {
        // A hidden path may have become inaccessible since it was resolved.
        setup.rules.resolved_hidden = Arc::clone(&self.setup.rules.resolved_hidden);
        setup.rules.known_folders = self.setup.rules.known_folders.clone();
        #[cfg(unix)]
        let guard = self.guard.with_rules(setup.rules.clone());
        let state = Self {
            #[cfg(unix)]
            guard,
            session_repositories: Arc::clone(&self.session_repositories),
            #[cfg(target_os = "linux")]
            caches: Arc::clone(&self.caches),
            ..Self::new(setup, self.proxy.clone())
        };
        #[cfg(target_os = "linux")]
        state.profiles.set_login_paths(self.profiles.login_paths());
        state
    }

    /// Returns the paths in the user's home that these programs need.
    #[cfg(unix)]
    pub(super) fn program_prefixes(&self, programs: &[String]) -> Vec<PathBuf> {
        let rules = &self.setup.rules;
        #[cfg(target_os = "linux")]
        let mut search_path = self.profiles.login_paths().search_path;
        #[cfg(not(target_os = "linux"))]
        let mut search_path = Vec::new();
        search_path.extend(rules.search_path.iter().cloned());
        let Some(home) = &rules.user_home else {
            return Vec::new();
        };
        programs
            .iter()
            .flat_map(|program| find_program_prefix(program, &search_path, home))
            .collect()
    }

    /// Returns the level. The first caller waits for the self-test.
    pub(super) async fn prove_level_once(self: &Arc<Self>) -> ConfinementLevel {
        let level = self.proven.get_or_init(|| async {
            let level = if self.setup.confine {
                prove_level(self).await
            } else {
                ConfinementLevel::None
            };
            let network = self.profiles.network_access().as_str();
            if level == ConfinementLevel::Full {
                tracing::debug!(level = %level, network, "the confinement of commands is known");
            } else {
                tracing::warn!(level = %level, network, "commands are not confined in full");
            }
            level
        });
        level.await.clone()
    }

    /// Rejects a command that would run with less confinement than the owner requires.
    pub(super) async fn check_required_level(self: &Arc<Self>) -> Result<(), ToolError> {
        let level = self.prove_level_once().await;
        let required = self.setup.require;
        if level.meets_requirement(required) {
            return Ok(());
        }
        let why = match (&level, self.setup.confine) {
            (_, false) => " because confine = false is set".to_owned(),
            (ConfinementLevel::Partial(_), _) => ": what is named there gets through".to_owned(),
            _ => ": the system enforces nothing of it".to_owned(),
        };
        let text = format!(
            "Nothing was run. The owner requires confinement \"{}\" for what runs programs, and it is {level} here{why}. \
             The owner can allow it as it is: require = \"{}\" under [sandbox] in config.toml. It takes effect at \
             once. Tools that read or edit \
             files work on.",
            required.as_str(),
            level.strictest_requirement().as_str(),
        );
        let meta = ResultMeta {
            rule: Some("sandbox.require".to_owned()),
            ..ResultMeta::default()
        };
        Err(ToolError::new(ErrorCode::PolicyDenied, text).with_meta(meta))
    }
}

/// Runs the self-test and returns the level that it proves.
async fn prove_level(shared: &Arc<ConfinementState>) -> ConfinementLevel {
    match run_self_test(shared).await {
        Ok(Some(level)) => level,
        Ok(None) => {
            tracing::warn!("the self-test of confinement did not get to its end");
            ConfinementLevel::None
        }
        Err(cause) => {
            tracing::warn!(%cause, "commands cannot be confined");
            ConfinementLevel::None
        }
    }
}

#[cfg(target_os = "linux")]
use super::linux_confinement::run_self_test;
#[cfg(target_os = "macos")]
use super::wrapper_confinement::run_self_test;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
async fn run_self_test(
    _shared: &Arc<ConfinementState>,
) -> std::io::Result<Option<ConfinementLevel>> {
    Ok(Some(ConfinementLevel::None))
}
