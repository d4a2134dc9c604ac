//! `init`: writes a first configuration. Other commands store single keys in it by this file's functions.
#![expect(
    clippy::disallowed_methods,
    reason = "it reads and writes the owner's own configuration file"
)]

use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::{console, level_question};
use crate::config::default_file::{self, KnownSettings};
use crate::config::file_edit::{self, KeyChange};
use crate::config::{BackendUrl, Config, WorkspaceRule};
use crate::durable::{self, Readers};

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Replace an existing configuration
    #[arg(long)]
    force: bool,
}

/// Writes the configuration with the values of the flags.
pub fn run_init(args: &InitArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let config = context.effective_config(WorkspaceRule::NotNeeded)?;
    let home = CliContext::config_home(&config)?;
    if config.file.exists() && !args.force {
        let text = format!(
            "{} is there already; --force replaces it",
            config.file.display()
        );
        return Err(CommandError::with_exit(Exit::Failed, text));
    }
    let known = KnownSettings {
        backend_url: config.backend.url.clone(),
        workspaces: config.workspaces.clone(),
    };
    write_config(&config.file, &default_file::render_default_config(&known))?;
    if context.is_json() {
        console::print_json(&json!({"config": config.file.display().to_string()}));
    } else {
        console::print_line(&format!(
            "Wrote {}. Every key is in it, with its default and what it does.",
            config.file.display()
        ));
        if config.backend.url.is_none() {
            console::print_line(
                "Next: punie-runner --backend-url URL pair CODE, which puts the address into it.",
            );
        }
    }
    // The file that was replaced may have set `require`.
    let config = context.effective_config(WorkspaceRule::NotNeeded)?;
    level_question::ask_about_level(context, &config, &home)?;
    Ok(Exit::Done)
}

/// Stores this backend's address for a plain run. Returns false if the file names another one, which stays.
pub(super) fn store_backend_url(config: &Config, url: &str) -> anyhow::Result<bool> {
    let kept =
        BackendUrl::parse_url(url).map_err(|cause| CommandError::with_exit(Exit::Config, cause))?;
    if !config.file.exists() {
        let known = KnownSettings {
            backend_url: Some(kept),
            workspaces: config.workspaces.clone(),
        };
        write_config(&config.file, &default_file::render_default_config(&known))?;
        return Ok(true);
    }
    let set = store_key(&config.file, "backend", "url", url)?;
    Ok(set.is_none_or(|set| set.trim_end_matches('/') == url.trim_end_matches('/')))
}

/// Sets a key in the configuration file, unless the file sets it already: then returns the value there.
pub(super) fn store_key(
    file: &Path,
    table: &str,
    key: &str,
    value: &str,
) -> anyhow::Result<Option<String>> {
    let text = if file.exists() {
        std::fs::read_to_string(file).with_context(|| file.display().to_string())?
    } else {
        default_file::render_default_config(&KnownSettings::default())
    };
    match file_edit::set_key(&text, table, key, value) {
        KeyChange::AlreadySet(set) => Ok(Some(set)),
        KeyChange::NewText(text) => write_config(file, &text).map(|()| None),
        KeyChange::NeedsOwner(line) => {
            let text = format!("add {line} to the table {table} in {}", file.display());
            Err(CommandError::with_exit(Exit::Config, text))
        }
    }
}

fn write_config(file: &Path, text: &str) -> anyhow::Result<()> {
    durable::replace_file(file, text.as_bytes(), Readers::AsBefore).map_err(|cause| {
        CommandError::with_exit(Exit::CannotWrite, format!("{}: {cause}", file.display()))
    })
}
