//! Plugins in `plugins/<id>/plugin.toml`: programs whose tools the owner adds to this device's. Servers that
//! `config.toml` names are plugins without a folder of their own.
//!
//! TOML, as the other settings that the owner writes by hand; a skill has Markdown for the sake of its body.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::document_file::{self, UnreadableDocument};
use super::home_document;
use super::home_problem::HomeProblem;
use super::layout::Home;
use super::plugin_folder;
use punie_core::owner_choices::WorkspaceAccess;
use punie_core::tool_effect::{NamedEffect, ToolEffect};

const FILE: &str = "plugin.toml";
/// The longest time that a call may take, in seconds.
const MAX_TIMEOUT: u64 = 600;
/// The longest description, in characters.
const MAX_DESCRIPTION: usize = 2_000;

/// One plugin, as its manifest describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// The name of its folder.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// The version as written.
    pub version: String,
    /// Its folder, resolved.
    pub folder: PathBuf,
    /// The program of its server: a name on the PATH, or a resolved path in the folder. `None` for one without tools.
    pub program: Option<String>,
    /// The program's arguments.
    pub args: Vec<String>,
    /// Its access to the workspaces.
    pub paths: WorkspaceAccess,
    /// It may ask for hosts, as commands do. Otherwise it has no network.
    pub has_network: bool,
    /// The longest time that a call may take.
    pub timeout: Duration,
    /// The effects of tools that do less than run programs.
    pub effects: BTreeMap<String, ToolEffect>,
    /// Changes with every change in the folder, or in the table of `config.toml`.
    pub fingerprint: String,
    /// The settings of a server that `config.toml` names; `None` for a plugin of the home.
    pub configured: Option<ConfiguredServer>,
}

/// The settings that only a server in `config.toml` has. Values may name secrets: `${secret:NAME}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredServer {
    /// The name that its tools begin with.
    pub name: String,
    /// The variables of its program.
    pub env: BTreeMap<String, String>,
    /// Its address, if it is not a program.
    pub remote: Option<RemoteServer>,
    /// The tools to offer, as the server names them; all if absent.
    pub tools: Option<Vec<String>>,
}

/// A server that is spoken to over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteServer {
    /// Its address.
    pub url: String,
    /// The headers of each request.
    pub headers: BTreeMap<String, String>,
}

impl Plugin {
    /// Names it for people: `plugin word-stats`.
    pub fn title(&self) -> String {
        match &self.configured {
            Some(configured) => format!("MCP server {}", configured.name),
            None => format!("plugin {}", self.id),
        }
    }

    /// Returns the name by which the device offers a tool of it.
    pub fn offered_name(&self, tool: &str) -> String {
        match &self.configured {
            Some(configured) => format!("{}__{tool}", configured.name),
            None => tool.to_owned(),
        }
    }

    /// Returns its server's address, if it is not a program.
    pub fn remote_server(&self) -> Option<&RemoteServer> {
        self.configured.as_ref()?.remote.as_ref()
    }
}

/// The manifest as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    id: Option<String>,
    name: Option<String>,
    #[serde(default)]
    description: String,
    #[serde(default = "first_version")]
    version: String,
    command: Option<Vec<String>>,
    #[serde(default)]
    paths: WorkspaceAccess,
    #[serde(default)]
    network: ManifestNetwork,
    #[serde(default = "usual_timeout")]
    timeout: u64,
    #[serde(default)]
    effects: BTreeMap<String, NamedEffect>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ManifestNetwork {
    #[default]
    None,
    Ask,
}

fn first_version() -> String {
    "0.0.0".to_owned()
}

fn usual_timeout() -> u64 {
    60
}

/// Loads all plugins of the home, sorted by id, and the problems with the others. Starts nothing. Blocks.
pub fn load_plugins(home: &Home) -> (Vec<Plugin>, Vec<HomeProblem>) {
    let mut plugins = Vec::new();
    let mut problems = Vec::new();
    for folder in home_document::document_folders(&home.plugins_dir(), &mut problems) {
        match load_plugin(home, &folder) {
            Ok(plugin) => plugins.push(plugin),
            Err(message) => problems.push(HomeProblem::not_loaded(folder.join(FILE), message)),
        }
    }
    (plugins, problems)
}

/// Checks that the plugin in this folder below the home's plugins can be loaded, and returns it.
pub(super) fn load_plugin(home: &Home, folder: &Path) -> Result<Plugin, String> {
    load_plugin_below(home, &home.plugins_dir(), folder)
}

/// Checks a plugin in a folder below `plugins`, a folder of the home.
pub(super) fn load_plugin_below(
    home: &Home,
    plugins: &Path,
    folder: &Path,
) -> Result<Plugin, String> {
    let id = home_document::parse_document_id(folder)?;
    let text = document_file::read_document_text(home, &folder.join(FILE), FILE)
        .map_err(UnreadableDocument::into_text)?;
    let manifest = parse_manifest(&text)?;
    if let Some(written) = manifest.id.as_ref().filter(|written| **written != id) {
        return Err(format!(
            "its id is {written:?}, and its folder is called {id:?}. Give both the same name, or remove the line"
        ));
    }
    check_values(&manifest)?;
    let folder = plugin_folder::resolve_folder(plugins, folder)?;
    let (program, args) = match &manifest.command {
        Some(command) => {
            let (program, args) = resolve_command(&folder, command)?;
            (Some(program), args)
        }
        None if brings_documents(&folder) => (None, Vec::new()),
        None => {
            return Err(
                "it names no command, and has neither skills nor agents. Add the program of its server: command = \
                 [\"node\", \"server.js\"]"
                    .to_owned(),
            );
        }
    };
    let effects = manifest.effects.into_iter();
    let effects = effects.map(|(tool, effect)| (tool, ToolEffect::from(effect)));
    Ok(Plugin {
        name: manifest.name.unwrap_or_else(|| id.clone()),
        description: manifest.description,
        version: manifest.version,
        program,
        args,
        paths: manifest.paths,
        has_network: manifest.network == ManifestNetwork::Ask,
        timeout: Duration::from_secs(manifest.timeout),
        effects: effects.collect(),
        fingerprint: plugin_folder::plugin_fingerprint(&folder)?,
        folder,
        id,
        configured: None,
    })
}

