//! Merges flags, environment, file and defaults.

use std::path::{Path, PathBuf};

use super::choices::{BackendKind, LogFormat, LogLevel};
use super::config_reader::ConfigReader;
use super::config_setting::ConfigSetting;
use super::effective_config::{CallerSettings, Config, ConfigSource};
use super::error::ConfigError;
use super::global_flags::{ColorChoice, GlobalFlags};
use super::mcp_servers::{McpTarget, read_mcp_servers};
use super::optional_parts::table_refusal;
use super::overrides::{
    flag_or_variable, read_config_file, resolve_caller, resolve_color, resolve_config_file,
    resolve_home, value_error,
};
use super::proxy::resolve_proxies;
use super::sources::{ProcessEnvironment, ValueOrigin};
use super::tables::{
    Audit, Backend, Editor, JournalTitles, Limits, Log, Mcp, Policy, Poll, Questions, SafeMode,
    Sandbox, SelfMod, Signals, Store, Tools, Trash, Update, WebSocket, Workspaces,
};
use super::toml_document::ConfigDocument;
use super::url::BackendUrl;
use super::value::ConfigValue;
use super::workspaces::{self, WorkspaceRule};
use punie_sandbox::services;

impl Config {
    /// Loads the configuration in force.
    ///
    /// # Errors
    /// [`ConfigError`], naming every mistake in the file at once.
    pub fn load(
        flags: &GlobalFlags,
        environment: &ProcessEnvironment,
        rule: WorkspaceRule,
    ) -> Result<Self, ConfigError> {
        let (home, home_origin) = resolve_home(flags, environment)?;
        let (file, file_origin) = resolve_config_file(flags, environment, &home)?;
        let stamp = punie_core::durable::read_file_stamp(&file).ok();
        let written = read_config_file(&file, &file_origin)?;
        let paths = [(home, home_origin), (file, file_origin)];
        let source = ConfigSource {
            flags: flags.clone(),
            environment: environment.clone(),
            rule,
            stamp,
        };
        Self::merge_sources(source, paths, &written)
    }

    /// Loads the configuration without its file: for commands that work while the file is wrong.
    ///
    /// # Errors
    /// [`ConfigError`], for flags and variables.
    pub fn load_without_file(
        flags: &GlobalFlags,
        environment: &ProcessEnvironment,
        rule: WorkspaceRule,
    ) -> Result<Self, ConfigError> {
        let home = resolve_home(flags, environment)?;
        let file = resolve_config_file(flags, environment, &home.0)?;
        let source = ConfigSource {
            flags: flags.clone(),
            environment: environment.clone(),
            rule,
            stamp: None,
        };
        Self::merge_sources(source, [home, file], &ConfigDocument::default())
    }

    /// Checks a text that may become the configuration file, with the flags and the environment of this configuration.
    ///
    /// # Errors
    /// [`ConfigError`], naming every mistake in the text at once.
    pub fn check_new_text(&self, text: &str) -> Result<Self, ConfigError> {
        let written = ConfigDocument::parse_document(text).map_err(|fault| ConfigError::File {
            path: self.file.clone(),
            faults: vec![fault],
        })?;
        let places = [(self.home.clone(), "home"), (self.file.clone(), "config")];
        let places = places.map(|(path, key)| (path, self.origin_or_default(key)));
        Self::merge_sources(self.source.clone(), places, &written)
    }

    /// Merges the flags, the environment, the file and the defaults.
    fn merge_sources(
        source: ConfigSource,
        [(home, home_origin), (file, file_origin)]: [(PathBuf, ValueOrigin); 2],
        written: &ConfigDocument,
    ) -> Result<Self, ConfigError> {
        let locations = [("home", &home, home_origin), ("config", &file, file_origin)];
        let mut settings: Vec<_> = locations
            .map(|(key, path, origin)| ConfigSetting {
                key,
                value: path.display().to_string(),
                origin,
            })
            .into();
        let ConfigSource {
            flags,
            environment,
            rule,
            ..
        } = source.clone();
        let mut config = Self::read_file(source, (&home, &file), written)?;
        config.apply_overrides(&flags, &environment)?;
        config.check_plaintext_url()?;
        config.check_url_scheme()?;
        config.expand_paths(&environment);
        config.expand_server_folders(&environment);
        config.check_openings(&environment)?;
        config.resolve_workspace_paths(&flags, &environment, rule)?;
        config.resolve_caller_workspaces(&environment)?;
        settings.append(&mut config.settings);
        config.caller = resolve_caller(&flags, &environment, &mut settings)?;
        config.color = resolve_color(&flags, &environment, &mut settings);
        config.settings = settings;
        Ok(config)
    }

    /// Returns the configuration file's path without reading it.
    ///
    /// # Errors
    /// There is no home for it.
    pub fn locate_config_file(
        flags: &GlobalFlags,
        environment: &ProcessEnvironment,
    ) -> Result<PathBuf, ConfigError> {
        let (home, _) = resolve_home(flags, environment)?;
        resolve_config_file(flags, environment, &home).map(|(file, _)| file)
    }

