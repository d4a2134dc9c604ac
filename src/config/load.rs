//! Merges flags, environment, file and defaults. Not here: how each value is parsed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::proxy::Proxies;
use super::raw::Written;
use super::sources::{self, Environment, Origin};
use super::tables::{
    Audit, Backend, Editor, Limits, Log, Policy, Poll, Reader, SafeMode, Sandbox, Trash, WebSocket,
    Workspaces,
};
use super::url::BackendUrl;
use super::value::{BackendKind, LogLevel, Value};
use super::workspaces::{self, WorkspaceRule};
use super::{Caller, Color, Config, Flags, Setting};
use crate::ids::DeviceId;
use crate::redact::Secret;

/// The tables of the file, with defaults for missing keys.
struct Tables {
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
    settings: Vec<Setting>,
}

impl Config {
    /// Loads the configuration in force.
    ///
    /// # Errors
    /// [`ConfigError`], naming every mistake in the file at once.
    pub fn load(flags: &Flags, environment: &Environment, rule: WorkspaceRule) -> Result<Self, ConfigError> {
        let (home, home_origin) = home(flags, environment)?;
        let (file, file_origin) = config_file(flags, environment, &home)?;
        let written = read(&file, &file_origin)?;
        let mut tables = Tables::read(&file, &written)?;
        let mut settings = vec![
            Setting { key: "home", value: shown(&home), origin: home_origin },
            Setting { key: "config", value: shown(&file), origin: file_origin },
        ];

        let in_file = tables.backend.url.clone();
        if let Some((url, origin)) =
            given(flags.backend_url.as_deref(), "--backend-url", environment, "PUNIE_BACKEND_URL")?
        {
            tables.backend.url = Some(BackendUrl::parse(&url).map_err(because(&origin))?);
            replace(&mut tables.settings, "backend.url", &tables.backend.url, origin);
        }
        if let Some(kind) = flags.backend_kind {
            tables.backend.kind = kind;
            replace(&mut tables.settings, "backend.kind", &kind, Origin::Default);
        }
        if let Some((level, origin)) = given(flags.log.as_deref(), "--log", environment, "PUNIE_LOG")? {
            tables.log.level = LogLevel::parse(&level).map_err(because(&origin))?;
            replace(&mut tables.settings, "log.level", &tables.log.level, origin);
        }
        check_insecure(&tables)?;
        check_scheme(&tables)?;

        let paths_origin = origin_of(&tables.settings, "workspaces.paths");
        let from_file = (tables.workspaces.paths.as_slice(), &paths_origin, file.as_path());
        let file_folder = file.parent().map(Path::to_owned).unwrap_or_default();
        let sandbox = in_full(tables.sandbox, environment, &file_folder);
        let (workspaces, setting) =
            workspaces::resolve(flags, environment, from_file, (&home, &sandbox.write), rule)?;
        tables.settings.retain(|other| other.key != setting.key);
        tables.settings.push(setting);

        settings.append(&mut tables.settings);
        let caller = caller(flags, environment, &mut settings)?;
        Ok(Self {
            home,
            file,
            workspaces,
            configured_url: in_file.or_else(|| tables.backend.url.clone()),
            proxies: Proxies::resolve(tables.backend.proxy.as_ref(), environment),
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
            color: color(flags, environment, &mut settings),
            warnings: environment.strange_variables(),
            settings,
        })
    }
}

impl Tables {
    fn read(file: &Path, written: &Written) -> Result<Self, ConfigError> {
        let mut reader = Reader::new(file, written);
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
        reader.unless(
            limits.lease_renew * 2 <= limits.lease,
            ["limits.lease_ms", "limits.lease_renew_ms"],
            "limits.lease_renew_ms must be at most half of limits.lease_ms, so that one lost renewal loses no lease",
        );
        reader.unless(
            backend.progress.is_zero() || backend.progress.as_secs() >= 1,
            ["backend.progress_ms"; 2],
            "backend.progress_ms must be 0 (none) or at least 1000",
        );
        reader.unless(
            poll.error_base <= poll.error_cap,
            ["backend.poll.error_cap_ms", "backend.poll.error_base_ms"],
            "backend.poll.error_base_ms must not be more than error_cap_ms",
        );
        reader.unless(
            poll.function_error_min <= poll.function_error_max,
            ["backend.poll.function_error_max_ms", "backend.poll.function_error_min_ms"],
            "backend.poll.function_error_min_ms must not be more than function_error_max_ms",
        );
        reader.unless(
            poll.active_for <= poll.recent_for,
            ["backend.poll.recent_for_ms", "backend.poll.active_for_ms"],
            "backend.poll.active_for_ms must not be more than recent_for_ms",
        );
        let Reader { mut faults, settings, .. } = reader;
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
        Err(ConfigError::File { path: file.to_owned(), faults })
    }
}

fn home(flags: &Flags, environment: &Environment) -> Result<(PathBuf, Origin), ConfigError> {
    match given_path(flags.home.as_deref(), "--home", environment, "PUNIE_HOME")? {
        Some(found) => Ok(found),
        None => match environment.user_dir() {
            Some(dir) => Ok((dir.join(".punie"), Origin::Default)),
            None => Err(ConfigError::NoHome),
        },
    }
}

fn config_file(
    flags: &Flags,
    environment: &Environment,
    home: &Path,
) -> Result<(PathBuf, Origin), ConfigError> {
    let found = given_path(flags.config.as_deref(), "--config", environment, "PUNIE_CONFIG")?;
    Ok(found.unwrap_or_else(|| (home.join("config.toml"), Origin::Default)))
}

