//! `init`: writes a first configuration, or adds a workspace to it. Other commands store single keys in it by this
//! file's functions.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::{console, level_question, repository_question};
use crate::config::default_file::{self, KnownSettings};
use crate::config::file_edit::{self, KeyChange};
use crate::config::{BackendUrl, Config, ValueOrigin, WorkspaceRule};
use punie_core::durable::{self, Readers};
use punie_home::{ConfigLock, Home, HomeError, change_hint_flags, command_to_type};
use punie_host::find_workspace_fault;

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
        return add_to_existing_file(&file, context);
    }
    if file.exists() && context.try_config(WorkspaceRule::NotNeeded).is_err() {
        set_broken_file_aside(&file)?;
    }
    let mut config = context.effective_config(WorkspaceRule::NotNeeded)?;
    check_named_folders(&config)?;
    let home = CliContext::config_home(&config)?;
    if config.workspaces.is_empty() {
        config.workspaces = current_workspace(context);
    }
    let known = KnownSettings {
        backend_url: config.backend.url.clone(),
        workspaces: config.workspaces.clone(),
    };
    let lock = ConfigLock::acquire(&home)?;
    if file.exists() && !args.force {
        drop(lock);
        return add_to_existing_file(&file, context);
    }
    let text = default_file::render_default_config(&known);
    write_config(&lock, &config.file, &text)?;
    drop(lock);
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
    repository_question::ask_about_repositories(context, &config, &home)?;
    Ok(Exit::Done)
}

/// Offers to add the folders that `--workspace` names, or the current one, to the workspaces of an existing file.
fn add_to_existing_file(file: &Path, context: &CliContext) -> anyhow::Result<Exit> {
    let is_there = format!("{} is there already", file.display());
    let refuse = |why: &str| {
        let text = format!("{is_there}{why}; --force replaces the whole file");
        Err(CommandError::with_exit(Exit::Failed, text))
    };
    let in_file = context.with_flags(|flags| {
        flags.workspaces.clear();
        flags.backend_url = None;
    });
    let in_file = in_file.effective_config(WorkspaceRule::NotNeeded);
    let config = in_file.with_context(|| format!("{is_there}; --force replaces it"))?;
    let given = context.try_config(WorkspaceRule::NotNeeded)?;
    check_named_folders(&given)?;
    if given.backend.url != config.backend.url {
        return refuse(" and names another backend");
    }
    let Some(wanted) = find_wanted_folders(context, &given) else {
        return refuse(
            ", and the current folder cannot be a workspace. Go to the one to add, or name it with --workspace DIR",
        );
    };
    let (known, added): (Vec<PathBuf>, Vec<PathBuf>) = wanted
        .into_iter()
        .partition(|folder| config.workspaces.iter().any(|set| folder.starts_with(set)));
    if added.is_empty() {
        show_result(
            context,
            file,
            &format!(
                "{is_there}, and its workspaces include {}. There is nothing to do; --force replaces the file.",
                join_paths(&known)
            ),
        );
        return Ok(Exit::Done);
    }
    let names = join_paths(&added);
    if context.is_json() || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        let all = [&config.workspaces[..], &added].concat();
        return refuse(&format!(
            ", without {names} among its workspaces. To add it, write under [workspaces]:\n  {}\nOr type `{}` on a \
             terminal, which asks",
            file_edit::render_paths("paths", &all),
            command_to_type("init")
        ));
    }
    if !console::ask_yes_no(&format!("{is_there}. Add {names} to its workspaces?"))? {
        console::print_line("Nothing was changed.");
        return Ok(Exit::Failed);
    }
    let lock = ConfigLock::acquire(&Home::open_home(&config.home)?)?;
    let change = file_edit::add_paths(&read_config(file)?, "workspaces", "paths", &added);
    write_change(&lock, file, "workspaces", change)?;
    drop(lock);
    forget_stored_flags();
    show_result(
        context,
        file,
        &format!("Added {names} to the workspaces. A runner works there from its next start on."),
    );
    let mut with_them = config;
    with_them.workspaces.extend(added);
    let home = Home::open_home(&with_them.home)?;
    repository_question::ask_about_repositories(context, &with_them, &home)?;
    Ok(Exit::Done)
}

