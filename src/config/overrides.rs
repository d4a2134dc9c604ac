//! The flags and variables that go before the file, and those that name the home and the file.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use super::config_setting::ConfigSetting;
use super::effective_config::CallerSettings;
use super::error::ConfigError;
use super::global_flags::{ColorChoice, GlobalFlags};
use super::sources::{self, ProcessEnvironment, ValueOrigin};
use super::toml_document::ConfigDocument;
use punie_core::ids::DeviceId;
use punie_text::redact::Secret;

/// Returns the flag's value, else the variable's.
pub(super) fn flag_or_variable(
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
pub(super) fn path_from_flag_or_variable(
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

/// Returns the error for a value of this origin that is wrong for a reason.
pub(super) fn value_error(origin: &ValueOrigin) -> impl FnOnce(String) -> ConfigError {
    let origin = origin.clone();
    move |why| ConfigError::Value { origin, why }
}

pub(super) fn default_home(environment: &ProcessEnvironment) -> Option<PathBuf> {
    Some(environment.user_dir()?.join(".punie"))
}

/// Resolves the links of a path as far as it exists, and the dots of the rest.
pub(super) fn resolve_links(path: &Path) -> PathBuf {
    let mut above = path.ancestors();
    let found = above.find_map(|above| Some((above, above.canonicalize().ok()?)));
    let (above, mut resolved) = found.unwrap_or((Path::new(""), PathBuf::new()));
    for part in path.strip_prefix(above).unwrap_or(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(resolved.pop()),
            part => resolved.push(part),
        }
    }
    resolved
}

pub(super) fn resolve_home(
    flags: &GlobalFlags,
    environment: &ProcessEnvironment,
) -> Result<(PathBuf, ValueOrigin), ConfigError> {
    let named =
        path_from_flag_or_variable(flags.home.as_deref(), "--home", environment, "PUNIE_HOME")?;
    let default = || Some((default_home(environment)?, ValueOrigin::Default));
    named.or_else(default).ok_or(ConfigError::NoHome)
}

pub(super) fn resolve_config_file(
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
pub(super) fn read_config_file(
    file: &Path,
    origin: &ValueOrigin,
) -> Result<ConfigDocument, ConfigError> {
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

pub(super) fn resolve_caller(
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

pub(super) fn resolve_color(
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
