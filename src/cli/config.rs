//! `config`: shows the settings and their origins, and changes the configuration file. A change is checked before it is
//! written.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::{console, init};
use crate::config::default_file::{self, KnownSettings};
use crate::config::file_edit::{self, KeyChange};
use crate::config::{
    Config, ConfigError, KeyDescription, ValueOrigin, WorkspaceRule, list_keys, read_config_text,
};
use punie_core::durable::{self, Readers};
use punie_core::ids::to_hex;
use punie_home::{ConfigLock, Home, command_to_type};

#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print the value of a key, or all values with their origins
    Get {
        /// The key with its table, such as limits.reads
        key: Option<String>,
    },
    /// Set a key in the file; every other line stays
    Set {
        /// The key with its table, such as limits.reads
        key: String,
        /// The value; a text needs no quotes, a list is written as in TOML
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Open the file in your editor, and take it over if it has no faults
    Edit,
    /// Print the path of the file
    Path,
    /// Show a key's meaning, default, allowed values and origin
    Explain {
        /// The key with its table, such as limits.reads
        key: String,
    },
}

/// Runs a subcommand of `config`.
pub fn run_config(args: &ConfigArgs, context: &CliContext) -> anyhow::Result<Exit> {
    match &args.command {
        ConfigCommand::Get { key: Some(key) } => print_value(key, context),
        ConfigCommand::Get { key: None } => print_all_values(context),
        ConfigCommand::Set { key, value } => set_value(key, value, context),
        ConfigCommand::Edit => edit_file(context),
        ConfigCommand::Path => print_path(context),
        ConfigCommand::Explain { key } => explain_key(key, context),
    }
}

fn find_key(key: &str) -> anyhow::Result<KeyDescription> {
    KeyDescription::find_key(key).map_err(|text| CommandError::with_exit(Exit::Usage, text))
}

/// Returns the value in force, as a file would have it, and its origin. The rights of all callers are one value.
fn find_value<'c>(config: &'c Config, key: &str) -> Option<(&'c str, &'c ValueOrigin)> {
    let is_of_caller = key.starts_with("callers.");
    let key = if is_of_caller { "callers" } else { key };
    let mut settings = config.all_settings().iter();
    let setting = settings.find(|setting| setting.key == key)?;
    Some((&setting.value, &setting.origin))
}

fn print_value(key: &str, context: &CliContext) -> anyhow::Result<Exit> {
    let key = find_key(key)?.key;
    let config = context.effective_config(WorkspaceRule::NotNeeded)?;
    let Some((value, origin)) = find_value(&config, key) else {
        let text = format!("{key} is not set");
        return Err(CommandError::with_exit(Exit::Failed, text));
    };
    if context.is_json() {
        console::print_json(&json!({"key": key, "value": value, "origin": origin.to_string()}));
    } else {
        console::print_unwrapped(value);
    }
    Ok(Exit::Done)
}