    /// Reads the tables of the file, with defaults for missing keys. The workspaces are still as they are written.
    fn read_file(
        source: ConfigSource,
        (home, file): (&Path, &Path),
        written: &ConfigDocument,
    ) -> Result<Self, ConfigError> {
        let mut reader = ConfigReader::new(file, written);
        let backend = Backend::read(&mut reader);
        let (mcp_servers, faults) = read_mcp_servers(&written.text);
        reader.faults.extend(faults);
        let mut config = Self {
            home: home.to_owned(),
            file: file.to_owned(),
            configured_url: backend.url.clone(),
            proxies: resolve_proxies(backend.proxy.as_ref(), &source.environment),
            backend,
            poll: Poll::read(&mut reader),
            websocket: WebSocket::read(&mut reader),
            limits: Limits::read(&mut reader),
            safe_mode: SafeMode::read(&mut reader),
            workspaces: Workspaces::read(&mut reader).paths,
            tools: Tools::read(&mut reader),
            callers: reader.read_callers(),
            after_edit: reader.read_after_edit(),
            policy: Policy::read(&mut reader),
            questions: Questions::read(&mut reader),
            sandbox: Sandbox::read(&mut reader),
            journal: JournalTitles::read(&mut reader),
            trash: Trash::read(&mut reader),
            store: Store::read(&mut reader),
            audit: Audit::read(&mut reader),
            editor: Editor::read(&mut reader),
            mcp: Mcp::read(&mut reader),
            self_mod: SelfMod::read(&mut reader),
            signals: Signals::read(&mut reader),
            update: Update::read(&mut reader),
            mcp_servers,
            log: Log::read(&mut reader),
            caller: CallerSettings::default(),
            json: source.flags.json,
            color: ColorChoice::Auto,
            warnings: source.environment.unknown_variables(),
            settings: Vec::new(),
            source,
        };
        config.check_related_keys(&mut reader);
        config.settings = reader.settings;
        if reader.faults.is_empty() {
            return Ok(config);
        }
        reader.faults.sort_by_key(|fault| fault.line);
        Err(ConfigError::File {
            path: file.to_owned(),
            faults: reader.faults,
        })
    }

    /// Checks the keys whose values must fit each other.
    fn check_related_keys(&self, reader: &mut ConfigReader<'_>) {
        let (poll, limits, progress) = (&self.poll, &self.limits, self.backend.progress);
        reader.require_fit(
            limits.lease_renew * 2 <= limits.lease,
            ["limits.lease_ms", "limits.lease_renew_ms"],
            "limits.lease_renew_ms must be at most half of limits.lease_ms, so that one lost renewal loses no lease",
        );
        reader.require_fit(
            progress.is_zero() || progress.as_secs() >= 1,
            ["backend.progress_ms"; 2],
            "backend.progress_ms must be 0 (none) or at least 1000",
        );
        reader.require_fit(
            poll.error_base <= poll.error_cap,
            ["backend.poll.error_cap_ms", "backend.poll.error_base_ms"],
            "backend.poll.error_base_ms must not be more than error_cap_ms",
        );
        reader.require_fit(
            poll.function_error_min <= poll.function_error_max,
            [
                "backend.poll.function_error_max_ms",
                "backend.poll.function_error_min_ms",
            ],
            "backend.poll.function_error_min_ms must not be more than function_error_max_ms",
        );
        reader.require_fit(
            poll.active_for <= poll.recent_for,
            ["backend.poll.recent_for_ms", "backend.poll.active_for_ms"],
            "backend.poll.active_for_ms must not be more than recent_for_ms",
        );
    }

    /// Applies the flags and variables that replace a key of the file.
    fn apply_overrides(
        &mut self,
        flags: &GlobalFlags,
        environment: &ProcessEnvironment,
    ) -> Result<(), ConfigError> {
        let url = flags.backend_url.as_deref();
        if let Some((url, origin)) =
            flag_or_variable(url, "--backend-url", environment, "PUNIE_BACKEND_URL")?
        {
            let url = Some(BackendUrl::parse(&url).map_err(value_error(&origin))?);
            self.replace_setting("backend.url", &url, origin);
            self.configured_url = self.configured_url.take().or_else(|| url.clone());
            self.backend.url = url;
        }
        if let Some(kind) = flags.backend_kind {
            self.replace_setting("backend.kind", &kind, ValueOrigin::Default);
            self.backend.kind = kind;
        }
        let level = flags.log.as_deref();
        if let Some((level, origin)) = flag_or_variable(level, "--log", environment, "PUNIE_LOG")? {
            let level = LogLevel::parse(&level).map_err(value_error(&origin))?;
            self.replace_setting("log.level", &level, origin);
            self.log.level = level;
        }
        let format = flags.log_format.as_deref();
        if let Some((format, origin)) =
            flag_or_variable(format, "--log-format", environment, "PUNIE_LOG_FORMAT")?
        {
            let format = LogFormat::parse(&format).map_err(value_error(&origin))?;
            self.replace_setting("log.format", &format, origin);
            self.log.format = format;
        }
        Ok(())
    }

