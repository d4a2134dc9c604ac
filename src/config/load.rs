//! Merges flags, environment, file and defaults. Not here: how each value is parsed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::proxy::ProxyVariables;
use super::sources::{self, ProcessEnvironment, ValueOrigin};
use super::tables::{
    Audit, Backend, ConfigReader, Editor, Limits, Log, Policy, Poll, SafeMode, Sandbox, Trash,
    WebSocket, Workspaces,
};
use super::toml_document::ConfigDocument;
use super::url::BackendUrl;
use super::value::{BackendKind, ConfigValue, LogLevel};
use super::workspaces::{self, WorkspaceRule};
use super::{CallerSettings, ColorChoice, Config, ConfigSetting, GlobalFlags};
use crate::ids::DeviceId;
use crate::redact::Secret;

/// The tables of the file, with defaults for missing keys.
struct ConfigTables {
    backend: Backend,
    poll: Poll,
    websocket: WebSocket,
    limits: Limits,
    safe_mode: SafeMode,
    policy: Policy,
    sandbox: Sandbox,
    trash: Trash,
    audit: Audit,
    editor: Editor,
    workspaces: Workspaces,
    log: Log,
    settings: Vec<ConfigSetting>,
}

impl Config {
    /// Loads the configuration in force.
    ///
    /// # Errors
    /// [`ConfigError`], naming every mistake in the file at once.
    pub fn load_config(
        flags: &GlobalFlags,
        environment: &ProcessEnvironment,
        rule: WorkspaceRule,
    ) -> Result<Self, ConfigError> {
        let (home, home_origin) = resolve_home(flags, environment)?;
        let (file, file_origin) = resolve_config_file(flags, environment, &home)?;
        let written = read_config_file(&file, &file_origin)?;
        let mut tables = ConfigTables::read_tables(&file, &written)?;
        let mut settings = vec![
            ConfigSetting {
                key: "home",
                value: path_display(&home),
                origin: home_origin,
            },
            ConfigSetting {
                key: "config",
                value: path_display(&file),
                origin: file_origin,
            },
        ];

        let in_file = tables.backend.url.clone();
        if let Some((url, origin)) = flag_or_variable(
            flags.backend_url.as_deref(),
            "--backend-url",
            environment,
            "PUNIE_BACKEND_URL",
        )? {
            tables.backend.url = Some(BackendUrl::parse_url(&url).map_err(value_error(&origin))?);
            replace_setting(
                &mut tables.settings,
                "backend.url",
                &tables.backend.url,
                origin,
            );
        }
        if let Some(kind) = flags.backend_kind {
            tables.backend.kind = kind;
            replace_setting(
                &mut tables.settings,
                "backend.kind",
                &kind,
                ValueOrigin::Default,
            );
        }
        if let Some((level, origin)) =
            flag_or_variable(flags.log.as_deref(), "--log", environment, "PUNIE_LOG")?
        {
            tables.log.level = LogLevel::parse(&level).map_err(value_error(&origin))?;
            replace_setting(&mut tables.settings, "log.level", &tables.log.level, origin);
        }
        check_plaintext_url(&tables)?;
        check_url_scheme(&tables)?;

        let paths_origin = setting_origin(&tables.settings, "workspaces.paths");
        let from_file = (
            tables.workspaces.paths.as_slice(),
            &paths_origin,
            file.as_path(),
        );
        let file_folder = file.parent().map(Path::to_owned).unwrap_or_default();
        let sandbox = expand_sandbox_paths(tables.sandbox, environment, &file_folder);
        let (workspaces, setting) = workspaces::resolve_workspaces(
            flags,
            environment,
            from_file,
            (&home, &sandbox.write),
            rule,
        )?;
        tables.settings.retain(|other| other.key != setting.key);
        tables.settings.push(setting);

        settings.append(&mut tables.settings);
        let caller = resolve_caller(flags, environment, &mut settings)?;
        Ok(Self {
            home,
            file,
            workspaces,
            configured_url: in_file.or_else(|| tables.backend.url.clone()),
            proxies: ProxyVariables::resolve_proxies(tables.backend.proxy.as_ref(), environment),
            backend: tables.backend,
            poll: tables.poll,
            websocket: tables.websocket,
            limits: tables.limits,
            safe_mode: tables.safe_mode,
            policy: tables.policy,
            sandbox,
            trash: tables.trash,
            audit: tables.audit,
            editor: tables.editor,
            log: tables.log,
            caller,
            json: flags.json,
            color: resolve_color(flags, environment, &mut settings),
            warnings: environment.unknown_variables(),
            settings,
        })
    }
}