fn show_result(context: &CliContext, file: &Path, text: &str) {
    if context.is_json() {
        console::print_json(&json!({"config": file.display().to_string()}));
    } else {
        console::print_line(text);
    }
}

fn join_paths(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(" and ")
}

/// Returns whether the folders come from `--workspace`.
fn are_named_by_flag(config: &Config) -> bool {
    config.value_origin("workspaces.paths") == Some(&ValueOrigin::Flag("--workspace"))
}

/// Refuses a folder of `--workspace` that is missing: what is written into the file is probably mistyped then.
fn check_named_folders(config: &Config) -> anyhow::Result<()> {
    if !are_named_by_flag(config) {
        return Ok(());
    }
    for folder in &config.workspaces {
        if let Some(why) = find_workspace_fault(folder) {
            let shown = folder.display();
            let text = format!(
                "--workspace: the workspace {shown} {why}. Make the folder, or name another"
            );
            return Err(CommandError::with_exit(Exit::Config, text));
        }
    }
    Ok(())
}

/// Returns the folders of `--workspace`, else the current one, if it can be a workspace.
fn find_wanted_folders(context: &CliContext, given: &Config) -> Option<Vec<PathBuf>> {
    if are_named_by_flag(given) {
        return Some(given.workspaces.clone());
    }
    find_current_folder(context).map(|folder| vec![folder])
}

/// Returns the current folder, unless it is the user's own or overlaps a home of a runner.
fn find_current_folder(context: &CliContext) -> Option<PathBuf> {
    let current = context.environment().current_dir()?.canonicalize().ok()?;
    let user_dir = context.environment().user_dir();
    if user_dir
        .and_then(|folder| folder.canonicalize().ok())
        .as_ref()
        == Some(&current)
    {
        return None;
    }
    let with_it = context.with_flags(|flags| flags.workspaces = vec![current.clone()]);
    with_it.try_config(WorkspaceRule::NotNeeded).ok()?;
    Some(current)
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
pub(super) fn store_backend_url(config: &Config, home: &Home, url: &str) -> anyhow::Result<bool> {
    let kept =
        BackendUrl::parse(url).map_err(|cause| CommandError::with_exit(Exit::Config, cause))?;
    let lock = ConfigLock::acquire(home)?;
    if !config.file.exists() {
        let known = KnownSettings {
            backend_url: Some(kept),
            workspaces: config.workspaces.clone(),
        };
        let text = default_file::render_default_config(&known);
        write_config(&lock, &config.file, &text)?;
        forget_stored_flags();
        return Ok(true);
    }
    let set = store_key(&lock, &config.file, ["backend", "url"], url)?;
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
    lock: &ConfigLock,
    file: &Path,
    [table, key]: [&str; 2],
    value: &str,
) -> anyhow::Result<Option<String>> {
    let text = if file.exists() {
        read_config(file)?
    } else {
        default_file::render_default_config(&KnownSettings::default())
    };
    let change = file_edit::set_key(&text, table, key, value);
    write_change(lock, file, table, change)
}

fn read_config(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| file.display().to_string())
}

/// Writes a change to the file. Returns the value of a key that was set already.
fn write_change(
    lock: &ConfigLock,
    file: &Path,
    table: &str,
    change: KeyChange,
) -> anyhow::Result<Option<String>> {
    match change {
        KeyChange::AlreadySet(set) => Ok(Some(set)),
        KeyChange::NewText(text) => write_config(lock, file, &text).map(|()| None),
        KeyChange::NeedsOwner(line) => {
            let text = format!("add {line} to the table {table} in {}", file.display());
            Err(CommandError::with_exit(Exit::Config, text))
        }
    }
}

/// Writes the whole file. A link to it stays, and so does its mode.
pub(super) fn write_config(_: &ConfigLock, file: &Path, text: &str) -> anyhow::Result<()> {
    let target = if file.is_symlink() {
        std::fs::canonicalize(file)
    } else {
        Ok(file.to_owned())
    };
    let written = target
        .and_then(|target| durable::replace_file(&target, text.as_bytes(), Readers::AsBefore));
    written.map_err(|source| {
        let path = file.to_owned();
        HomeError::Unwritable { path, source }.into()
    })
}