    pub(super) fn replace_setting(
        &mut self,
        key: &str,
        value: &impl ConfigValue,
        origin: ValueOrigin,
    ) {
        let mut settings = self.settings.iter_mut();
        if let Some(setting) = settings.find(|setting| setting.key == key) {
            setting.value = value.to_toml().unwrap_or_default();
            setting.origin = origin;
        }
    }

    pub(super) fn origin_or_default(&self, key: &str) -> ValueOrigin {
        let origin = self.value_origin(key).cloned();
        origin.unwrap_or(ValueOrigin::Default)
    }

    fn check_plaintext_url(&self) -> Result<(), ConfigError> {
        match &self.backend.url {
            Some(url) if url.is_plaintext_remote() && !self.backend.allow_insecure_http => {
                let scheme = url.scheme();
                Err(ConfigError::Value {
                    origin: self.origin_or_default("backend.url"),
                    why: format!(
                        "{url} is plain {scheme} to another machine, which anybody on the way can read. Use {scheme}s, \
                         or set allow_insecure_http = true in the [backend] table"
                    ),
                })
            }
            _ => Ok(()),
        }
    }

    /// Checks that the backend's kind fits the scheme of its address.
    fn check_url_scheme(&self) -> Result<(), ConfigError> {
        let Some(url) = &self.backend.url else {
            return Ok(());
        };
        let (scheme, kind) = (url.scheme(), self.backend.kind);
        if let (BackendKind::WebSocket, Some(why)) = (kind, table_refusal("backend.websocket")) {
            return Err(ConfigError::Value {
                origin: self.origin_or_default("backend.kind"),
                why,
            });
        }
        let wanted = match (kind, url.is_websocket()) {
            (BackendKind::Convex, true) => {
                "needs an address that begins with https:, or kind = \"websocket\""
            }
            (BackendKind::WebSocket, false) => {
                "needs an address that begins with wss:, or kind = \"convex\""
            }
            _ => return Ok(()),
        };
        Err(ConfigError::Value {
            origin: self.origin_or_default("backend.url"),
            why: format!(
                "{url} begins with {scheme}:, and backend.kind = {:?} {wanted}",
                kind.as_str()
            ),
        })
    }

    /// Makes paths beside the workspaces absolute: `~` is the user's home, and relative paths begin at the file's folder.
    fn expand_paths(&mut self, environment: &ProcessEnvironment) {
        let folder = self.file.parent().unwrap_or(Path::new(""));
        let sandbox = &mut self.sandbox;
        let lists = [
            &mut sandbox.write,
            &mut sandbox.read,
            &mut sandbox.hide,
            &mut self.signals.project_folders,
        ];
        for path in lists.into_iter().flatten() {
            if let Some(full) = environment.expand_path(path, Some(folder)) {
                *path = full;
            }
        }
    }

    /// Makes the folders in which MCP servers start absolute, as the paths of the sandbox.
    fn expand_server_folders(&mut self, environment: &ProcessEnvironment) {
        let folder = self.file.parent().unwrap_or(Path::new(""));
        for server in &mut self.mcp_servers {
            if let McpTarget::Program { cwd: Some(cwd), .. } = &mut server.target
                && let Some(full) = environment.expand_path(cwd, Some(folder))
            {
                *cwd = full;
            }
        }
    }

    /// Rejects settings that open what runs programs for its callers, unless the owner says that this is meant.
    fn check_openings(&self, environment: &ProcessEnvironment) -> Result<(), ConfigError> {
        if self.sandbox.unsafe_openings {
            return Ok(());
        }
        let home = environment.user_dir();
        let mut writes = self.sandbox.write.iter();
        let socket = writes.find(|path| services::leads_to_service(home, path));
        let mut ports = self.sandbox.local_ports.iter();
        let port = ports.find(|port| services::SERVICE_PORTS.contains(port));
        let (key, named) = match (socket, port) {
            (Some(path), _) => ("sandbox.write", path.display().to_string()),
            (None, Some(port)) => ("sandbox.local_ports", port.to_string()),
            (None, None) => return Ok(()),
        };
        Err(ConfigError::Value {
            origin: self.origin_or_default(key),
            why: format!(
                "{named} leads to programs that act for you, so that commands could do all that you can. To open it \
                 all the same, add unsafe = true under [sandbox]; else take it out"
            ),
        })
    }

    /// Replaces the workspaces that are written in the file by those in force.
    fn resolve_workspace_paths(
        &mut self,
        flags: &GlobalFlags,
        environment: &ProcessEnvironment,
        rule: WorkspaceRule,
    ) -> Result<(), ConfigError> {
        let origin = self.origin_or_default("workspaces.paths");
        let (workspaces, setting) = workspaces::resolve_workspaces(
            flags,
            environment,
            (&self.workspaces, &origin, &self.file),
            (&self.home, &self.sandbox.write),
            rule,
        )?;
        self.workspaces = workspaces;
        self.settings.retain(|other| other.key != setting.key);
        self.settings.push(setting);
        Ok(())
    }
}