/// Returns whether a plugin has a folder for skills or agents.
fn brings_documents(folder: &Path) -> bool {
    ["skills", "agents"]
        .iter()
        .any(|name| folder.join(name).is_dir())
}

/// Returns the id that a manifest gives, if it can be read and gives one.
pub(super) fn read_manifest_id(text: &str) -> Option<String> {
    parse_manifest(text).ok()?.id
}

/// Describes what the plugin of this manifest runs and may use, for the question to the owner.
pub(super) fn describe_manifest(text: &str) -> Result<String, String> {
    let manifest = parse_manifest(text)?;
    let Some(command) = manifest.command else {
        return Ok("it runs nothing itself, and brings skills or agents".to_owned());
    };
    let paths = match manifest.paths {
        WorkspaceAccess::Hidden => "sees no workspace",
        WorkspaceAccess::Read => "reads the workspaces",
        WorkspaceAccess::Write => "reads and writes the workspaces",
    };
    let network = match manifest.network {
        ManifestNetwork::None => "has no network",
        ManifestNetwork::Ask => "may ask for hosts",
    };
    Ok(format!(
        "it runs {:?}, {paths}, {network}",
        command.join(" ")
    ))
}

fn parse_manifest(text: &str) -> Result<Manifest, String> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or_else(String::new, |span| {
            let before = text.get(..span.start).unwrap_or(text);
            let line = 1 + before.matches('\n').count();
            format!("line {line}: ")
        });
        format!("{line}{}", error.message())
    })
}

fn check_values(manifest: &Manifest) -> Result<(), String> {
    if !(1..=MAX_TIMEOUT).contains(&manifest.timeout) {
        return Err(format!(
            "timeout = {} is not possible. Give seconds, from 1 to {MAX_TIMEOUT}",
            manifest.timeout
        ));
    }
    if manifest.description.chars().count() > MAX_DESCRIPTION {
        return Err(format!(
            "its description is longer than {MAX_DESCRIPTION} characters. Shorten it"
        ));
    }
    let reads = manifest
        .effects
        .iter()
        .find(|(_, effect)| **effect == NamedEffect::Reads);
    match reads {
        Some((tool, _)) if manifest.paths == WorkspaceAccess::Write => Err(format!(
            "{tool} cannot be one that only reads, because the plugin may write (paths = \"write\"). Leave it out of \
             [effects], or move it to a plugin with paths = \"read\""
        )),
        _ => Ok(()),
    }
}

/// Resolves the program: a bare name is looked for on the PATH when it starts; a path must stay in the folder.
fn resolve_command(folder: &Path, command: &[String]) -> Result<(String, Vec<String>), String> {
    let Some((program, args)) = command
        .split_first()
        .filter(|(program, _)| !program.trim().is_empty())
    else {
        return Err(
            "command is empty. Name a program and its arguments: command = [\"node\", \"server.js\"]"
                .to_owned(),
        );
    };
    if let Some(bad) = command.iter().find(|word| word.contains('\0')) {
        return Err(format!("{bad:?} in command has a NUL character"));
    }
    let leaves = |word: &&String| {
        let parts = Path::new(word.as_str()).components();
        parts.into_iter().any(|part| part == Component::ParentDir)
    };
    if let Some(word) = command.iter().find(leaves) {
        return Err(format!(
            "{word:?} in command leads out of the plugin's folder. Move the file into the folder"
        ));
    }
    let program = if program.contains('/') {
        plugin_folder::resolve_program(folder, program)?
    } else {
        program.clone()
    };
    Ok((program, args.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let checked = parse_manifest(text).and_then(|manifest| {
            check_values(&manifest)?;
            resolve_command(folder.path(), &manifest.command.unwrap_or_default()).map(drop)
        });
        checked.expect_err(text)
    }

    #[test]
    fn a_manifest_that_cannot_be_used_says_where_and_why() {
        for (text, words) in [
            (
                "command = [\"a\"]\n\nnetwrok = 1",
                "line 3: unknown field `netwrok`",
            ),
            ("command = []", "command is empty"),
            ("command = [\" \"]", "command is empty"),
            ("command = [\"a\"]\ntimeout = 0", "from 1 to 600"),
            ("command = [\"a\"]\ntimeout = 601", "from 1 to 600"),
            (
                "command = [\"a\"]\npaths = \"all\"",
                "line 2: unknown variant `all`",
            ),
            (
                "command = [\"node\", \"../other/server.js\"]",
                "leads out of the plugin's folder",
            ),
            ("command = [\"./missing\"]", "is not there"),
            (
                "command = [\"a\"]\npaths = \"write\"\n[effects]\nfind = \"reads\"",
                "find cannot be one that only reads",
            ),
        ] {
            let said = refused(text);
            assert!(said.contains(words), "{text}: {said}");
        }
    }
}
