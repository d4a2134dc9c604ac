//! The runner's configuration: flags go before environment, `config.toml` and defaults; each value has its origin.

mod caller_workspaces;
mod choices;
mod config_reader;
mod config_setting;
pub mod default_file;
mod effective_config;
mod error;
pub mod file_edit;
mod global_flags;
mod key_description;
mod load;
mod mcp_servers;
pub mod optional_parts;
mod overrides;
mod proxy;
mod public_key;
mod reload;
mod signal_switches;
mod sources;
mod tables;
mod toml_document;
mod url;
mod value;
mod workspaces;

pub use choices::{BackendKind, LogFile, LogFormat, LogLevel, SignalSwitch};
pub use config_setting::ConfigSetting;
pub use effective_config::{CallerSettings, Config};
pub use error::ConfigError;
pub use global_flags::{ColorChoice, GlobalFlags};
pub use key_description::{KeyDescription, list_keys};
pub use mcp_servers::{McpServer, McpTarget, check_mcp_name};
pub use proxy::ProxySetting;
pub use public_key::PublicKey;
pub use reload::{ChangedSetting, FileStamp};
pub use sources::{ProcessEnvironment, ValueOrigin, read_config_text};
pub use tables::{
    Audit, Backend, CallerTable, Editor, JournalTitles, Limits, Log, Mcp, Policy, Poll, Questions,
    SafeMode, Sandbox, SelfMod, Signals, Store, Tools, Trash, Update, WebSocket,
};
pub use toml_document::ConfigFault;
pub use url::BackendUrl;
pub use workspaces::WorkspaceRule;
