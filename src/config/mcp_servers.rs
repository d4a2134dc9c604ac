//! `[mcp.servers.NAME]`: servers of the Model Context Protocol whose tools the owner adds to this device's. The names
//! are the owner's, so these tables are not in `tables`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::toml_document::{ConfigFault, line_at_offset};
use super::url::BackendUrl;
use punie_core::owner_choices::WorkspaceAccess;
use punie_core::tool_effect::{NamedEffect, ToolEffect};

/// The table with a table for each server.
pub(super) const SERVERS_TABLE: &str = "mcp.servers";
/// The longest name of a server: its tools are called `NAME__TOOL`, which has at most 64 characters.
const MAX_NAME: usize = 32;
/// The longest time that a call may take, in seconds.
const MAX_TIMEOUT: u64 = 600;

/// One server as `config.toml` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// The name, which its tools begin with.
    pub name: String,
    /// The way to it.
    pub target: McpTarget,
    /// False to offer none of its tools.
    pub enabled: bool,
    /// The longest time that a call may take.
    pub timeout: Duration,
    /// The tools to offer, as the server names them; all if absent.
    pub tools: Option<Vec<String>>,
    /// The effects of tools, in place of those that the server claims.
    pub effects: BTreeMap<String, ToolEffect>,
}

/// The way to a server. Values of variables and headers may name secrets: `${secret:NAME}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpTarget {
    /// A program that is started.
    Program {
        /// A path, or a name on the PATH.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its variables beside those of every command.
        env: BTreeMap<String, String>,
        /// The folder in which it starts; the first workspace if absent.
        cwd: Option<PathBuf>,
        /// Its access to the workspaces.
        paths: WorkspaceAccess,
        /// It reaches the hosts that commands may reach, else none.
        has_network: bool,
    },
    /// An address that is spoken to over HTTP.
    Address {
        /// The address.
        url: String,
        /// The headers of each request.
        headers: BTreeMap<String, String>,
    },
}

/// A table as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenServer {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    paths: Option<WorkspaceAccess>,
    network: Option<WrittenNetwork>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default = "enabled_by_default")]
    enabled: bool,
    #[serde(default = "usual_timeout")]
    timeout: u64,
    tools: Option<Vec<String>>,
    #[serde(default)]
    effects: BTreeMap<String, NamedEffect>,
}

#[derive(PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenNetwork {
    None,
    Ask,
}

fn enabled_by_default() -> bool {
    true
}

fn usual_timeout() -> u64 {
    60
}

/// Reads the servers that a file names, and the faults in their tables.
pub(super) fn read_mcp_servers(text: &str) -> (Vec<McpServer>, Vec<ConfigFault>) {
    let mut servers = Vec::new();
    let mut faults = Vec::new();
    let document = DeTable::parse(text).map(Spanned::into_inner);
    let mcp = document
        .ok()
        .and_then(|mut document| document.remove("mcp"));
    let written = match mcp.map(Spanned::into_inner) {
        Some(DeValue::Table(mut mcp)) => mcp.remove("servers"),
        _ => None,
    };
    let Some(written) = written else {
        return (servers, faults);
    };
    let start = written.span().start;
    let DeValue::Table(written) = written.into_inner() else {
        faults.push(ConfigFault {
            line: Some(line_at_offset(text, start)),
            text: format!(
                "{SERVERS_TABLE} must have a table for each server: [{SERVERS_TABLE}.NAME]"
            ),
        });
        return (servers, faults);
    };
    for (name, table) in written {
        let start = name.span().start;
        let name = name.into_inner().into_owned();
        let written = WrittenServer::deserialize(ValueDeserializer::from(table));
        let (at, checked) = match written {
            Ok(written) => (start, check_server(&name, written)),
            Err(error) => {
                let at = error.span().map_or(start, |span| span.start);
                (at, Err(error.message().to_owned()))
            }
        };
        match checked {
            Ok(server) => servers.push(server),
            Err(why) => faults.push(ConfigFault {
                line: Some(line_at_offset(text, at)),
                text: format!("{SERVERS_TABLE}.{name}: {why}"),
            }),
        }
    }
    (servers, faults)
}

/// Checks the name of a server; an error is part of a sentence.
///
/// # Errors
/// Tools could not be called by it.
pub fn check_mcp_name(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let is_word = !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(fits);
    if is_word && !name.contains("__") && !name.ends_with('_') {
        return Ok(());
    }
    Err(format!(
        "the name must have 1 to {MAX_NAME} letters, digits, - and _, without __ in it and _ at its end"
    ))
}

