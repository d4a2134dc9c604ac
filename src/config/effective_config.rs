//! The configuration in force.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::choices::BackendKind;
use super::config_setting::ConfigSetting;
use super::global_flags::{ColorChoice, GlobalFlags};
use super::mcp_servers::McpServer;
use super::overrides;
use super::sources::{ProcessEnvironment, ValueOrigin};
use super::tables::{
    Audit, Backend, CallerTable, Editor, JournalTitles, Limits, Log, Mcp, Policy, Poll, Questions,
    SafeMode, Sandbox, SelfMod, Signals, Store, Tools, Trash, Update, WebSocket,
};
use super::url::BackendUrl;
use super::workspaces::WorkspaceRule;
use punie_core::durable::FileStamp;
use punie_core::ids::DeviceId;
use punie_core::owner_choices::ProxyVariables;
use punie_text::redact::Secret;

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
    /// The tools of this device.
    pub tools: Tools,
    /// The rights of callers, by name.
    pub callers: BTreeMap<String, CallerTable>,
    /// The command lines that check edited files, by the pattern of the files.
    pub after_edit: BTreeMap<String, String>,
    /// The effects and tools that need approval.
    pub policy: Policy,
    /// The agent's questions to a person.
    pub questions: Questions,
    /// The sandbox's settings.
    pub sandbox: Sandbox,
    /// The content that the history keeps.
    pub journal: JournalTitles,
    /// The limits of the trash.
    pub trash: Trash,
    /// The tools for packages.
    pub store: Store,
    /// The limits of the audit log.
    pub audit: Audit,
    /// The settings of a connected editor.
    pub editor: Editor,
    /// `[mcp]`.
    pub mcp: Mcp,
    /// The folder of self-modification.
    pub self_mod: SelfMod,
    /// What the device may tell about its owner.
    pub signals: Signals,
    /// The address and key of releases.
    pub update: Update,
    /// The servers of the Model Context Protocol whose tools are added to this device's.
    pub mcp_servers: Vec<McpServer>,
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
    pub(super) settings: Vec<ConfigSetting>,
    pub(super) source: ConfigSource,
}

/// The flags and the environment from which a configuration was loaded.
#[derive(Debug, Clone)]
pub(super) struct ConfigSource {
    pub flags: GlobalFlags,
    pub environment: ProcessEnvironment,
    pub rule: WorkspaceRule,
    /// The stamp of the file, taken before it was read.
    pub stamp: Option<FileStamp>,
}

impl Config {
    /// Returns every value in force with its origin, for display.
    pub fn all_settings(&self) -> &[ConfigSetting] {
        &self.settings
    }

    /// Returns whether the home is the one of a command without `--home` and `PUNIE_HOME`.
    pub fn is_default_home(&self) -> bool {
        let default = overrides::default_home(&self.source.environment);
        default.is_some_and(|default| overrides::resolve_links(&default) == self.canonical_home())
    }

    /// Returns the home's path without links and dots, so that one home has one name.
    pub fn canonical_home(&self) -> PathBuf {
        overrides::resolve_links(&self.home)
    }

    /// Replaces the backend by the embedded one at this address.
    pub fn set_embedded_backend(&mut self, url: &str) {
        self.backend.url = BackendUrl::parse(url).ok();
        self.backend.kind = BackendKind::Convex;
        let url = self.backend.url.clone();
        self.replace_setting("backend.url", &url, ValueOrigin::Default);
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