impl ConfigTables {
    fn read_tables(file: &Path, written: &ConfigDocument) -> Result<Self, ConfigError> {
        let mut reader = ConfigReader::new(file, written);
        let backend = Backend::read(&mut reader);
        let poll = Poll::read(&mut reader);
        let websocket = WebSocket::read(&mut reader);
        let limits = Limits::read(&mut reader);
        let safe_mode = SafeMode::read(&mut reader);
        let workspaces = Workspaces::read(&mut reader);
        let policy = Policy::read(&mut reader);
        let sandbox = Sandbox::read(&mut reader);
        let trash = Trash::read(&mut reader);
        let audit = Audit::read(&mut reader);
        let editor = Editor::read(&mut reader);
        let log = Log::read(&mut reader);
        reader.require_fit(
            limits.lease_renew * 2 <= limits.lease,
            ["limits.lease_ms", "limits.lease_renew_ms"],
            "limits.lease_renew_ms must be at most half of limits.lease_ms, so that one lost renewal loses no lease",
        );
        reader.require_fit(
            backend.progress.is_zero() || backend.progress.as_secs() >= 1,
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
        let ConfigReader {
            mut faults,
            settings,
            ..
        } = reader;
        if faults.is_empty() {
            return Ok(Self {
                backend,
                poll,
                websocket,
                limits,
                safe_mode,
                policy,
                sandbox,
                trash,
                audit,
                editor,
                workspaces,
                log,
                settings,
            });
        }
        faults.sort_by_key(|fault| fault.line);
        Err(ConfigError::File {
            path: file.to_owned(),
            faults,
        })
    }
}

fn resolve_home(
    flags: &GlobalFlags,
    environment: &ProcessEnvironment,
) -> Result<(PathBuf, ValueOrigin), ConfigError> {
    match path_from_flag_or_variable(flags.home.as_deref(), "--home", environment, "PUNIE_HOME")? {
        Some(found) => Ok(found),
        None => match environment.user_dir() {
            Some(dir) => Ok((dir.join(".punie"), ValueOrigin::Default)),
            None => Err(ConfigError::NoHome),
        },
    }
}

fn resolve_config_file(
    flags: &GlobalFlags,
    environment: &ProcessEnvironment,
    home: &Path,
) -> Result<(PathBuf, ValueOrigin), ConfigError> {
    let found = path_from_flag_or_variable(
        flags.config.as_deref(),
        "--config",
        environment,
        "PUNIE_CONFIG",
    )?;
    Ok(found.unwrap_or_else(|| (home.join("config.toml"), ValueOrigin::Default)))
}

/// Reads the configuration file. A file that was named must exist; the default one may be missing.
fn read_config_file(file: &Path, origin: &ValueOrigin) -> Result<ConfigDocument, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable {
        path: file.to_owned(),
        source,
    };
    match sources::read_config_text(file).map_err(unreadable)? {
        Some(text) => ConfigDocument::parse_document(&text).map_err(|fault| ConfigError::File {
            path: file.to_owned(),
            faults: vec![fault],
        }),
        None if *origin == ValueOrigin::Default => Ok(ConfigDocument::default()),
        None => Err(unreadable(std::io::ErrorKind::NotFound.into())),
    }
}

fn check_plaintext_url(tables: &ConfigTables) -> Result<(), ConfigError> {
    match &tables.backend.url {
        Some(url) if url.is_plaintext_remote() && !tables.backend.allow_insecure_http => {
            Err(ConfigError::Value {
                origin: setting_origin(&tables.settings, "backend.url"),
                why: format!(
                    "{url} is plain {} to another machine, which anybody on the way can read. Use {}s, or set \
                     allow_insecure_http = true in the [backend] table",
                    url.scheme(),
                    url.scheme()
                ),
            })
        }
        _ => Ok(()),
    }
}

/// Makes the table's paths absolute: `~` is the user's home, and relative paths begin at the file's folder.
fn expand_sandbox_paths(
    mut sandbox: Sandbox,
    environment: &ProcessEnvironment,
    folder: &Path,
) -> Sandbox {
    for paths in [&mut sandbox.write, &mut sandbox.read, &mut sandbox.hide] {
        for path in paths {
            if let Some(full) = environment.expand_path(path, Some(folder)) {
                *path = full;
            }
        }
    }
    sandbox
}

/// Checks that the backend's kind fits the scheme of its address.
fn check_url_scheme(tables: &ConfigTables) -> Result<(), ConfigError> {
    let Some(url) = &tables.backend.url else {
        return Ok(());
    };
    let (scheme, kind) = (url.scheme(), tables.backend.kind);
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
        origin: setting_origin(&tables.settings, "backend.url"),
        why: format!(
            "{url} begins with {scheme}:, and backend.kind = {:?} {wanted}",
            kind.as_str()
        ),
    })
}

