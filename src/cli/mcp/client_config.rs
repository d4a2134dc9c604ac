//! The configuration files of MCP clients (Claude Desktop, Claude Code, Cursor): reading the servers that they name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::config::file_edit::quote_text;
use crate::config::{ProcessEnvironment, check_mcp_name};
use punie_handlers::plugin::{names_secret, secret_reference};
use punie_text::redact::find_lookalikes;

/// A server that can be written into `config.toml`.
#[derive(Debug)]
pub(super) struct ImportedServer {
    /// Its name, fit for `config.toml`.
    pub name: String,
    pub table: String,
    /// The values that its table names as secrets, by the names of the secrets.
    pub secrets: BTreeMap<String, String>,
}

/// An entry of such a file. Other keys are those of the client.
#[derive(Deserialize)]
struct ClientEntry {
    #[serde(rename = "type")]
    transport: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    #[serde(alias = "serverUrl")]
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    disabled: bool,
}

/// Lists the places where clients have such files.
pub(super) fn known_places(current: &Path, user: Option<&Path>) -> Vec<PathBuf> {
    let mut places = vec![current.join(".mcp.json"), current.join(".cursor/mcp.json")];
    let in_home = [
        ".cursor/mcp.json",
        ".claude.json",
        ".config/Claude/claude_desktop_config.json",
        "Library/Application Support/Claude/claude_desktop_config.json",
        "AppData/Roaming/Claude/claude_desktop_config.json",
    ];
    places.extend(
        user.into_iter()
            .flat_map(|user| in_home.map(|place| user.join(place))),
    );
    places
}

/// Returns the entries of such a file, by name.
///
/// # Errors
/// It has another format; part of a sentence.
pub(super) fn read_entries(text: &str) -> Result<Map<String, Value>, String> {
    let file: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| format!("is not JSON: {error}"))?;
    match file.get("mcpServers") {
        Some(Value::Object(entries)) => Ok(entries.clone()),
        _ => Err("names no MCP servers: it has no object \"mcpServers\"".to_owned()),
    }
}

/// Converts an entry. Variables in it, such as `${HOME}`, are replaced by their values.
///
/// # Errors
/// It cannot be taken over; part of a sentence.
pub(super) fn convert_entry(
    name: &str,
    entry: &Value,
    environment: &ProcessEnvironment,
) -> Result<ImportedServer, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name: String = name
        .chars()
        .map(|c| if fits(c) { c } else { '-' })
        .collect();
    check_mcp_name(&name)?;
    let entry: ClientEntry =
        serde_json::from_value(entry.clone()).map_err(|error| error.to_string())?;
    if entry.transport.as_deref() == Some("sse") {
        return Err("it speaks the older transport \"sse\", which is not supported. Ask its provider for streamable HTTP".to_owned());
    }
    let expand = |text: &String| expand_variables(text, environment);
    let mut writer = TableWriter {
        lines: vec![format!("[mcp.servers.{name}]")],
        secrets: BTreeMap::new(),
        server: name,
        environment,
    };
    if let Some(command) = &entry.command {
        writer.write_text("command", &expand(command)?);
        let mut args = Vec::new();
        for arg in &entry.args {
            let expanded = expand(arg)?;
            check_argument(arg, &expanded)?;
            args.push(quote_text(&expanded));
        }
        if !args.is_empty() {
            writer.lines.push(format!("args = [{}]", args.join(", ")));
        }
        if let Some(cwd) = &entry.cwd {
            writer.write_text("cwd", &expand(cwd)?);
        }
        writer.write_values("env", &entry.env)?;
    }
    if let Some(url) = &entry.url {
        writer.write_text("url", &expand(url)?);
        writer.write_values("headers", &entry.headers)?;
    }
    if entry.disabled {
        writer.lines.push("enabled = false".to_owned());
    }
    Ok(ImportedServer {
        table: writer.lines.join("\n") + "\n",
        name: writer.server,
        secrets: writer.secrets,
    })
}

/// Refuses arguments that probably hold a secret: everybody on this machine can read those of a running program.
fn check_argument(written: &str, expanded: &str) -> Result<(), String> {
    let name = written.split(['=', ':']).next().unwrap_or_default();
    let is_named = (written.starts_with('-') || name != written) && names_secret(name);
    let is_variable = written.contains("${") && names_secret(written);
    if !is_named && !is_variable && find_lookalikes(expanded).is_empty() {
        return Ok(());
    }
    let shown = if is_named && !is_variable {
        name
    } else {
        "of its list"
    };
    Err(format!(
        "its argument {shown} seems to give a secret. Write its table by hand, with the secret as a variable under env if \
         the program takes one"
    ))
}

