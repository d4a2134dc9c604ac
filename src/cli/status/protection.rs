//! The safety part of the status: resource limits of commands, and the owner's rules. Not here: confinement itself
//! (acp).

use serde::Serialize;

use crate::acp::local::confinement::Confinement;
use crate::home::{Home, PolicyFile};
use crate::policy::PolicyRules;

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommandLimits {
    processes: bool,
    /// Only known of a running runner.
    memory: bool,
    file_size: bool,
}

impl CommandLimits {
    pub fn from_confinement(
        confinement: &Confinement,
        confined: bool,
        runner: Option<u32>,
    ) -> Self {
        let (processes, memory) = runner.map(control_group_limits).unwrap_or_default();
        Self {
            processes: processes || confinement.limits_processes(),
            memory,
            file_size: confined && cfg!(target_os = "linux"),
        }
    }

    pub fn describe_limits(self) -> String {
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

/// The owner's rules.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PolicyStatus {
    pub rules: usize,
    /// `allow`, `ask` or `deny`: the decision if no rule matches.
    pub default: &'static str,
    /// The error in policy.toml, with its line.
    pub broken: Option<String>,
}

impl PolicyStatus {
    /// Reads the rules from the file. Names of tools are not checked, because no tools are set up for this.
    pub fn from_home(home: &Home) -> Self {
        let read = PolicyFile::in_home(home)
            .read_checked()
            .map_err(|error| format!("policy.toml: {error}"));
        let rules = read.and_then(|text| {
            PolicyRules::parse_policy(&text.unwrap_or_default(), &|_| true)
                .map_err(|broken| broken.to_string())
        });
        match rules {
            Ok(rules) => Self {
                rules: rules.rules.len(),
                default: rules.default.as_str(),
                broken: None,
            },
            Err(broken) => Self {
                rules: 0,
                default: "deny",
                broken: Some(broken),
            },
        }
    }
}

/// Returns whether the control groups of this runner's commands limit processes and memory.
#[cfg(unix)]
fn control_group_limits(runner: u32) -> (bool, bool) {
    let limits = crate::acp::local::group_limits::limits_of_runner(runner);
    (limits.processes, limits.memory)
}

#[cfg(not(unix))]
fn control_group_limits(_runner: u32) -> (bool, bool) {
    (false, false)
}
