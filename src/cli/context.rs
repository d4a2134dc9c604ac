//! The context of every command: its flags, the environment, and the configuration and home derived from them.

use std::ffi::OsString;
use std::path::PathBuf;

use super::exit::{CommandError, Exit};
use super::wiring::SettingsInForce;
use super::{caller_client::CallerClient, console, logging, wiring};
use crate::config::{
    BackendKind, BackendUrl, Config, ConfigError, GlobalFlags, LogFormat, ProcessEnvironment,
    ValueOrigin, WorkspaceRule,
};
use punie_core::ids::DeviceId;
use punie_home::{
    BackendTokens, DeviceIdentity, EmbeddedBackendAddress, GivenFlags, Home, RunnerLock, TokenName,
    change_hint_flags,
};

/// The flags and the environment of this command.
pub struct CliContext {
    flags: GlobalFlags,
    environment: ProcessEnvironment,
}

impl CliContext {
    pub(super) fn new(flags: GlobalFlags, environment: ProcessEnvironment) -> Self {
        change_hint_flags(|hints| {
            *hints = GivenFlags {
                home: flags.home.clone(),
                config: flags.config.clone(),
                backend_url: flags.backend_url.clone(),
                workspaces: flags.workspaces.clone(),
            };
        });
        Self { flags, environment }
    }

    /// Returns a copy with changed flags, for commands that run another one in their own folder.
    pub fn with_flags(&self, change: impl FnOnce(&mut GlobalFlags)) -> Self {
        let mut flags = self.flags.clone();
        change(&mut flags);
        Self {
            flags,
            environment: self.environment.clone(),
        }
    }

    /// Returns a copy for the embedded backend at this address, instead of the configured one.
    pub fn with_embedded_backend(&self, url: &str) -> Self {
        self.with_flags(|flags| {
            flags.backend_url = Some(url.to_owned());
            flags.backend_kind = Some(BackendKind::Convex);
        })
    }

    /// Returns the environment, captured once.
    pub fn environment(&self) -> &ProcessEnvironment {
        &self.environment
    }

    /// Returns whether stdout carries JSON.
    pub fn is_json(&self) -> bool {
        self.flags.json
    }

    /// Loads the configuration in force and starts logging.
    pub fn effective_config(&self, workspaces: WorkspaceRule) -> anyhow::Result<Config> {
        self.load_with_logging(workspaces, |_| None)
    }

    /// Loads the configuration in force, and opens its home.
    pub fn config_and_home(&self, workspaces: WorkspaceRule) -> anyhow::Result<(Config, Home)> {
        let config = self.effective_config(workspaces)?;
        let home = Self::config_home(&config)?;
        Ok((config, home))
    }

    /// Loads the configuration of a caller, and opens its home. Where the command names no backend, it is the
    /// embedded one that serves in this home, if there is one.
    pub fn caller_config(&self) -> anyhow::Result<(Config, Home)> {
        let (mut config, home) = self.config_beside_runner(WorkspaceRule::NotNeeded)?;
        if !self.names_backend()
            && let Some(url) = EmbeddedBackendAddress::find(&home)?
        {
            config.set_embedded_backend(&url);
        }
        Ok((config, home))
    }

    /// Returns whether this command names a backend: by a flag, or by the variable unless a flag names a home.
    pub fn names_backend(&self) -> bool {
        let has_variable = self.environment.get("PUNIE_BACKEND_URL").is_some();
        self.flags.backend_url.is_some() || (has_variable && self.flags.home.is_none())
    }

    /// Returns whether this command names a device, or a backend that leads to one.
    pub fn names_device(&self) -> bool {
        let has_variable = self.environment.get("PUNIE_DEVICE").is_some();
        self.flags.device.is_some() || has_variable || self.names_backend()
    }

    /// Loads the configuration and opens its home, for commands that work beside a runner. While one runs they also work
    /// with a wrong file, because the runner goes on with the settings that it read before.
    pub fn config_beside_runner(&self, rule: WorkspaceRule) -> anyhow::Result<(Config, Home)> {
        let fault = match self.config_and_home(rule) {
            Ok(loaded) => return Ok(loaded),
            Err(fault) => fault,
        };
        let mut config = Config::load_without_file(&self.flags, &self.environment, rule)?;
        let home = Home::open_home(&config.home)?;
        let holder = RunnerLock::find_holder(&home)?;
        let in_force = holder.and_then(|holder| SettingsInForce::read_for(holder, &home));
        let in_force = in_force.ok_or(fault)?;
        if config.backend.url.is_none() {
            in_force.apply_backend(&mut config);
        }
        Ok((config, home))
    }

