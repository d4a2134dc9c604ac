//! The composition root: assembles the concrete types into a host with tools, and into a runner. No other module
//! combines them.

mod adapters;
mod backends;
mod background_commands;
#[cfg(feature = "bridges")]
mod bridges;
mod configured_servers;
mod confinement_setup;
mod home_catalog;
mod host;
mod in_force;
mod journal_losses;
mod live_config;
mod live_gate;
mod masked_values;
mod openings;
mod permission_rules;
mod protected_path_records;
mod runner_assembly;
#[cfg(feature = "packages")]
mod self_mod_setup;
mod settings;
mod shell_records;
mod sleep_inhibitor;
mod task_board;
mod terminal_setup;
#[cfg(feature = "signals")]
mod user_signals;
mod workspaces;

pub use backends::{
    BackendProbe, BackendSource, ProbeFailure, backend_tokens, connect_once, convex_backend,
    http_functions, probe_configured, proxy_of_backend,
};
pub use confinement_setup::build_confinement;
pub use host::{ToolHost, assemble_lone_host};
pub use in_force::{
    ConfinementInForce, PolicyInForce, SettingsInForce, config_file_hash, describe_confinement,
};
pub use openings::SandboxOpening;
pub use permission_rules::parse_caller_rights;
pub use runner_assembly::{AssembledRunner, RunnerProcesses, assemble_runner};
#[cfg(feature = "packages")]
pub use settings::open_packages;
pub use settings::{editor_settings, min_free_bytes, open_trash};
#[cfg(feature = "signals")]
pub use user_signals::{open_signal_reader, signal_settings, signal_switch};
pub use workspaces::{open_reachable_folders, open_session_folders, undecided_repositories};
