//! The tools of this program as a device would list them, for clients whose device cannot be reached.

use serde_json::Value;

use crate::cli::context::CliContext;
use crate::cli::wiring;
use punie_tool::ToolSpec;

/// Lists the catalog entries of the tools; none if they cannot be found out.
pub(super) fn list_program_tools(context: &CliContext) -> Vec<Value> {
    let list = || -> anyhow::Result<Vec<Value>> {
        let mut config = context.config_despite_faults()?;
        let home = CliContext::config_home(&config)?;
        // Nothing runs here.
        config.workspaces.clear();
        let host = wiring::assemble_lone_host(&config, &home, context.environment())?;
        let entries = host.registry.callable_entries();
        let specs = entries.iter().map(|entry| entry.tool_spec());
        let offered = specs.filter(|spec| spec.offered);
        Ok(offered.map(ToolSpec::catalog_body).collect())
    };
    list().unwrap_or_else(|error| {
        tracing::warn!(%error, "the tools of this program cannot be listed");
        Vec::new()
    })
}
