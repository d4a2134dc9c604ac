//! The workspaces as the status shows them: which are missing, and where `undo` knows little of commands.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::status_facts::list_workspaces;
use crate::cli::wiring::SettingsInForce;
use crate::config::Config;
use punie_home::Home;
use punie_host::find_workspace_fault;
use punie_undo::list_uncovered_folders;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkspaceStatus {
    /// All of them, without links.
    #[serde(rename = "workspaces")]
    pub all: Vec<String>,
    /// Those that are missing, each with the end of a sentence that says why.
    #[serde(
        rename = "missingWorkspaces",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub missing: BTreeMap<String, String>,
    /// Those of which there are no snapshots, as the last runner found, each with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub without_snapshots: BTreeMap<String, String>,
}

impl WorkspaceStatus {
    /// Looks at the workspaces now.
    pub fn collect(config: &Config, in_force: Option<&SettingsInForce>, home: &Home) -> Self {
        let all = list_workspaces(config, in_force);
        let fault = |path: &String| Some((path.clone(), find_workspace_fault(Path::new(path))?));
        let uncovered = if config.trash.snapshots && config.trash.max_mb > 0 {
            list_uncovered_folders(home)
        } else {
            Vec::new()
        };
        let uncovered = uncovered
            .into_iter()
            .map(|(folder, why)| (folder.display().to_string(), why));
        Self {
            missing: all.iter().filter_map(fault).collect(),
            without_snapshots: uncovered.filter(|(path, _)| all.contains(path)).collect(),
            all,
        }
    }
}
