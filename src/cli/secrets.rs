//! `secrets`: lists, sets and removes the owner's secrets for the commands of skills. Values are never shown and never
//! part of a command line.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Read};

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::hidden_input::HiddenInput;
use super::{asked_secret, console, display_time, table};
use punie_engine::runner::Clock;
use punie_home::{CopyTexts, Home, KeyPlace, SecretEntry, SecretRequest, SecretStore, load_skills};
use punie_text::redact::{Redactor, Secret};

/// A limit above that of any value.
const MAX_VALUE_BYTES: u64 = 1 << 20;

#[derive(Debug, Args)]
pub struct SecretsArgs {
    #[command(subcommand)]
    word: Option<SecretsCommand>,
}

#[derive(Debug, Subcommand)]
enum SecretsCommand {
    /// List the names (the default), when each was set, which skills use it, and which are missing
    List,
    /// Store a value, read from stdin or typed without being shown
    Set {
        /// The name that skills use for it
        name: String,
    },
    /// Delete a value
    Remove {
        /// The name
        name: String,
    },
    /// Show where the key of the secrets is, or move it
    Key {
        /// Move the key to a file of the home, or to the system's keychain
        #[arg(long, value_name = "PLACE")]
        to: Option<KeyLocation>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KeyLocation {
    File,
    Keychain,
}

/// One name, as `--json` shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SecretLine<'a> {
    name: &'a str,
    /// Null if skills ask for it and no value is stored.
    set_at_ms: Option<i64>,
    used_by: Vec<&'a str>,
    /// The time when a command last got it.
    used_at_ms: Option<i64>,
    /// The agent's request that it answers.
    asked: Option<&'a SecretRequest>,
}

/// Lists the secrets, or changes one.
pub fn run_secrets(args: &SecretsArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let home = context.open_home()?;
    match &args.word {
        None | Some(SecretsCommand::List) => print_secrets(&home, context.is_json()),
        Some(SecretsCommand::Set { name }) => prompt_and_set_secret(&home, name, context.is_json()),
        Some(SecretsCommand::Remove { name }) => {
            remove_named_secret(&home, name, context.is_json())
        }
        Some(SecretsCommand::Key { to }) => show_or_move_key(&home, *to, context.is_json()),
    }
}

fn show_or_move_key(home: &Home, to: Option<KeyLocation>, as_json: bool) -> anyhow::Result<Exit> {
    let secrets = SecretStore::in_home(home);
    let wanted = to.map(|place| match place {
        KeyLocation::File => KeyPlace::File,
        KeyLocation::Keychain => KeyPlace::Keychain,
    });
    let moved = wanted.map_or(Ok(false), |place| secrets.move_key_to(place))?;
    let place = secrets.key_place()?;
    if as_json {
        console::print_json(&serde_json::json!({ "place": place, "moved": moved }));
        return Ok(Exit::Done);
    }
    let verb = if moved { "is now" } else { "is" };
    console::print_line(&match place {
        KeyPlace::File => format!("The key {verb} in {}.", home.secrets_key_file().display()),
        KeyPlace::Keychain => format!(
            "The key {verb} in the system's keychain. While that is locked, nothing of the secrets can be read, and no \
             skill gets one."
        ),
    });
    Ok(Exit::Done)
}

fn print_secrets(home: &Home, as_json: bool) -> anyhow::Result<Exit> {
    let kept = SecretStore::in_home(home).list()?;
    let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let (skills, _) = load_skills(home, CopyTexts::No);
    for skill in skills.into_iter().filter(|skill| skill.enabled) {
        for mount in skill.secrets {
            users
                .entry(mount.provider)
                .or_default()
                .insert(skill.id.clone());
        }
    }
    let used_by = |name: &str| -> Vec<&str> {
        users
            .get(name)
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect()
    };
    let is_kept = |name: &str| kept.iter().any(|entry| entry.name == name);
    let there = kept.iter().map(|entry| (entry.name.as_str(), Some(entry)));
    let missing = users
        .keys()
        .filter(|name| !is_kept(name))
        .map(|name| (name.as_str(), None));
    let lines: Vec<SecretLine<'_>> = there
        .chain(missing)
        .map(|(name, entry): (_, Option<&SecretEntry>)| SecretLine {
            name,
            set_at_ms: entry.map(|entry| entry.set_at_ms),
            used_by: used_by(name),
            used_at_ms: entry.and_then(|entry| entry.used_at_ms),
            asked: entry.and_then(|entry| entry.asked.as_ref()),
        })
        .collect();
    if as_json {
        lines.iter().for_each(console::print_json);
    } else {
        let now_ms = Clock::system().now_ms();
        let age = |at: Option<i64>, none: &str| {
            at.map_or_else(
                || none.to_owned(),
                |at| display_time::format_age(at, now_ms),
            )
        };
        let asked = |asked: &SecretRequest| {
            let id = table::short_id(&asked.request);
            let purpose = &asked.purpose;
            console::cell_text(&format!("{id} {purpose}"), usize::MAX)
        };
        let row = |line: &SecretLine<'_>| {
            vec![
                console::cell_text(line.name, usize::MAX),
                age(line.set_at_ms, "missing"),
                age(line.used_at_ms, ""),
                line.asked.map(asked).unwrap_or_default(),
                console::cell_text(&line.used_by.join(", "), usize::MAX),
            ]
        };
        console::print_list(
            &["NAME", "SET", "USED", "ASKED BY", "SKILLS"],
            &lines.iter().map(row).collect::<Vec<_>>(),
            "No secrets are kept, and no skill asks for one.",
        );
    }
    Ok(Exit::Done)
}