/// Reads the configuration file. A file that was named must exist; the default one may be missing.
fn read(file: &Path, origin: &Origin) -> Result<Written, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { path: file.to_owned(), source };
    match sources::read_file(file).map_err(unreadable)? {
        Some(text) => Written::parse(&text)
            .map_err(|fault| ConfigError::File { path: file.to_owned(), faults: vec![fault] }),
        None if *origin == Origin::Default => Ok(Written::default()),
        None => Err(unreadable(std::io::ErrorKind::NotFound.into())),
    }
}

fn check_insecure(tables: &Tables) -> Result<(), ConfigError> {
    match &tables.backend.url {
        Some(url) if url.is_readable_on_the_way() && !tables.backend.allow_insecure_http => {
            Err(ConfigError::Value {
                origin: origin_of(&tables.settings, "backend.url"),
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
fn in_full(mut sandbox: Sandbox, environment: &Environment, folder: &Path) -> Sandbox {
    for paths in [&mut sandbox.write, &mut sandbox.read, &mut sandbox.hide] {
        for path in paths {
            if let Some(full) = environment.full_path(path, Some(folder)) {
                *path = full;
            }
        }
    }
    sandbox
}

/// Checks that the backend's kind fits the scheme of its address.
fn check_scheme(tables: &Tables) -> Result<(), ConfigError> {
    let Some(url) = &tables.backend.url else { return Ok(()) };
    let (scheme, kind) = (url.scheme(), tables.backend.kind);
    let wanted = match (kind, url.is_websocket()) {
        (BackendKind::Convex, true) => "needs an address that begins with https:, or kind = \"websocket\"",
        (BackendKind::WebSocket, false) => "needs an address that begins with wss:, or kind = \"convex\"",
        _ => return Ok(()),
    };
    Err(ConfigError::Value {
        origin: origin_of(&tables.settings, "backend.url"),
        why: format!("{url} begins with {scheme}:, and backend.kind = {:?} {wanted}", kind.as_str()),
    })
}

fn caller(
    flags: &Flags,
    environment: &Environment,
    settings: &mut Vec<Setting>,
) -> Result<Caller, ConfigError> {
    let mut caller = Caller::default();
    let flag = flags.caller_token.as_ref().map(|token| token.expose().as_str());
    if let Some((token, origin)) = given(flag, "--caller-token", environment, "PUNIE_CALLER_TOKEN")? {
        let token = token.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let why = "the token is empty or has characters that no token has".to_owned();
            return Err(ConfigError::Value { origin, why });
        }
        caller.token = Some(Secret::new(token.to_owned()));
        settings.push(Setting { key: "caller token", value: "set".to_owned(), origin });
    }
    if let Some((device, origin)) = given(flags.device.as_deref(), "--device", environment, "PUNIE_DEVICE")? {
        let device = DeviceId::parse(device).map_err(|bad| bad.to_string()).map_err(because(&origin))?;
        settings.push(Setting { key: "device", value: device.to_string(), origin });
        caller.device = Some(device);
    }
    Ok(caller)
}

fn color(flags: &Flags, environment: &Environment, settings: &mut Vec<Setting>) -> Color {
    let (color, origin) = match flags.color {
        Some(color) => (color, Origin::Flag("--color")),
        None if environment.get("NO_COLOR").is_some() => (Color::Never, Origin::Variable("NO_COLOR")),
        None => (Color::Auto, Origin::Default),
    };
    settings.push(Setting { key: "color", value: color.to_string(), origin });
    color
}

/// Returns the flag's value, else the variable's.
fn given(
    flag: Option<&str>,
    flag_name: &'static str,
    environment: &Environment,
    variable: &'static str,
) -> Result<Option<(String, Origin)>, ConfigError> {
    if let Some(text) = flag {
        return Ok(Some((text.to_owned(), Origin::Flag(flag_name))));
    }
    let Some(value) = environment.get(variable) else { return Ok(None) };
    let origin = Origin::Variable(variable);
    match value.to_str() {
        Some(text) => Ok(Some((text.to_owned(), origin))),
        None => Err(ConfigError::Value { origin, why: "the value is not UTF-8 text".to_owned() }),
    }
}

/// Returns the flag's path, else the variable's, as an absolute path.
fn given_path(
    flag: Option<&Path>,
    flag_name: &'static str,
    environment: &Environment,
    variable: &'static str,
) -> Result<Option<(PathBuf, Origin)>, ConfigError> {
    let variable_value = environment.get(variable).map(Path::new);
    let (path, origin) = match (flag, variable_value) {
        (Some(path), _) => (path, Origin::Flag(flag_name)),
        (None, Some(path)) => (path, Origin::Variable(variable)),
        (None, None) => return Ok(None),
    };
    if path.as_os_str() == OsStr::new("") {
        return Err(ConfigError::Value { origin, why: "the path is empty".to_owned() });
    }
    match environment.full_path(path, environment.current_dir()) {
        Some(full) => Ok(Some((full, origin))),
        None => Err(ConfigError::NoCurrentDir { origin, path: path.to_owned() }),
    }
}

fn because(origin: &Origin) -> impl FnOnce(String) -> ConfigError {
    let origin = origin.clone();
    move |why| ConfigError::Value { origin, why }
}

fn origin_of(settings: &[Setting], key: &str) -> Origin {
    settings
        .iter()
        .find(|setting| setting.key == key)
        .map_or(Origin::Default, |setting| setting.origin.clone())
}

fn replace(settings: &mut [Setting], key: &str, value: &impl Value, origin: Origin) {
    if let Some(setting) = settings.iter_mut().find(|setting| setting.key == key) {
        setting.value = value.written().unwrap_or_default();
        setting.origin = origin;
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
