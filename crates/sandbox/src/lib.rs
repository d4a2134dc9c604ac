//! The rules for commands, prepared for the kernel to enforce: granted and hidden paths, sockets, system calls, the
//! macOS profile, and the measured level; and what a child does between fork and exec to confine itself by them. Not here:
//! which process is started with which rules (host::local); and the file tools, which check each path themselves
//! (host::workspace).
//!
//! Read first: [`SandboxRules`], the owner's settings as rules; [`SandboxProfile`], what is prepared from them for a command;
//! [`ConfinementLevel`], what the self-test has measured.
//!
//! `punie-host` and the program use this crate. It uses `punie-core` alone.

#[cfg(target_os = "linux")]
mod bpf;
#[cfg(target_os = "linux")]
mod cache_layers;
#[cfg(target_os = "linux")]
mod certificates;
#[cfg(target_os = "linux")]
mod closed_files;
#[cfg(target_os = "linux")]
mod copied_settings;
#[cfg(target_os = "linux")]
mod covered_folders;
#[cfg(target_os = "linux")]
pub mod enter_sandbox;
#[cfg(target_os = "linux")]
mod git_settings;
mod hidden_paths;
pub mod hint;
#[cfg(target_os = "linux")]
mod home_table;
#[cfg(target_os = "linux")]
mod java_trust_store;
pub mod level;
#[cfg(target_os = "linux")]
mod make_mount;
#[cfg(target_os = "linux")]
mod mount_steps;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod path_grants;
mod path_hints;
#[cfg(target_os = "linux")]
mod private_folders;
#[cfg(unix)]
pub mod process_limit;
pub mod profile;
mod program_prefix;
#[cfg(target_os = "linux")]
mod ruleset;
#[cfg(target_os = "linux")]
pub mod running_covers;
mod sandbox_rules;
#[cfg(any(target_os = "macos", test))]
pub mod seatbelt;
#[cfg(target_os = "linux")]
mod seccomp;
pub mod self_test;
pub mod services;
#[cfg(target_os = "linux")]
mod settings_files;
#[cfg(target_os = "linux")]
mod settings_table;
pub mod shell_messages;
#[cfg(target_os = "linux")]
mod shown_parts;
#[cfg(target_os = "linux")]
mod toolchain_table;
#[cfg(target_os = "linux")]
mod unix_sockets;
mod untrusted_links;
#[cfg(target_os = "linux")]
mod view;
#[cfg(target_os = "linux")]
mod view_contents;
#[cfg(target_os = "linux")]
mod view_signature;

#[cfg(target_os = "linux")]
pub use bpf::Instruction;
#[cfg(target_os = "linux")]
pub use cache_layers::{CacheContent, CacheLayers, CommandCache, OverlayMount};
#[cfg(target_os = "linux")]
pub use copied_settings::remove_copied_settings;
pub use hidden_paths::{hidden_by_settings, is_absent};
#[cfg(target_os = "linux")]
pub use java_trust_store::build_java_trust_store;
pub use level::{ConfinementLevel, EscapeAttempt, NetworkAccess, RequiredLevel};
#[cfg(target_os = "linux")]
pub use mount_steps::{BindAccess, MountStep};
pub use profile::{ProfileBuilder, SandboxProfile};
pub use program_prefix::find_program_prefix;
#[cfg(target_os = "linux")]
pub use ruleset::restrict_thread;
pub use sandbox_rules::{
    KnownFolders, LoginPaths, ResolvedHiddenPaths, SandboxRules, WorkspaceAccess,
};
#[cfg(target_os = "linux")]
pub use seccomp::filter_without_network;
pub use untrusted_links::{follow_links, resolve_owner_paths};
#[cfg(target_os = "linux")]
pub use view::ViewPlan;
