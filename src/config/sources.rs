//! The sources of values: the environment, captured once, and the files and folders that the configuration names.
//! Nothing else reads the environment or the current directory.
#![expect(
    clippy::disallowed_methods,
    reason = "this file reads the environment and config.toml, once"
)]

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use punie_core::durable::allow_missing;

/// The largest accepted configuration file.
const MAX_BYTES: u64 = 1024 * 1024;

/// All variables that the runner reads.
pub(super) const VARIABLES: &[&str] = &[
    "PUNIE_HOME",
    "PUNIE_CONFIG",
    "PUNIE_WORKSPACE",
    "PUNIE_BACKEND_URL",
    "PUNIE_LOG",
    "PUNIE_LOG_FORMAT",
    "PUNIE_CALLER_TOKEN",
    "PUNIE_DEVICE",
];

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueOrigin {
    /// A flag, by name.
    Flag(&'static str),
    /// An environment variable, by name.
    Variable(&'static str),
    /// A line of the configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The current directory.
    CurrentDir,
    /// The default: nothing was set.
    Default,
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) | Self::Variable(name) => f.write_str(name),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::CurrentDir => f.write_str("the current directory"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// The process's environment at its start.
#[derive(Clone, Default)]
pub struct ProcessEnvironment {
    variables: Vec<(OsString, OsString)>,
    current_dir: Option<PathBuf>,
    user_dir: Option<PathBuf>,
}

impl fmt::Debug for ProcessEnvironment {
    /// Shows the names only, since values are often secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&OsString> = self.variables.iter().map(|(name, _)| name).collect();
        f.debug_struct("Environment")
            .field("variables", &names)
            .field("current_dir", &self.current_dir)
            .field("user_dir", &self.user_dir)
            .finish()
    }
}

impl ProcessEnvironment {
    /// Captures the environment, once, at the start of the program.
    pub fn from_process() -> Self {
        let user_dir = directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned());
        Self::new(std::env::vars_os(), std::env::current_dir().ok(), user_dir)
    }

    /// Creates an environment with these variables, current directory and user's home.
    pub fn new(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        current_dir: Option<PathBuf>,
        user_dir: Option<PathBuf>,
    ) -> Self {
        Self {
            variables: variables.into_iter().collect(),
            current_dir,
            user_dir,
        }
    }

    /// Returns a variable. An empty one counts as not set, as in most programs.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let found = self.variables.iter().find(|(its_name, _)| its_name == name);
        found
            .map(|(_, value)| value.as_os_str())
            .filter(|value| !value.is_empty())
    }

    /// Returns all variables, for a child's environment.
    pub fn variables(&self) -> &[(OsString, OsString)] {
        &self.variables
    }

    /// Returns the directory in which the process was started.
    pub fn current_dir(&self) -> Option<&Path> {
        self.current_dir.as_deref()
    }

    /// Returns the user's home directory.
    pub fn user_dir(&self) -> Option<&Path> {
        self.user_dir.as_deref()
    }

    /// Returns the search path for programs.
    pub fn path_variable(&self) -> Option<&OsStr> {
        self.get("PATH")
    }

    /// Makes a path absolute: `~` is the user's home, and a relative path begins at `base`.
    pub fn expand_path(&self, path: &Path, base: Option<&Path>) -> Option<PathBuf> {
        if let Ok(rest) = path.strip_prefix("~") {
            return self.user_dir().map(|dir| dir.join(rest));
        }
        if path.is_absolute() {
            return Some(path.to_owned());
        }
        base.map(|base| base.join(path))
    }

    /// Warns of variables that begin like the runner's but are unknown, each with the probable one.
    pub(super) fn unknown_variables(&self) -> Vec<String> {
        let mut strange = Vec::new();
        for (name, _) in &self.variables {
            let name = name.to_string_lossy();
            if !name.starts_with("PUNIE_") || VARIABLES.contains(&name.as_ref()) {
                continue;
            }
            let near = VARIABLES
                .iter()
                .map(|known| (strsim::normalized_damerau_levenshtein(&name, known), known));
            let best = near
                .max_by(|a, b| a.0.total_cmp(&b.0))
                .filter(|(likeness, _)| *likeness > 0.7);
            let meant =
                best.map_or_else(String::new, |(_, known)| format!(". Did you mean {known}?"));
            strange.push(format!("the variable {name} has no effect{meant}"));
        }
        strange
    }
}

/// Reads the configuration file, if it exists.
///
/// # Errors
/// The system's error. `PermissionDenied` if every user may write the file.
pub fn read_config_text(path: &Path) -> io::Result<Option<String>> {
    let Some(file) = allow_missing(File::open(path))? else {
        return Ok(None);
    };
    #[cfg(unix)]
    {
        // A user who can write this file can send the device to another backend.
        let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata()?.permissions());
        if mode & 0o002 != 0 {
            let why = "every user of this machine may write it. Mend it with: chmod o-w";
            return Err(io::Error::new(ErrorKind::PermissionDenied, why));
        }
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(
            ErrorKind::FileTooLarge,
            "it is longer than 1 MiB",
        ));
    }
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Resolves a folder with all links followed.
pub(super) fn canonical_folder(path: &Path) -> io::Result<PathBuf> {
    let real = std::fs::canonicalize(path)?;
    if real.is_dir() {
        Ok(real)
    } else {
        Err(ErrorKind::NotADirectory.into())
    }
}

/// Lists the folders in a folder by name, without hidden ones and links. None if it cannot be read.
pub(super) fn visible_folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// Resolves a folder that need not exist yet: follows all links as far as the path exists.
pub(super) fn canonicalize_existing(path: &Path) -> PathBuf {
    let found = path
        .ancestors()
        .find_map(|above| std::fs::canonicalize(above).ok().map(|real| (above, real)));
    let Some((above, mut real)) = found else {
        return path.to_owned();
    };
    for component in path
        .strip_prefix(above)
        .unwrap_or(Path::new(""))
        .components()
    {
        match component {
            Component::ParentDir => {
                real.pop();
            }
            Component::Normal(name) => real.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    real
}
