//! How the runner is set up: flags before environment before `config.toml` before defaults, each value with where
//! it came from. Not here: the home's own files.

pub mod default_file;
mod error;
mod load;
mod proxy;
mod public_key;
mod raw;
mod sources;
mod tables;
mod url;
mod value;
mod workspaces;

use std::fmt;
use std::path::PathBuf;

use crate::ids::DeviceId;
use crate::redact::Secret;

pub use error::ConfigError;
pub use proxy::{Proxies, ProxySetting};
pub use public_key::PublicKey;
pub use raw::Fault;
pub use sources::{Environment, Origin};
pub use tables::{Audit, Backend, Editor, Limits, Log, Policy, Poll, SafeMode, Sandbox, Trash, WebSocket};
pub use url::BackendUrl;
pub use value::{AskedAbout, BackendKind, Discover, LogFile, LogLevel, Network, Require, WakeUp};
pub use workspaces::WorkspaceRule;

/// Everything that can be set, as it is in force.
#[derive(Debug, Clone)]
pub struct Config {
    /// The home's folder.
    pub home: PathBuf,
    /// The configuration file, whether or not it is there.
    pub file: PathBuf,
    /// The folders in which the tools work, each existing; empty only if the command needs none.
    pub workspaces: Vec<PathBuf>,
    /// The event backend.
    pub backend: Backend,
    /// The address of the backend that the file names, else of the one in force: the owner's, whatever one command was
    /// told.
    pub configured_url: Option<BackendUrl>,
    /// The proxies through which it may have to be reached.
    pub proxies: Proxies,
    /// How often the backend is asked.
    pub poll: Poll,
    /// How the connection of a WebSocket backend is kept.
    pub websocket: WebSocket,
    /// How much is done at once and how long it may take.
    pub limits: Limits,
    /// When the runner no longer trusts itself.
    pub safe_mode: SafeMode,
    /// What somebody is asked about.
    pub policy: Policy,
    /// What commands may touch.
    pub sandbox: Sandbox,
    /// What is kept of what calls change.
    pub trash: Trash,
    /// How long it is kept what was asked and done.
    pub audit: Audit,
    /// What editors are used for.
    pub editor: Editor,
    /// What is logged.
    pub log: Log,
    /// Who asks, for the commands on the caller's side.
    pub caller: Caller,
    /// Whether stdout carries JSON.
    pub json: bool,
    /// When there is colour.
    pub color: Color,
    /// What looks like a mistake and stops nothing.
    pub warnings: Vec<String>,
    settings: Vec<Setting>,
}

impl Config {
    /// Every value in force and where it came from, for people.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// Where the value of this key came from, such as `"backend.url"`.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.settings.iter().find(|setting| setting.key == key).map(|setting| &setting.origin)
    }
}

/// What the caller's side shows to the backend.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// From the flag or the environment; else the home has it in a file.
    pub token: Option<Secret<String>>,
    /// The device to ask; this one if absent.
    pub device: Option<DeviceId>,
}

/// One value in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its key, with the table.
    pub key: &'static str,
    /// As the file would have it; never a secret.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

/// The global flags as the command line gave them.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--home`
    pub home: Option<PathBuf>,
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--workspace`, any number of times
    pub workspaces: Vec<PathBuf>,
    /// `--backend-url`
    pub backend_url: Option<String>,
    /// The kind of backend where a command brings its own, which no flag says
    pub backend_kind: Option<BackendKind>,
    /// `--log`
    pub log: Option<String>,
    /// `--json`
    pub json: bool,
    /// `--color`
    pub color: Option<Color>,
    /// `--caller-token`
    pub caller_token: Option<Secret<String>>,
    /// `--device`
    pub device: Option<String>,
}

/// When there is colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Color {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        })
    }
}
