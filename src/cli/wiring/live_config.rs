//! Applies changes of `config.toml` while the runner runs, and publishes what is in force.
//!
//! The file's stamp is compared before each call, so a change holds for the next call. A watch on the file keeps the
//! published settings true while no call comes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::configured_servers::configured_servers;
use super::confinement_setup::confinement_setup;
use super::in_force::{
    BackendInForce, ConfigFileState, ConfinementInForce, PolicyInForce, SettingInForce,
    SettingsInForce, config_file_hash,
};
use super::permission_rules::{parse_ask_list, parse_caller_rights};
use super::settings::{call_settings, trash_limits};
#[cfg(feature = "signals")]
use super::user_signals::signal_settings;
use super::workspaces::log_missing_folders;
use crate::cli::logging;
use crate::config::{ChangedSetting, Config, FileStamp, ProcessEnvironment};
use punie_engine::runner::{Clock, LiveCallSettings};
use punie_handlers::plugin::PluginHost;
#[cfg(feature = "signals")]
use punie_handlers::user::LiveSignalSettings;
use punie_home::{FolderWatch, Home, InForceFile};
use punie_host::Workspace;
use punie_host::active_rules::ActiveRules;
use punie_host::local::confinement::Confinement;
use punie_host::permission::{CallerLimits, PermissionGate};
use punie_tool::time_limit::run_within_limit;
use punie_tool::{CallLane, ToolRegistry};
use punie_undo::Trash;

/// The time in which a changed file must stay the same, because an editor may still be saving it.
const SETTLE_INTERVAL: Duration = Duration::from_millis(30);
/// The most checks before the file is read as it is.
const MAX_SETTLE_CHECKS: u32 = 10;
/// The longest time that a call waits for the look at the workspaces.
const LONGEST_LOOK: Duration = Duration::from_secs(2);

/// The parts of the runner that use settings which can change.
pub(super) struct LiveParts {
    pub home: Home,
    pub environment: ProcessEnvironment,
    pub confinement: Confinement,
    pub gate: Arc<PermissionGate>,
    pub callers: Arc<CallerLimits>,
    pub registry: Arc<ToolRegistry>,
    pub calls: LiveCallSettings,
    pub trash: Trash,
    pub plugins: PluginHost,
    #[cfg(feature = "signals")]
    pub signal_settings: LiveSignalSettings,
    pub workspace: Workspace,
}

impl LiveParts {
    /// Confines commands by these settings, to the workspaces that are there.
    fn confine_commands(&self, config: &Config) {
        let setup = confinement_setup(config, &self.home, &self.environment, &self.workspace);
        self.confinement.replace_setup(setup);
    }
}

/// The configuration of a running runner. Clones share it.
#[derive(Clone)]
pub struct LiveConfig(Arc<SharedConfig>);

struct SharedConfig {
    parts: LiveParts,
    started_at_ms: i64,
    loaded: Mutex<LoadedConfig>,
    /// The text that was published last.
    published: Mutex<Vec<u8>>,
    /// Notified after the file was read again.
    reloaded: Notify,
    /// Held while the workspaces are looked for: on a disk that does not answer, that may take long.
    updating: Mutex<()>,
    /// A call has waited its time for the look that is under way.
    is_overdue: AtomicBool,
}

struct LoadedConfig {
    /// The stamp of the file that was read last; `None` to read it again.
    stamp: Option<FileStamp>,
    hash: Option<String>,
    in_force: Config,
    error: Option<String>,
    waiting: Vec<ChangedSetting>,
}

impl LiveConfig {
    /// Takes over a configuration that was just loaded, and publishes it.
    pub(super) fn new(config: &Config, parts: LiveParts) -> Self {
        let live = Self(Arc::new(SharedConfig {
            parts,
            started_at_ms: Clock::system().now_ms(),
            loaded: Mutex::new(LoadedConfig {
                stamp: config.loaded_stamp(),
                hash: config_file_hash(&config.file),
                in_force: config.clone(),
                error: None,
                waiting: Vec::new(),
            }),
            published: Mutex::default(),
            reloaded: Notify::new(),
            updating: Mutex::default(),
            is_overdue: AtomicBool::new(false),
        }));
        live.publish_settings();
        live
    }

    /// Returns the configuration in force.
    pub fn current(&self) -> Config {
        self.0.loaded.lock().in_force.clone()
    }

    /// Returns the runner's home.
    pub(super) fn home(&self) -> &Home {
        &self.0.parts.home
    }

    /// Waits for the self-test and describes the confinement of commands.
    pub async fn prove_confinement(&self) -> ConfinementInForce {
        let parts = &self.0.parts;
        parts.confinement.level().await;
        let config = self.current();
        ConfinementInForce::from_confinement(&config, &parts.confinement, &parts.environment)
    }