/// Reads a value from the terminal, where it is not shown, or from stdin.
pub(super) fn read_value(name: &str) -> anyhow::Result<Secret<String>> {
    if std::io::stdin().is_terminal() {
        prompt_for_value(name)
    } else {
        read_piped_value()
    }
}

fn prompt_and_set_secret(home: &Home, name: &str, as_json: bool) -> anyhow::Result<Exit> {
    let value = read_value(name)?;
    let is_new = asked_secret::store_and_answer(home, name, &value)?;
    let masked = Redactor::default().add_secret(&value);
    if as_json {
        console::print_json(&serde_json::json!({ "name": name, "new": is_new, "masked": masked }));
        return Ok(Exit::Done);
    }
    console::print_line(&format!(
        "{name} is {}.",
        if is_new { "kept" } else { "replaced" }
    ));
    if !masked {
        console::print_line(
            "It is too short to be masked: fewer than eight bytes would be found in innocent text. A command that prints \
             it shows it.",
        );
    }
    Ok(Exit::Done)
}

fn remove_named_secret(home: &Home, name: &str, as_json: bool) -> anyhow::Result<Exit> {
    let was_there = SecretStore::in_home(home).remove(name)?;
    if !was_there {
        return Err(CommandError::with_exit(
            Exit::Failed,
            format!("there is no secret {name:?}; `secrets list` shows the names"),
        ));
    }
    if as_json {
        console::print_json(&serde_json::json!({ "name": name, "removed": true }));
    } else {
        console::print_line(&format!("{name} is removed."));
    }
    Ok(Exit::Done)
}

/// Reads all of stdin.
fn read_piped_value() -> anyhow::Result<Secret<String>> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(MAX_VALUE_BYTES)
        .read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| CommandError::with_exit(Exit::Usage, "the value is not UTF-8 text"))?;
    Ok(Secret::new(strip_line_end(text)))
}

/// Strips the line end from a value of one line, where `echo` and editors add it. A value of several lines stays as it
/// is, because a key file needs its last line end.
fn strip_line_end(text: String) -> String {
    match text
        .strip_suffix('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
    {
        Some(line) if !line.contains('\n') => line.to_owned(),
        _ => text,
    }
}

/// Reads a line from the terminal without echo.
fn prompt_for_value(name: &str) -> anyhow::Result<Secret<String>> {
    let _hidden = HiddenInput::begin().map_err(|error| {
        let text = format!("give the value on stdin: the terminal would show it ({error})");
        CommandError::with_exit(Exit::Usage, text)
    })?;
    console::print_stderr(&format!(
        "The value of {name} (one line; it is not shown): "
    ));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(Secret::new(strip_line_end(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_end_that_echo_adds_is_no_part_of_the_value_and_a_key_file_keeps_its_own() {
        assert_eq!(strip_line_end("token\n".to_owned()), "token");
        assert_eq!(strip_line_end("token\r\n".to_owned()), "token");
        assert_eq!(strip_line_end("token".to_owned()), "token");
        assert_eq!(strip_line_end(" to ken \n".to_owned()), " to ken ");
        let key = "-----BEGIN X-----\nabc\n-----END X-----\n";
        assert_eq!(strip_line_end(key.to_owned()), key);
    }
}
