//! The flags and variables that go before the file. Not here: which keys they replace (`load`).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::sources::{ProcessEnvironment, ValueOrigin};

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