    /// Loads the configuration with the workspaces of the running runner, and opens its home. Without a runner, or with a
    /// flag, they are those that `rule` gives.
    pub fn config_with_runner_workspaces(
        &self,
        rule: WorkspaceRule,
    ) -> anyhow::Result<(Config, Home)> {
        if self.flags.workspaces.is_empty() {
            let (mut config, home) = self.config_beside_runner(WorkspaceRule::NotNeeded)?;
            let holder = RunnerLock::find_holder(&home)?;
            if let Some(in_force) = holder.and_then(|one| SettingsInForce::read_for(one, &home)) {
                config.workspaces = in_force.workspaces.iter().map(PathBuf::from).collect();
                return Ok((config, home));
            }
        }
        self.config_and_home(rule)
    }

    /// Returns the folders that this command names as its own: by flags, else by the variable, else the current one.
    pub fn session_folders(&self) -> Vec<PathBuf> {
        let current = self.environment.current_dir();
        let named = match self.environment.get("PUNIE_WORKSPACE") {
            _ if !self.flags.workspaces.is_empty() => self.flags.workspaces.clone(),
            Some(list) => std::env::split_paths(list).collect(),
            None => current.into_iter().map(PathBuf::from).collect(),
        };
        let absolute = named
            .iter()
            .filter_map(|path| self.environment.expand_path(path, current));
        absolute.collect()
    }

    /// Returns the flags by which another process finds the home and the configuration file of this command.
    pub fn home_arguments(config: &Config) -> Vec<OsString> {
        let mut words = vec!["--home".into(), config.home.clone().into_os_string()];
        let is_given = matches!(
            config.value_origin("config"),
            Some(ValueOrigin::Flag(_) | ValueOrigin::Variable(_))
        );
        if is_given {
            words.extend(["--config".into(), config.file.clone().into_os_string()]);
        }
        words
    }

    /// Opens the home of the configuration in force.
    pub fn open_home(&self) -> anyhow::Result<Home> {
        let (_, home) = self.config_beside_runner(WorkspaceRule::NotNeeded)?;
        Ok(home)
    }

    /// Returns the configuration file's path without reading it.
    pub fn config_file(&self) -> anyhow::Result<PathBuf> {
        Ok(Config::locate_config_file(&self.flags, &self.environment)?)
    }

    /// Loads the configuration without logging anything. Where its file is wrong, it is loaded without the file, and the
    /// error is returned beside it.
    ///
    /// # Errors
    /// [`ConfigError`] if a flag or a variable is wrong.
    pub fn config_with_fault(&self) -> Result<(Config, Option<ConfigError>), ConfigError> {
        let flags = &self.flags;
        let environment = &self.environment;
        let rule = WorkspaceRule::NotNeeded;
        match Config::load(flags, environment, rule) {
            Ok(config) => Ok((config, None)),
            Err(fault) => {
                let config = Config::load_without_file(flags, environment, rule)?;
                Ok((config, Some(fault)))
            }
        }
    }

    /// Loads the configuration without logging anything.
    pub fn try_config(&self, workspaces: WorkspaceRule) -> anyhow::Result<Config> {
        Ok(Config::load(&self.flags, &self.environment, workspaces)?)
    }

    /// Loads the configuration, without its file if that has faults: for commands that must work all the same.
    pub fn config_despite_faults(&self) -> anyhow::Result<Config> {
        let rule = WorkspaceRule::NotNeeded;
        self.try_config(rule).or_else(|_| {
            Ok(Config::load_without_file(
                &self.flags,
                &self.environment,
                rule,
            )?)
        })
    }

    /// Starts logging as the configuration says, or without its file if that has faults.
    pub fn start_logging_despite_faults(&self) -> anyhow::Result<()> {
        let config = self.config_despite_faults()?;
        Self::start_logging(&config, None);
        Ok(())
    }

    /// Returns whether a backend is configured. A configuration with errors counts: loading it reports them.
    pub fn has_backend(&self) -> bool {
        let loaded = self.try_config(WorkspaceRule::NotNeeded);
        loaded.map_or(true, |config| config.backend.url.is_some())
    }

    /// Loads the configuration for a runner, which also logs to the home while it is in the background.
    pub fn runner_config(&self, workspaces: WorkspaceRule) -> anyhow::Result<Config> {
        self.load_with_logging(workspaces, |config| {
            logging::logs_to_file(config.log.file).then(|| Home::logs_below(&config.home))
        })
    }

    fn load_with_logging(
        &self,
        workspaces: WorkspaceRule,
        kept: impl FnOnce(&Config) -> Option<PathBuf>,
    ) -> anyhow::Result<Config> {
        let config = Config::load(&self.flags, &self.environment, workspaces)?;
        Self::start_logging(&config, kept(&config));
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        Ok(config)
    }

    fn start_logging(config: &Config, kept: Option<PathBuf>) {
        console::choose_color(config.color);
        // A person at a terminal reads text, unless this very command asks for JSON.
        let on_terminal = match config.value_origin("log.format") {
            Some(ValueOrigin::Flag(_) | ValueOrigin::Variable(_)) => config.log.format,
            _ => LogFormat::Text,
        };
        logging::start_logging(&config.log, on_terminal, config.color, kept);
    }

