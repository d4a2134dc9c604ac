//! `init`: writes a first configuration. Other commands store single keys in it by this file's functions.
#![expect(
    clippy::disallowed_methods,
    reason = "it reads and writes the owner's own configuration file"
)]

use std::path::{Path, PathBuf};

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
use crate::home::{HomeError, change_hint_flags, command_to_type};

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Replace an existing configuration
    #[arg(long)]
    force: bool,
}

/// Writes the configuration with the values of the flags.
pub fn run_init(args: &InitArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let file = context.config_file()?;
    if file.exists() && !args.force {
        let text = format!("{} is there already; --force replaces it", file.display());
        return Err(CommandError::with_exit(Exit::Failed, text));
    }
    if file.exists() && context.try_config(WorkspaceRule::NotNeeded).is_err() {
        set_broken_file_aside(&file)?;
    }
    let mut config = context.effective_config(WorkspaceRule::NotNeeded)?;
    let home = CliContext::config_home(&config)?;
    if config.workspaces.is_empty() {
        config.workspaces = current_workspace(context);
    }
    let known = KnownSettings {
        backend_url: config.backend.url.clone(),
        workspaces: config.workspaces.clone(),
    };
    write_config(&config.file, &default_file::render_default_config(&known))?;
    forget_stored_flags();
    if context.is_json() {
        console::print_json(&json!({"config": config.file.display().to_string()}));
    } else {
        console::print_line(&format!(
            "Wrote {}. Every key is in it, with its default and what it does.",
            config.file.display()
        ));
        match config.workspaces.as_slice() {
            [] => console::print_line("No workspace is set: add paths under [workspaces]."),
            folders => folders.iter().for_each(|folder| {
                console::print_line(&format!("Workspace: {}", folder.display()));
            }),
        }
        console::print_line(&if config.backend.url.is_none() {
            format!(
                "Next: {}, which puts the address into it.",
                command_to_type("--backend-url URL pair CODE")
            )
        } else {
            format!(
                "Next: {}, with the code that the backend shows.",
                command_to_type("pair CODE")
            )
        });
    }
    // The file that was replaced may have set `require`.
    let config = context.effective_config(WorkspaceRule::NotNeeded)?;
    level_question::ask_about_level(context, &config, &home)?;
    Ok(Exit::Done)
}

/// Returns the current folder if a runner may work in it.
fn current_workspace(context: &CliContext) -> Vec<PathBuf> {
    let resolved = context.try_config(WorkspaceRule::OrCurrentDir);
    let mut folders = resolved.map_or_else(|_| Vec::new(), |config| config.workspaces);
    // In the user's own folder several would be found; the owner chooses among them.
    let current = context
        .environment()
        .current_dir()
        .and_then(|folder| folder.canonicalize().ok());
    folders.retain(|folder| Some(folder) == current.as_ref());
    folders
}

/// Renames a configuration that cannot be read.
fn set_broken_file_aside(file: &Path) -> anyhow::Result<()> {
    let aside = file.with_extension("toml.old");
    std::fs::rename(file, &aside).with_context(|| file.display().to_string())?;
    console::print_stderr(&format!(
        "The old configuration has errors. It is kept as {}.\n",
        aside.display()
    ));
    Ok(())
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
        forget_stored_flags();
        return Ok(true);
    }
    let set = store_key(&config.file, "backend", "url", url)?;
    let is_stored = set.is_none_or(|set| set.trim_end_matches('/') == url.trim_end_matches('/'));
    if is_stored {
        change_hint_flags(|flags| flags.backend_url = None);
    }
    Ok(is_stored)
}

/// Leaves out of hints what the configuration file has now.
fn forget_stored_flags() {
    change_hint_flags(|flags| {
        flags.backend_url = None;
        flags.workspaces.clear();
    });
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
    durable::replace_file(file, text.as_bytes(), Readers::AsBefore).map_err(|source| {
        let path = file.to_owned();
        HomeError::Unwritable { path, source }.into()
    })
}
