//! The `config.toml` that `init` writes: every key with its comment and default, generated from the declared keys.

use std::path::PathBuf;

use super::tables::{KeyInfo, tables_built};
use super::toml_document::CALLER_PLACEHOLDER;
use super::url::BackendUrl;
use super::value::ConfigValue;

const HEAD: &str = "\
# The configuration of punie-runner. A line that begins with # has no effect: those with a value show the default, so
# take the # away to set it. Flags win over PUNIE_ variables, and those win over this file. While a runner runs,
# [sandbox], [policy], [callers], [limits], [mcp.servers] and [log] take effect at once, the rest when it is
# restarted: punie-runner status.
";

/// The tables that have names of the owner's.
const SERVERS_HINT: &str = "\
# MCP servers whose tools this device offers have a table each, [mcp.servers.NAME]: docs/mcp.md. `punie-runner mcp import`
# takes over those of Claude Desktop and Cursor.

# Checkers of files that a call has edited: each runs confined, with the workspaces read-only and without network, for 2 s
# at most. Its first lines stand beside the answer of the edit.
#[after_edit]
# The pattern of the files, and the command that looks at each; {file} is its path.
#\"*.py\" = \"ruff check {file}\"
";

/// The values that are already known when the file is written.
#[derive(Debug, Clone, Default)]
pub struct KnownSettings {
    /// The backend's address.
    pub backend_url: Option<BackendUrl>,
    /// The folders to work in.
    pub workspaces: Vec<PathBuf>,
}

/// Renders the file. Defaults are commented out with `#`, so that a better default of a later version takes effect in
/// a file that was never edited.
pub fn render_default_config(known: &KnownSettings) -> String {
    let mut lines = vec![HEAD.to_owned()];
    for table in tables_built() {
        lines.extend(table.about.iter().map(|line| format!("#{line}")));
        // A table with a placeholder is an example.
        let off = if table.path.contains(CALLER_PLACEHOLDER) {
            "#"
        } else {
            ""
        };
        lines.push(format!("{off}[{}]", table.path));
        for key in table.keys {
            lines.extend(key.comment.iter().map(|line| format!("#{line}")));
            lines.push(render_value_line(key, known));
        }
        lines.push(String::new());
    }
    lines.push(SERVERS_HINT.to_owned());
    lines.join("\n")
}

fn render_value_line(key: &KeyInfo, known: &KnownSettings) -> String {
    let set = match key.path {
        "backend.url" => known
            .backend_url
            .as_ref()
            .and_then(|url| Some(url.clone()).to_toml()),
        "workspaces.paths" if !known.workspaces.is_empty() => known.workspaces.to_toml(),
        _ => None,
    };
    match set {
        Some(value) => format!("{} = {value}", key.name),
        None => format!(
            "#{} = {}",
            key.name,
            (key.default)().unwrap_or_else(|| key.example.to_owned())
        ),
    }
}
