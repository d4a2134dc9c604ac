//! The safety part of the status: resource limits of commands, and the owner's rules.

use std::sync::Arc;

use serde::Serialize;

use crate::cli::wiring::{ConfinementInForce, PolicyInForce, SettingsInForce};
use punie_home::{Home, PolicyFile};
use punie_host::active_rules::RulesSnapshot;
use punie_policy::PolicyRules;

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommandLimits {
    processes: bool,
    /// Only known of a running runner.
    memory: bool,
    file_size: bool,
}

impl CommandLimits {
    pub fn from_confinement(confinement: &ConfinementInForce, runner: Option<u32>) -> Self {
        let (processes, memory) = runner.map(control_group_limits).unwrap_or_default();
        Self {
            processes: processes || confinement.limits_processes,
            memory,
            file_size: confinement.level != "none" && cfg!(target_os = "linux"),
        }
    }

    pub fn describe(self) -> String {
        let all = [
            (self.processes, "processes"),
            (self.memory, "memory"),
            (self.file_size, "file size"),
        ];
        let list = |limited: bool| {
            let names: Vec<&str> = all
                .iter()
                .filter(|(is, _)| *is == limited)
                .map(|(_, name)| *name)
                .collect();
            names.join(", ")
        };
        match (list(true), list(false)) {
            (none, open) if none.is_empty() => format!("none of {open}"),
            (kept, none) if none.is_empty() => kept,
            (kept, open) => format!("{kept}; not {open}"),
        }
    }
}

/// Returns the owner's rules: those of the running runner, else those of the file. Names of tools are not checked then,
/// because no tools are set up for this.
pub(in crate::cli) fn read_policy(
    home: &Home,
    in_force: Option<&SettingsInForce>,
) -> PolicyInForce {
    if let Some(in_force) = in_force {
        return in_force.policy.clone();
    }
    let read = PolicyFile::in_home(home)
        .read_checked()
        .map_err(|error| format!("policy.toml: {error}"));
    let rules = read.and_then(|text| {
        PolicyRules::parse(&text.unwrap_or_default(), &|_| true)
            .map_err(|broken| broken.to_string())
    });
    match rules {
        Ok(rules) => PolicyInForce::from_rules(&RulesSnapshot {
            rules: Arc::new(rules),
            broken: None,
        }),
        Err(broken) => PolicyInForce::from_error(&broken),
    }
}

/// Returns whether the control groups of this runner's commands limit processes and memory.
#[cfg(unix)]
fn control_group_limits(runner: u32) -> (bool, bool) {
    let limits = punie_host::local::group_limits::limits_of_runner(runner);
    (limits.processes, limits.memory)
}

#[cfg(not(unix))]
fn control_group_limits(_runner: u32) -> (bool, bool) {
    (false, false)
}