fn print_all_values(context: &CliContext) -> anyhow::Result<Exit> {
    let config = context.effective_config(WorkspaceRule::NotNeeded)?;
    let keys = list_keys().into_iter();
    let keys = keys.filter(|key| !key.starts_with("callers."));
    let settings = keys.chain(["callers"]).filter_map(|key| {
        let (value, origin) = find_value(&config, key)?;
        Some((key, value, origin.to_string()))
    });
    if context.is_json() {
        for (key, value, origin) in settings {
            console::print_json(&json!({"key": key, "value": value, "origin": origin}));
        }
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = settings
        .map(|(key, value, origin)| vec![key.to_owned(), console::cell_text(value, 40), origin])
        .collect();
    console::print_table(&["key", "value", "from"], &rows);
    Ok(Exit::Done)
}

fn print_path(context: &CliContext) -> anyhow::Result<Exit> {
    let file = context.config_file()?;
    if context.is_json() {
        console::print_json(&json!({"path": file.display().to_string(), "exists": file.exists()}));
    } else {
        console::print_unwrapped(&file.display().to_string());
    }
    Ok(Exit::Done)
}

fn explain_key(key: &str, context: &CliContext) -> anyhow::Result<Exit> {
    let key = find_key(key)?;
    // A file with faults must not keep anybody from learning what is allowed.
    let (config, fault) = context.config_with_fault()?;
    if let Some(fault) = fault {
        console::print_error(&format!(
            "the file was not read, so its values are missing here: {fault}"
        ));
    }
    let (value, origin) = find_value(&config, key.key)
        .map_or(("not set", "default".to_owned()), |(value, origin)| {
            (value, origin.to_string())
        });
    if context.is_json() {
        console::print_json(&json!({
            "key": key.key,
            "about": key.about,
            "value": value,
            "origin": origin,
            "default": key.default,
            "allowed": key.allowed,
            "takesEffect": key.takes_effect,
        }));
        return Ok(Exit::Done);
    }
    console::print_line(&key.about);
    console::print_line("");
    console::print_row("Value", value);
    console::print_row("From", &origin);
    console::print_row("Default", key.default.as_deref().unwrap_or("not set"));
    console::print_row("Allowed", &key.allowed);
    console::print_row("Takes effect", key.takes_effect);
    Ok(Exit::Done)
}

/// Reads the file, or returns the text that `init` would write.
fn read_or_render(file: &Path) -> anyhow::Result<String> {
    let text = read_config_text(file).with_context(|| file.display().to_string())?;
    Ok(text.unwrap_or_else(|| default_file::render_default_config(&KnownSettings::default())))
}

fn set_value(key: &str, value: &str, context: &CliContext) -> anyhow::Result<Exit> {
    let key = find_key(key)?;
    if key.table == "callers.NAME" {
        let text = format!(
            "each caller has a table of its own: write it with `{}`, as in [callers.ci]",
            command_to_type("config edit")
        );
        return Err(CommandError::with_exit(Exit::Usage, text));
    }
    let config = context.config_despite_faults()?;
    let lock = ConfigLock::acquire(&Home::open_home(&config.home)?)?;
    let text = read_or_render(&config.file)?;
    // A value is taken as it is in TOML if it fits so, else as a text that lacks its quotes.
    let in_toml = file_edit::is_toml_value(value).then(|| value.to_owned());
    let quoted = file_edit::quote_text(value);
    let mut first_fault: Option<ConfigError> = None;
    for value in in_toml.into_iter().chain([quoted]) {
        let new_text = match file_edit::replace_key(&text, key.table, key.name, &value) {
            KeyChange::NewText(new_text) => new_text,
            KeyChange::AlreadySet(_) | KeyChange::NeedsOwner(_) => {
                return Err(explain_needed_hand(&config, &text, &key));
            }
        };
        match config.check_new_text(&new_text) {
            Ok(newer) => {
                CliContext::config_home(&newer)?;
                init::write_config(&lock, &config.file, &new_text)?;
                report_set(&key, &newer, &value, context);
                return Ok(Exit::Done);
            }
            Err(fault) => first_fault = first_fault.or(Some(fault)),
        }
    }
    match first_fault {
        Some(fault) => Err(anyhow::Error::new(fault).context("nothing was changed")),
        None => Ok(Exit::Failed),
    }
}

/// Explains why the file was not changed: it has faults, or its form or comments would be lost.
fn explain_needed_hand(config: &Config, text: &str, key: &KeyDescription) -> anyhow::Error {
    if let Err(fault) = config.check_new_text(text) {
        return anyhow::Error::new(fault).context("nothing was changed");
    }
    let text = format!(
        "nothing was changed, because this table or list is written in a form that the command would spoil. Set {} in \
         the table {} of {} by hand",
        key.name,
        key.table,
        config.file.display()
    );
    CommandError::with_exit(Exit::Config, text)
}

fn report_set(key: &KeyDescription, newer: &Config, value: &str, context: &CliContext) {
    let overriding = match newer.value_origin(key.key) {
        Some(origin @ (ValueOrigin::Flag(_) | ValueOrigin::Variable(_))) => {
            Some(origin.to_string())
        }
        _ => None,
    };
    // A value is shown as `config get` shows it, because a proxy's address may hold a password.
    let in_force = find_value(newer, key.key).filter(|_| overriding.is_none());
    let value = in_force.map_or(value, |(value, _)| value);
    if context.is_json() {
        console::print_json(&json!({
            "key": key.key,
            "value": value,
            "file": newer.file.display().to_string(),
            "takesEffect": key.takes_effect,
            "overriddenBy": overriding,
        }));
        return;
    }
    console::print_line(&format!(
        "Set {} = {value} in {}. It takes effect {}.",
        key.key,
        newer.file.display(),
        key.takes_effect
    ));
    if let Some(overriding) = overriding {
        console::print_line(&format!(
            "{overriding} goes before the file: unset it to use this value."
        ));
    }
}

/// Opens a copy of the file in the owner's editor, and replaces the file by it if it has no faults. A copy with faults
/// stays beside the file, and the next edit goes on with it while the file is still the one that was copied.
fn edit_file(context: &CliContext) -> anyhow::Result<Exit> {
    let config = context.config_despite_faults()?;
    let home = CliContext::config_home(&config)?;
    let text = read_or_render(&config.file)?;
    let copy = config.file.with_extension("edit.toml");
    let hash = hash_text(&text);
    let hash_file = config.file.with_extension("edit.sha256");
    if copy.exists() {
        if std::fs::read_to_string(&hash_file).ok().as_ref() != Some(&hash) {
            return refuse_outdated_copy(&config.file, &copy);
        }
        let text = format!("This goes on with your last edit, {}.\n", copy.display());
        console::print_stderr(&text);
    } else {
        durable::replace_file(&hash_file, hash.as_bytes(), Readers::OwnerOnly)
            .and_then(|()| durable::create_file(&copy, text.as_bytes(), Readers::OwnerOnly))
            .with_context(|| copy.display().to_string())?;
    }
    let remove_copy =
        || std::fs::remove_file(&copy).and_then(|()| std::fs::remove_file(&hash_file));
    let keeps_copy = |why: &str| {
        let text = format!(
            "{why}. The configuration is as before. Your text is in {}: `{}` goes on with it, and without that file \
             begins anew",
            copy.display(),
            command_to_type("config edit")
        );
        Err(CommandError::with_exit(Exit::Config, text))
    };
    loop {
        let ran = run_editor(&copy, context);
        let edited = std::fs::read_to_string(&copy).with_context(|| copy.display().to_string())?;
        if edited == text {
            remove_copy()?;
            ran?;
            console::print_line("Nothing was changed.");
            return Ok(Exit::Done);
        }
        ran?;
        if let Err(fault) = config.check_new_text(&edited) {
            console::print_error(&fault.to_string());
            if asks_to_edit_again()? {
                continue;
            }
            return keeps_copy("The edited text has faults");
        }
        let lock = ConfigLock::acquire(&home)?;
        if read_or_render(&config.file)? != text {
            return refuse_outdated_copy(&config.file, &copy);
        }
        init::write_config(&lock, &config.file, &edited)?;
        remove_copy()?;
        console::print_line(&format!(
            "Wrote {}. `{}` shows what waits for a restart.",
            config.file.display(),
            command_to_type("status")
        ));
        return Ok(Exit::Done);
    }
}

fn hash_text(text: &str) -> String {
    to_hex(&Sha256::digest(text))
}

fn refuse_outdated_copy(file: &Path, copy: &Path) -> anyhow::Result<Exit> {
    let text = format!(
        "{} was changed after the edit in {} began, and taking that over would undo the change. Nothing was written. \
         Compare the two files, remove {}, then type `{}`",
        file.display(),
        copy.display(),
        copy.display(),
        command_to_type("config edit")
    );
    Err(CommandError::with_exit(Exit::Config, text))
}

fn asks_to_edit_again() -> io::Result<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    let answer = console::ask_line("Edit it again? [Y/n] ")?;
    Ok(matches!(answer.as_deref(), Some("" | "y" | "Y" | "yes")))
}

/// Runs the editor of the environment and waits for its end. Its variable may have arguments, as in `code --wait`.
fn run_editor(file: &Path, context: &CliContext) -> anyhow::Result<()> {
    let environment = context.environment();
    let named = environment
        .get("VISUAL")
        .or_else(|| environment.get("EDITOR"));
    let editor = named.map_or_else(
        || if cfg!(windows) { "notepad" } else { "vi" }.to_owned(),
        |named| named.to_string_lossy().into_owned(),
    );
    let mut command = if cfg!(windows) {
        let mut words = editor.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or("notepad"));
        command.args(words);
        command
    } else {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec {editor} \"$1\""), "sh"]);
        command
    };
    let status = command.arg(file).status().with_context(|| editor.clone())?;
    if status.success() {
        return Ok(());
    }
    let text = format!(
        "`{editor}` ended with {status}. Nothing was changed. VISUAL or EDITOR names another editor"
    );
    Err(CommandError::with_exit(Exit::Failed, text))
}