/// Replaces `${NAME}`, `${NAME:-default}` and `${env:NAME}`.
fn expand_variables(text: &str, environment: &ProcessEnvironment) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${")
        && let Some((inner, after)) = after.split_once('}')
    {
        expanded.push_str(before);
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        let value = environment
            .get(name)
            .map(|value| value.to_string_lossy().into_owned());
        let value = value.or_else(|| default.map(str::to_owned));
        expanded.push_str(&value.ok_or_else(|| {
            format!("it needs the variable {name}, which is not set here. Set it for this command")
        })?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

struct TableWriter<'e> {
    lines: Vec<String>,
    secrets: BTreeMap<String, String>,
    server: String,
    environment: &'e ProcessEnvironment,
}

impl TableWriter<'_> {
    fn write_text(&mut self, key: &str, value: &str) {
        self.lines.push(format!("{key} = {}", quote_text(value)));
    }

    /// Writes variables or headers; those that are probably secrets as references to them.
    fn write_values(&mut self, key: &str, values: &BTreeMap<String, String>) -> Result<(), String> {
        let mut written = Vec::new();
        for (name, value) in values {
            let mut value = expand_variables(value, self.environment)?;
            let is_secret = names_secret(name) || !find_lookalikes(&value).is_empty();
            if is_secret && !value.is_empty() {
                let secret = format!("mcp.{}.{name}", self.server);
                // The word before a token is no part of the secret.
                let (scheme, token) = match value.split_once(' ') {
                    Some((scheme, token)) if key == "headers" => {
                        (format!("{scheme} "), token.to_owned())
                    }
                    _ => (String::new(), value.clone()),
                };
                value = format!("{scheme}{}", secret_reference(&secret));
                self.secrets.insert(secret, token);
            }
            written.push(format!("{} = {}", quote_text(name), quote_text(&value)));
        }
        if !written.is_empty() {
            self.lines
                .push(format!("{key} = {{ {} }}", written.join(", ")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn convert(name: &str, entry: &Value) -> Result<ImportedServer, String> {
        let variables = [("HOME_DIR".into(), "/home/me".into())];
        let environment = ProcessEnvironment::new(variables, None, None);
        convert_entry(name, entry, &environment)
    }

    #[test]
    fn secrets_leave_the_table_and_variables_are_replaced() {
        let entry = json!({"command": "npx", "args": ["-y", "${HOME_DIR}/x"], "env": {
            "GITHUB_TOKEN": "ghp_1", "MODE": "${MODE:-fast}"}, "autoApprove": []});
        let server = convert("my server", &entry).expect("taken over");
        assert_eq!(
            server.table,
            "[mcp.servers.my-server]\ncommand = \"npx\"\nargs = [\"-y\", \"/home/me/x\"]\nenv = { \"GITHUB_TOKEN\" = \
             \"${secret:mcp.my-server.GITHUB_TOKEN}\", \"MODE\" = \"fast\" }\n"
        );
        assert_eq!(server.secrets["mcp.my-server.GITHUB_TOKEN"], "ghp_1");
        let entry = json!({"type": "http", "url": "https://e/mcp", "headers": {"Authorization": "Bearer t1"}, "disabled": true});
        let server = convert("web", &entry).expect("taken over");
        assert_eq!(
            server.table,
            "[mcp.servers.web]\nurl = \"https://e/mcp\"\nheaders = { \"Authorization\" = \
             \"Bearer ${secret:mcp.web.Authorization}\" }\nenabled = false\n"
        );
        assert_eq!(server.secrets["mcp.web.Authorization"], "t1");
    }

    #[test]
    fn an_entry_that_cannot_be_taken_over_says_why() {
        for (entry, words) in [
            (json!({"command": 3}), "invalid type"),
            (
                json!({"command": "x", "args": ["--api-key=1"]}),
                "--api-key seems to give a secret",
            ),
            (
                json!({"command": "x", "args": ["--header", "Authorization: Bearer =1"]}),
                "Authorization seems to give a secret",
            ),
            (
                json!({"command": "x", "args": ["${HOME_TOKEN:-=1}"]}),
                "of its list seems to give a secret",
            ),
            (
                json!({"command": "x", "args": ["${NONE}"]}),
                "the variable NONE",
            ),
            (
                json!({"type": "sse", "url": "https://e"}),
                "older transport",
            ),
        ] {
            let why = convert("a", &entry).expect_err(words);
            assert!(why.contains(words) && !why.contains("=1"), "{why}");
        }
        assert!(convert("a__b", &json!({"command": "x"})).is_err());
    }
}