    /// Opens the home, creating it if missing. Assigns tokens of an earlier version, which did not record their
    /// backend, to the configured one.
    pub fn config_home(config: &Config) -> anyhow::Result<Home> {
        let home = Home::open_home(&config.home)?;
        if let Some(url) = &config.configured_url {
            BackendTokens::for_backend(&home, url.as_str()).adopt_unassigned(&home)?;
        }
        Ok(home)
    }

    /// Returns the device to address: the named one, else this one, else the only one that the backend knows.
    pub async fn resolve_device(
        &self,
        config: &Config,
        home: &Home,
        caller: &CallerClient,
    ) -> anyhow::Result<DeviceId> {
        if let Some(device) = &config.caller.device {
            return Ok(device.clone());
        }
        let own = if home.device_file().exists() {
            Some(DeviceIdentity::load_or_create(home)?.device_id().clone())
        } else {
            None
        };
        if let Some(own) = &own
            && wiring::backend_tokens(config, home)?.id().is_some()
        {
            return Ok(own.clone());
        }
        // The identity of this home may never have been paired with this backend.
        let known = caller.list_known_devices().await?;
        match (known.as_slice(), own) {
            ([(only, _)], _) => Ok(DeviceId::parse(only.clone())?),
            (many, Some(own)) if many.iter().any(|(id, _)| id == own.as_str()) => Ok(own),
            (many, _) => {
                let text = describe_known_devices(config, many);
                let exit = if many.is_empty() {
                    Exit::Failed
                } else {
                    Exit::Usage
                };
                Err(CommandError::with_exit(exit, text))
            }
        }
    }

    /// Creates the caller's client of the configured backend. Without a token of its own it has the one of this home's
    /// commands, which may approve, else the one that agents have.
    pub fn caller_client(config: &Config, home: &Home) -> anyhow::Result<CallerClient> {
        let functions = wiring::http_functions(config)?;
        if let Some(token) = &config.caller.token {
            return Ok(CallerClient::new(functions, token.clone()));
        }
        let tokens = wiring::backend_tokens(config, home)?;
        let token = match tokens.read(TokenName::Approver)? {
            None => tokens.read(TokenName::Caller)?,
            approver => approver,
        };
        let token = token.ok_or_else(|| {
            let path = BackendTokens::for_backend(home, functions.backend_url())
                .path(TokenName::Caller);
            let text = format!(
                "no caller token for {}. `punie-runner backend` prints the file with its token at its start: type \
                 PUNIE_CALLER_TOKEN=$(cat FILE) before this command. The operator of a hosted backend makes one. To keep \
                 it, put it into {} (mode 0600)",
                functions.backend_url(),
                path.display()
            );
            CommandError::with_exit(Exit::Refused, text)
        })?;
        Ok(CallerClient::new(functions, token))
    }

    /// Returns whether a person uses this command on a terminal.
    pub fn is_interactive() -> bool {
        console::is_terminal()
    }
}

/// Describes what a caller has to type who addresses no device that the backend knows.
pub fn describe_known_devices(config: &Config, known: &[(String, bool)]) -> String {
    if known.is_empty() {
        let url = config.backend.url.as_ref();
        let url = url.map_or("URL", BackendUrl::as_str);
        return format!(
            "no device is paired with {url} now. On the device, with the code that the backend shows, run: punie-runner \
             --backend-url {url} pair CODE"
        );
    }
    let names: Vec<&str> = known.iter().map(|(id, _)| id.as_str()).collect();
    format!(
        "name the device with --device ID (or PUNIE_DEVICE); the backend knows {}",
        names.join(", ")
    )
}

/// Builds a runtime for one command.
pub fn command_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2)
        .build()?)
}

/// Builds a runtime for the runner. Tasks that only wait run on a single thread, so that an event wakes one thread and
/// not three. Work on files and tools uses other threads, which end when idle.
pub fn runner_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

/// Runs a future to completion and does not wait for blocked threads afterwards: a hanging file call must not keep the
/// process, and with it the lock on the home.
pub fn block_on_and_shutdown<T>(
    runtime: tokio::runtime::Runtime,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let ended = runtime.block_on(work);
    runtime.shutdown_background();
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_not_held_up_by_a_file_call_that_hangs() {
        let (let_go, hangs) = std::sync::mpsc::channel::<()>();
        let (done, was_done) = std::sync::mpsc::channel();
        let ended = block_on_and_shutdown(runner_runtime().expect("a runtime"), async {
            let (running, runs) = tokio::sync::oneshot::channel();
            tokio::task::spawn_blocking(move || {
                let _ = running.send(());
                let _ = hangs.recv_timeout(std::time::Duration::from_mins(1));
                let _ = done.send(());
            });
            runs.await?;
            Err::<(), _>(anyhow::anyhow!("it failed"))
        });
        assert_eq!(ended.expect_err("it failed").to_string(), "it failed");
        assert!(was_done.try_recv().is_err(), "the call still hangs");
        drop(let_go);
        was_done.recv().expect("it goes on by itself");
    }
}
