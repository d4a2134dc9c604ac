//! The runner's configuration: flags go before environment, `config.toml` and defaults; each value has its origin. Not
//! here: the other files of the home.

pub mod default_file;
mod error;
mod load;
mod proxy;
mod public_key;
mod sources;
mod tables;
mod toml_document;
mod url;
mod value;
mod workspaces;

use std::fmt;
use std::path::PathBuf;

use crate::ids::DeviceId;
use crate::redact::Secret;

pub use error::ConfigError;
pub use proxy::{ProxySetting, ProxyVariables};
pub use public_key::PublicKey;
pub use sources::{ProcessEnvironment, ValueOrigin};
pub use tables::{
    Audit, Backend, Editor, Limits, Log, Policy, Poll, SafeMode, Sandbox, Trash, WebSocket,
};
pub use toml_document::ConfigFault;
pub use url::BackendUrl;
pub use value::{AskedAbout, BackendKind, Discover, LogFile, LogLevel, Network, Require, WakeUp};
pub use workspaces::WorkspaceRule;

/// The configuration in force.
#[derive(Debug, Clone)]
pub struct Config {
    /// The runner's home folder.
    pub home: PathBuf,
    /// The configuration file, which may not exist.
    pub file: PathBuf,
    /// The workspaces, all existing folders; empty only if the command needs none.
    pub workspaces: Vec<PathBuf>,
    /// The event backend.
    pub backend: Backend,
    /// The backend address in the file, else the one in force: the owner's choice, not overridden by one command's
    /// flags.
    pub configured_url: Option<BackendUrl>,
    /// The proxies for reaching the backend.
    pub proxies: ProxyVariables,
    /// The polling intervals.
    pub poll: Poll,
    /// The settings of a WebSocket backend's connection.
    pub websocket: WebSocket,
    /// Limits on concurrency and duration.
    pub limits: Limits,
    /// The conditions for safe mode.
    pub safe_mode: SafeMode,
    /// The effects and tools that need approval.
    pub policy: Policy,
    /// The sandbox's settings.
    pub sandbox: Sandbox,
    /// The limits of the trash.
    pub trash: Trash,
    /// The limits of the audit log.
    pub audit: Audit,
    /// The settings of a connected editor.
    pub editor: Editor,
    /// The level and file of the log.
    pub log: Log,
    /// The caller's credentials, for the commands of the caller's side.
    pub caller: CallerSettings,
    /// Print JSON to stdout.
    pub json: bool,
    /// The colour choice.
    pub color: ColorChoice,
    /// Likely mistakes that stop nothing.
    pub warnings: Vec<String>,
    settings: Vec<ConfigSetting>,
}

impl Config {
    /// Returns every value in force with its origin, for display.
    pub fn all_settings(&self) -> &[ConfigSetting] {
        &self.settings
    }

    /// Returns the origin of this key's value, such as `"backend.url"`.
    pub fn value_origin(&self, key: &str) -> Option<&ValueOrigin> {
        self.settings
            .iter()
            .find(|setting| setting.key == key)
            .map(|setting| &setting.origin)
    }
}

/// The caller's credentials and target device.
#[derive(Debug, Clone, Default)]
pub struct CallerSettings {
    /// The token from the flag or the environment; otherwise it is read from a file of the home.
    pub token: Option<Secret<String>>,
    /// The device to address; this one if absent.
    pub device: Option<DeviceId>,
}

/// One value in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSetting {
    /// The key, with its table.
    pub key: &'static str,
    /// The value as the file would have it; never a secret.
    pub value: String,
    /// The value's origin.
    pub origin: ValueOrigin,
}

/// The global flags of the command line.
#[derive(Debug, Clone, Default)]
pub struct GlobalFlags {
    /// `--home`
    pub home: Option<PathBuf>,
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--workspace`, any number of times
    pub workspaces: Vec<PathBuf>,
    /// `--backend-url`
    pub backend_url: Option<String>,
    /// The kind of a backend that the command itself starts; no flag sets it
    pub backend_kind: Option<BackendKind>,
    /// `--log`
    pub log: Option<String>,
    /// `--json`
    pub json: bool,
    /// `--color`
    pub color: Option<ColorChoice>,
    /// `--caller-token`
    pub caller_token: Option<Secret<String>>,
    /// `--device`
    pub device: Option<String>,
}

/// The colour choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ColorChoice {
    /// Colour on a terminal.
    #[default]
    Auto,
    /// Always colour.
    Always,
    /// Never colour.
    Never,
}

impl fmt::Display for ColorChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        })
    }
}