fn check_server(name: &str, written: WrittenServer) -> Result<McpServer, String> {
    check_mcp_name(name)?;
    if !(1..=MAX_TIMEOUT).contains(&written.timeout) {
        let given = written.timeout;
        return Err(format!(
            "timeout must be between 1 and {MAX_TIMEOUT} seconds, not {given}"
        ));
    }
    let effects = written.effects.into_iter();
    let effects = effects.map(|(tool, effect)| (tool, ToolEffect::from(effect)));
    let target = match (written.command, written.url) {
        (Some(command), None) => {
            if !written.headers.is_empty() {
                return Err("headers belong to a url. A program gets variables: env".to_owned());
            }
            let has_nul = |word: &String| word.contains('\0');
            if command.trim().is_empty() || has_nul(&command) || written.args.iter().any(has_nul) {
                return Err("command must be a program, and args its arguments".to_owned());
            }
            McpTarget::Program {
                command,
                args: written.args,
                env: written.env,
                cwd: written.cwd,
                paths: written.paths.unwrap_or(WorkspaceAccess::Write),
                has_network: written.network != Some(WrittenNetwork::None),
            }
        }
        (None, Some(url)) => {
            let is_started = !written.args.is_empty()
                || !written.env.is_empty()
                || written.cwd.is_some()
                || written.paths.is_some()
                || written.network.is_some();
            if is_started {
                return Err(
                    "args, env, cwd, paths and network belong to a command, not to a url"
                        .to_owned(),
                );
            }
            check_server_url(&url)?;
            McpTarget::Address {
                url,
                headers: written.headers,
            }
        }
        _ => {
            return Err(
                "give either command, a program to start, or url, an address to speak to"
                    .to_owned(),
            );
        }
    };
    Ok(McpServer {
        name: name.to_owned(),
        target,
        enabled: written.enabled,
        timeout: Duration::from_secs(written.timeout),
        tools: written.tools,
        effects: effects.collect(),
    })
}

/// Checks an address: encrypted unless it is this machine, and without a password, because addresses are logged.
fn check_server_url(url: &str) -> Result<(), String> {
    let address = BackendUrl::parse(url)?;
    if address.is_websocket() {
        return Err("url must begin with https://".to_owned());
    }
    if address.is_plaintext_remote() {
        return Err(
            "url begins with http:, and leads to another machine, so anybody on the way could read along. Use https:"
                .to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_what_commands_get_and_an_address_needs_nothing_else() {
        let text = "[mcp.servers.files]\ncommand = \"npx\"\nargs = [\"x\"]\nenv.KEY = \"${secret:k}\"\n\
                    [mcp.servers.web]\nurl = \"https://example.com/mcp\"\nenabled = false\ntools = [\"a\"]\n";
        let (servers, faults) = read_mcp_servers(text);
        assert_eq!(faults, []);
        let McpTarget::Program {
            paths, has_network, ..
        } = &servers[0].target
        else {
            panic!("{servers:?}");
        };
        assert_eq!((*paths, *has_network), (WorkspaceAccess::Write, true));
        assert!(servers[0].enabled && !servers[1].enabled);
        assert_eq!(servers[1].tools, Some(vec!["a".to_owned()]));
    }

    #[test]
    fn a_table_that_cannot_be_used_says_where_and_why() {
        for (text, line, words) in [
            (
                "[mcp.servers.a]\ncomand = \"x\"",
                2,
                "unknown field `comand`",
            ),
            ("\n[mcp.servers.a]\n", 2, "give either command"),
            (
                "[mcp.servers.a]\ncommand = \"x\"\nurl = \"https://e\"",
                1,
                "give either command",
            ),
            ("[mcp.servers.a__b]\ncommand = \"x\"", 1, "without __"),
            (
                "[mcp.servers.\"a b\"]\ncommand = \"x\"",
                1,
                "the name must have",
            ),
            (
                "[mcp.servers.a]\nurl = \"http://example.com/\"",
                1,
                "Use https:",
            ),
            (
                "[mcp.servers.a]\nurl = \"https://me:pw@example.com/\"",
                1,
                "Take them out",
            ),
            (
                "[mcp.servers.a]\ncommand = \"x\"\ntimeout = 0",
                1,
                "between 1 and 600",
            ),
            (
                "[mcp.servers.a]\nurl = \"https://e\"\nenv = {A = \"b\"}",
                1,
                "belong to a command",
            ),
            ("[mcp]\nservers = 3", 2, "must have a table for each server"),
        ] {
            let (servers, faults) = read_mcp_servers(text);
            assert_eq!(servers, [], "{text}");
            let at: Vec<Option<usize>> = faults.iter().map(|fault| fault.line).collect();
            assert_eq!(at, [Some(line)], "{text}: {faults:?}");
            assert!(faults[0].text.contains(words), "{text}: {faults:?}");
        }
    }
}