fn resolve_caller(
    flags: &GlobalFlags,
    environment: &ProcessEnvironment,
    settings: &mut Vec<ConfigSetting>,
) -> Result<CallerSettings, ConfigError> {
    let mut caller = CallerSettings::default();
    let flag = flags
        .caller_token
        .as_ref()
        .map(|token| token.expose().as_str());
    if let Some((token, origin)) =
        flag_or_variable(flag, "--caller-token", environment, "PUNIE_CALLER_TOKEN")?
    {
        let token = token.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let why = "the token is empty or has characters that no token has".to_owned();
            return Err(ConfigError::Value { origin, why });
        }
        caller.token = Some(Secret::new(token.to_owned()));
        settings.push(ConfigSetting {
            key: "caller token",
            value: "set".to_owned(),
            origin,
        });
    }
    if let Some((device, origin)) = flag_or_variable(
        flags.device.as_deref(),
        "--device",
        environment,
        "PUNIE_DEVICE",
    )? {
        let device = DeviceId::parse(device)
            .map_err(|bad| bad.to_string())
            .map_err(value_error(&origin))?;
        settings.push(ConfigSetting {
            key: "device",
            value: device.to_string(),
            origin,
        });
        caller.device = Some(device);
    }
    Ok(caller)
}

fn resolve_color(
    flags: &GlobalFlags,
    environment: &ProcessEnvironment,
    settings: &mut Vec<ConfigSetting>,
) -> ColorChoice {
    let (color, origin) = match flags.color {
        Some(color) => (color, ValueOrigin::Flag("--color")),
        None if environment.get("NO_COLOR").is_some() => {
            (ColorChoice::Never, ValueOrigin::Variable("NO_COLOR"))
        }
        None => (ColorChoice::Auto, ValueOrigin::Default),
    };
    settings.push(ConfigSetting {
        key: "color",
        value: color.to_string(),
        origin,
    });
    color
}

/// Returns the flag's value, else the variable's.
fn flag_or_variable(
    flag: Option<&str>,
    flag_name: &'static str,
    environment: &ProcessEnvironment,
    variable: &'static str,
) -> Result<Option<(String, ValueOrigin)>, ConfigError> {
    if let Some(text) = flag {
        return Ok(Some((text.to_owned(), ValueOrigin::Flag(flag_name))));
    }
    let Some(value) = environment.get(variable) else {
        return Ok(None);
    };
    let origin = ValueOrigin::Variable(variable);
    match value.to_str() {
        Some(text) => Ok(Some((text.to_owned(), origin))),
        None => Err(ConfigError::Value {
            origin,
            why: "the value is not UTF-8 text".to_owned(),
        }),
    }
}

/// Returns the flag's path, else the variable's, as an absolute path.
fn path_from_flag_or_variable(
    flag: Option<&Path>,
    flag_name: &'static str,
    environment: &ProcessEnvironment,
    variable: &'static str,
) -> Result<Option<(PathBuf, ValueOrigin)>, ConfigError> {
    let variable_value = environment.get(variable).map(Path::new);
    let (path, origin) = match (flag, variable_value) {
        (Some(path), _) => (path, ValueOrigin::Flag(flag_name)),
        (None, Some(path)) => (path, ValueOrigin::Variable(variable)),
        (None, None) => return Ok(None),
    };
    if path.as_os_str() == OsStr::new("") {
        return Err(ConfigError::Value {
            origin,
            why: "the path is empty".to_owned(),
        });
    }
    match environment.expand_path(path, environment.current_dir()) {
        Some(full) => Ok(Some((full, origin))),
        None => Err(ConfigError::NoCurrentDir {
            origin,
            path: path.to_owned(),
        }),
    }
}

fn value_error(origin: &ValueOrigin) -> impl FnOnce(String) -> ConfigError {
    let origin = origin.clone();
    move |why| ConfigError::Value { origin, why }
}

fn setting_origin(settings: &[ConfigSetting], key: &str) -> ValueOrigin {
    settings
        .iter()
        .find(|setting| setting.key == key)
        .map_or(ValueOrigin::Default, |setting| setting.origin.clone())
}

fn replace_setting(
    settings: &mut [ConfigSetting],
    key: &str,
    value: &impl ConfigValue,
    origin: ValueOrigin,
) {
    if let Some(setting) = settings.iter_mut().find(|setting| setting.key == key) {
        setting.value = value.to_toml().unwrap_or_default();
        setting.origin = origin;
    }
}

fn path_display(path: &Path) -> String {
    path.display().to_string()
}