    /// Returns whether the file has changed since it was read, from its metadata only.
    fn is_file_changed(&self) -> bool {
        // Called on the event loop, so it must not wait for another thread that reads the file.
        let Some(loaded) = self.0.loaded.try_lock() else {
            return true;
        };
        loaded.in_force.read_stamp().ok() != loaded.stamp
    }

    /// Reads the file again if it has changed, and applies it. Blocks for a moment then.
    fn reload_if_changed(&self) {
        let mut loaded = self.0.loaded.lock();
        let mut stamp = loaded.in_force.read_stamp().ok();
        if stamp == loaded.stamp {
            return;
        }
        for _ in 0..MAX_SETTLE_CHECKS {
            std::thread::park_timeout(SETTLE_INTERVAL);
            let before = std::mem::replace(&mut stamp, loaded.in_force.read_stamp().ok());
            if stamp == before {
                break;
            }
        }
        loaded.hash = config_file_hash(&loaded.in_force.file);
        match self.load_changes(&loaded.in_force) {
            Ok((in_force, waiting)) => {
                let applied = loaded.in_force.list_changes(&in_force);
                let applied: Vec<&str> = applied.iter().map(|change| &*change.key).collect();
                let waiting_keys: Vec<&str> = waiting.iter().map(|change| &*change.key).collect();
                if !applied.is_empty() {
                    let settings = applied.join(", ");
                    tracing::info!(settings, "config.toml has changed and is in force");
                }
                if !waiting_keys.is_empty() && waiting != loaded.waiting {
                    let settings = waiting_keys.join(", ");
                    tracing::warn!(
                        settings,
                        "config.toml has changed; these settings need a restart of the runner"
                    );
                }
                (loaded.in_force, loaded.waiting, loaded.error) = (in_force, waiting, None);
            }
            Err(why) => {
                if loaded.error.as_ref() != Some(&why) {
                    tracing::warn!(
                        why,
                        "config.toml has changed and is not in force; the settings read before stay"
                    );
                }
                loaded.error = Some(why);
            }
        }
        loaded.stamp = stamp;
        drop(loaded);
        self.0.reloaded.notify_one();
    }

    /// Applies what has changed since the last call: the file, and the workspaces that are there. Calls that look after
    /// running ones do not wait for a disk, and others do so once.
    pub(super) async fn apply_changes(&self, lane: CallLane) {
        let live = self.clone();
        if live.is_file_changed()
            && let Err(fault) = tokio::task::spawn_blocking(move || live.reload_if_changed()).await
        {
            tracing::error!(%fault, "reading config.toml broke off");
        }
        let shared = &self.0;
        let is_overdue = shared.updating.is_locked() && shared.is_overdue.load(Ordering::Relaxed);
        if lane == CallLane::Control || is_overdue {
            return;
        }
        let live = self.clone();
        let updating = tokio::task::spawn_blocking(move || live.update_workspaces());
        match run_within_limit(LONGEST_LOOK, updating).await {
            Some(Ok(())) => {}
            Some(Err(fault)) => tracing::error!(%fault, "finding the workspaces broke off"),
            None => {
                shared.is_overdue.store(true, Ordering::Relaxed);
                tracing::warn!("finding the workspaces takes long; perhaps a disk hangs");
            }
        }
    }

    pub(super) fn caller_limits(&self) -> &CallerLimits {
        &self.0.parts.callers
    }

    /// Opens the workspaces that are back, and closes those that are gone. Commands get a view of those that are there.
    /// Blocks for some system calls.
    fn update_workspaces(&self) {
        let Some(_only_one) = self.0.updating.try_lock_for(LONGEST_LOOK) else {
            return;
        };
        self.0.is_overdue.store(false, Ordering::Relaxed);
        let parts = &self.0.parts;
        if parts.workspace.open_returned() {
            // The lock is held until the setup is in force, so that it replaces none of a newer file.
            parts.confine_commands(&self.0.loaded.lock().in_force);
            log_missing_folders(&parts.workspace);
        }
    }

