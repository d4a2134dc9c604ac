//! `mcp import`: takes over the servers that another MCP client names into `config.toml`; their secrets go to the store
//! of secrets.
#![expect(
    clippy::disallowed_methods,
    reason = "a project's own servers lie in the folder where the owner types"
)]

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use super::client_config::{ImportedServer, convert_entry, known_places, read_entries};
use crate::cli::context::CliContext;
use crate::cli::exit::{CommandError, Exit};
use crate::cli::{console, init};
use crate::config::default_file::{self, KnownSettings};
use crate::config::{Config, read_config_text};
use punie_home::{ConfigLock, SecretStore, command_to_type, shell_word};
use punie_text::redact::Secret;

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The file, such as .mcp.json or claude_desktop_config.json; without it, known places are listed
    file: Option<PathBuf>,
    /// Show what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Write without asking
    #[arg(long)]
    yes: bool,
}

/// Imports the servers of a file, or lists the files that are there.
pub fn run_import(args: &ImportArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let Some(file) = &args.file else {
        return list_places(context);
    };
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let entries = read_entries(&text).map_err(|why| {
        CommandError::with_exit(Exit::Failed, format!("{} {why}", file.display()))
    })?;
    let config = context.config_despite_faults()?;
    let home = CliContext::config_home(&config)?;
    let lock = ConfigLock::acquire(&home)?;
    let written = read_config_text(&config.file)
        .with_context(|| config.file.display().to_string())?
        .unwrap_or_else(|| default_file::render_default_config(&KnownSettings::default()));
    let mut import = Import {
        before: config
            .check_new_text(&written)
            .context("nothing was changed")?,
        store: SecretStore::in_home(&home),
        text: written,
        servers: Vec::new(),
        problems: Vec::new(),
    };
    for (name, entry) in &entries {
        let converted = convert_entry(name, entry, context.environment());
        let added = converted.and_then(|server| import.add_server(server));
        if let Err(why) = added {
            import.problems.push((name.clone(), why));
        }
    }
    import.print(args, context);
    if !args.dry_run && !import.servers.is_empty() {
        if !args.yes && !asks_owner()? {
            console::print_line("Nothing was written.");
            return Ok(Exit::Failed);
        }
        import.write(&lock)?;
        if !context.is_json() {
            console::print_line(&format!(
                "Wrote {}. `{}` shows what the servers offer; a runner that is up starts them now.",
                config.file.display(),
                command_to_type("plugins")
            ));
        }
    }
    Ok(if import.problems.is_empty() {
        Exit::Done
    } else {
        Exit::Failed
    })
}

fn asks_owner() -> anyhow::Result<bool> {
    if !CliContext::is_interactive() {
        let text =
            "nothing was written: nobody can be asked here. Add --yes, or --dry-run to look only";
        return Err(CommandError::with_exit(Exit::Usage, text));
    }
    Ok(console::ask_yes_no(
        "Write this? These programs run on this machine, confined as commands are.",
    )?)
}

/// Lists the files in known places, with the command that imports each.
fn list_places(context: &CliContext) -> anyhow::Result<Exit> {
    let places = known_places(&std::env::current_dir()?, context.environment().user_dir());
    let found = places.into_iter().filter_map(|place| {
        let text = std::fs::read_to_string(&place).ok()?;
        Some((read_entries(&text).ok()?.len(), place))
    });
    let found: Vec<(usize, PathBuf)> = found.filter(|(servers, _)| *servers > 0).collect();
    if context.is_json() {
        for (servers, place) in &found {
            console::print_json(&json!({"file": place, "servers": servers}));
        }
    } else if found.is_empty() {
        console::print_line(
            "No file of an MCP client was found in the known places. Name one: punie-runner mcp import FILE",
        );
    } else {
        let command = |place: &Path| {
            command_to_type(&format!(
                "mcp import {}",
                shell_word(&place.display().to_string())
            ))
        };
        let rows: Vec<Vec<String>> = found
            .iter()
            .map(|(servers, place)| vec![servers.to_string(), command(place)])
            .collect();
        console::print_table(&["SERVERS", "IMPORT WITH"], &rows);
    }
    Ok(Exit::Done)
}

/// What an import writes.
struct Import {
    /// The configuration with the servers so far.
    before: Config,
    store: SecretStore,
    text: String,
    servers: Vec<ImportedServer>,
    problems: Vec<(String, String)>,
}

impl Import {
    /// Adds a server to the text, if the result can be read.
    fn add_server(&mut self, server: ImportedServer) -> Result<(), String> {
        let mut there = self.before.mcp_servers.iter();
        if there.any(|other| other.name == server.name) {
            let name = &server.name;
            return Err(format!(
                "config.toml has mcp.servers.{name} already. Remove that, or rename one of them"
            ));
        }
        for (name, value) in &server.secrets {
            let stored = self.store.get(name).map_err(|error| error.to_string())?;
            if stored.is_some_and(|stored| stored.expose() != value) {
                return Err(format!(
                    "there is a secret {name} with another value. Remove it: {}",
                    command_to_type(&format!("secrets remove {name}"))
                ));
            }
        }
        let gap = if self.text.is_empty() || self.text.ends_with("\n\n") {
            ""
        } else if self.text.ends_with('\n') {
            "\n"
        } else {
            "\n\n"
        };
        let text = [&self.text, gap, &server.table].concat();
        self.before = self
            .before
            .check_new_text(&text)
            .map_err(|error| error.to_string())?;
        self.text = text;
        self.servers.push(server);
        Ok(())
    }

    /// Shows what is written, and what is not.
    fn print(&self, args: &ImportArgs, context: &CliContext) {
        let state = if args.dry_run {
            "would import"
        } else {
            "imports"
        };
        if context.is_json() {
            for server in &self.servers {
                let secrets: Vec<&String> = server.secrets.keys().collect();
                console::print_json(&json!({
                    "name": server.name, "state": state, "table": server.table, "secrets": secrets,
                }));
            }
            for (name, why) in &self.problems {
                console::print_json(&json!({"name": name, "state": "problem", "problem": why}));
            }
            return;
        }
        for server in &self.servers {
            console::print_unwrapped(&server.table);
        }
        let secrets = self.servers.iter().flat_map(|server| server.secrets.keys());
        let secrets: Vec<&str> = secrets.map(String::as_str).collect();
        if !secrets.is_empty() {
            console::print_line(&format!(
                "These go encrypted into the store of secrets, not into config.toml: {}.",
                secrets.join(", ")
            ));
        }
        for (name, why) in &self.problems {
            console::print_error(&format!("{name} is not imported: {why}"));
        }
    }

    /// Stores the secrets, then the text that names them.
    fn write(&self, lock: &ConfigLock) -> anyhow::Result<()> {
        for (name, value) in self.servers.iter().flat_map(|server| &server.secrets) {
            self.store.set_secret(name, &Secret::new(value.clone()))?;
        }
        init::write_config(lock, &self.before.file, &self.text)
    }
}