    /// Loads the file and applies the settings that need no restart. Returns the configuration that is in force then,
    /// and the settings that wait for a restart.
    fn load_changes(&self, before: &Config) -> Result<(Config, Vec<ChangedSetting>), String> {
        if before.read_stamp().is_ok_and(|stamp| stamp.is_none()) {
            return Err(format!(
                "{} is gone; create it, or an empty file to return to the defaults",
                before.file.display()
            ));
        }
        let newer = before.load_again().map_err(|error| error.to_string())?;
        // A call could change its own limits there.
        if before.is_file_in_reach() {
            let waiting = before.list_changes(&newer);
            return Ok((before.clone(), waiting));
        }
        let parts = &self.0.parts;
        let applied = before.with_live_settings(&newer);
        let asked = parse_ask_list(&applied, &parts.registry).map_err(|error| error.to_string())?;
        let rights = parse_caller_rights(&applied, &parts.registry);
        let rights = rights.map_err(|error| error.to_string())?;
        if applied.sandbox != before.sandbox {
            parts.confine_commands(&applied);
        }
        parts.gate.set_asked_calls(asked);
        parts.callers.set_rights(rights);
        parts
            .calls
            .replace(call_settings(&applied, parts.calls.current()));
        parts.trash.set_limits(trash_limits(&applied));
        parts.plugins.set_configured(configured_servers(&applied));
        #[cfg(feature = "signals")]
        parts
            .signal_settings
            .replace(signal_settings(&applied, &parts.home, &parts.environment));
        logging::set_log_level(applied.log.level);
        let waiting = applied.list_changes(&newer);
        Ok((applied, waiting))
    }

    /// Publishes the settings in force, if they differ from the published ones.
    fn publish_settings(&self) {
        let shared = &self.0;
        let settings = self.describe_settings();
        let Ok(text) = serde_json::to_vec(&settings) else {
            return;
        };
        let mut published = shared.published.lock();
        if *published == text {
            return;
        }
        match InForceFile::in_home(&shared.parts.home).write_text(&text) {
            Ok(()) => *published = text,
            Err(error) => {
                tracing::warn!(%error, "`status` cannot be told what is in force");
            }
        }
    }

    fn describe_settings(&self) -> SettingsInForce {
        let parts = &self.0.parts;
        let rules = parts.gate.policy_rules().map(ActiveRules::current_rules);
        let loaded = self.0.loaded.lock();
        let config = &loaded.in_force;
        SettingsInForce {
            pid: std::process::id(),
            started_at_ms: self.0.started_at_ms,
            version: crate::config::optional_parts::version().to_owned(),
            backend: BackendInForce {
                kind: config.backend.kind.as_str().to_owned(),
                url: config.backend.url.as_ref().map(ToString::to_string),
            },
            workspaces: config
                .workspaces
                .iter()
                .map(|path| path.display().to_string())
                .collect(),
            request_auth: match config.backend.request_key {
                Some(_) => "signed",
                None => "transport",
            }
            .to_owned(),
            ask: config.policy.ask.clone(),
            policy: PolicyInForce::from_rules(&rules.unwrap_or_default()),
            confinement: ConfinementInForce::from_confinement(
                config,
                &parts.confinement,
                &parts.environment,
            ),
            settings: config
                .all_settings()
                .iter()
                .map(|setting| SettingInForce {
                    key: setting.key.to_owned(),
                    value: setting.value.clone(),
                    origin: setting.origin.to_string(),
                })
                .collect(),
            config: ConfigFileState {
                file: config.file.display().to_string(),
                hash: loaded.hash.clone(),
                error: loaded.error.clone(),
                waiting: loaded.waiting.clone(),
            },
        }
    }

    /// Keeps the published settings true until it is dropped.
    pub(super) async fn keep_published(self) {
        let changed = Arc::new(Notify::new());
        let _watcher = self.watch_files(&changed);
        loop {
            let live = self.clone();
            let read = tokio::task::spawn_blocking(move || live.reload_if_changed()).await;
            // The level and the caches are only known then.
            self.0.parts.confinement.prepare_commands().await;
            let live = self.clone();
            let written = tokio::task::spawn_blocking(move || live.publish_settings()).await;
            if let Err(fault) = read.and(written) {
                tracing::error!(%fault, "reading config.toml broke off");
            }
            tokio::select! {
                () = changed.notified() => {}
                () = self.0.reloaded.notified() => {}
            }
        }
    }

    /// Watches config.toml and policy.toml; `None` if the system cannot.
    fn watch_files(&self, changed: &Arc<Notify>) -> Option<FolderWatch> {
        let config = self.current().file;
        let files = [config, self.0.parts.home.policy_file()];
        let folders: BTreeSet<PathBuf> = files
            .iter()
            .filter_map(|file| file.parent().map(Path::to_owned))
            .collect();
        let changed = Arc::clone(changed);
        let watch = FolderWatch::new(move |event| {
            let is_ours = |path: &PathBuf| {
                files
                    .iter()
                    .any(|file| file.file_name() == path.file_name())
            };
            // Reading is no change, because it would trigger another event.
            if event.is_none_or(|event| !event.kind.is_access() && event.paths.iter().any(is_ours))
            {
                changed.notify_one();
            }
        });
        folders
            .iter()
            .try_for_each(|folder| watch.watch(folder))
            .inspect_err(|error| {
                tracing::warn!(%error, "changes of config.toml are only noticed at the next call");
            })
            .ok()
            .map(|()| watch)
    }
}
