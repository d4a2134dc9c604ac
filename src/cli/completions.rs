//! `completions`: prints a shell's completion script. The script asks this program for the words that fit, so that it
//! also knows the tools, rules and requests of this home.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::sync::Arc;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};

use super::approvals::{list_open_questions, short_id};
use super::context::{CliContext, command_runtime};
use super::exit::Exit;
use super::{command_groups, console, table, wiring};
use crate::config::{
    Config, GlobalFlags, KeyDescription, ProcessEnvironment, WorkspaceRule, list_keys,
};
use punie_engine::journal::{HistoryQuery, JournalReader};
use punie_home::{CopyTexts, Home, load_agents, load_skills};
use punie_host::active_rules::ActiveRules;

/// The variable by which the script asks for words.
const ASK_VARIABLE: &str = "PUNIE_COMPLETE";
/// The most requests that are offered, the latest first.
const MAX_REQUESTS: u32 = 30;

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// bash, elvish, fish, powershell or zsh
    shell: Shell,
}

/// Prints the script.
pub fn run_completions(args: &CompletionsArgs) -> anyhow::Result<Exit> {
    let script = completion_script(&args.shell.to_string())?;
    console::print_unwrapped(script.trim_end());
    Ok(Exit::Done)
}

/// Returns the completion script of a shell: bash, elvish, fish, powershell or zsh.
///
/// # Errors
/// There is none for this shell.
pub fn completion_script(shell: &str) -> io::Result<String> {
    let shells = Shells::builtins();
    let completer = shells
        .completer(shell)
        .ok_or_else(|| io::Error::other(format!("there is no completion script for {shell}")))?;
    let program = "punie-runner";
    let mut script = Vec::new();
    completer.write_registration(ASK_VARIABLE, "punie_runner", program, program, &mut script)?;
    String::from_utf8(script).map_err(io::Error::other)
}

/// Answers the script of a shell, if it asked.
///
/// # Errors
/// The shell is unknown, or stdout cannot be written.
pub(super) fn answer_shell(args: &[OsString]) -> clap::error::Result<bool> {
    CompleteEnv::with_factory(completed_command)
        .var(ASK_VARIABLE)
        .try_complete(args, None)
}

/// Lists the words for an argument.
type ListCandidates = fn() -> Vec<CompletionCandidate>;

/// The arguments whose words depend on the home: the path of the command, the argument, and its words.
const ARGUMENTS: &[(&[&str], &str, ListCandidates)] = &[
    (&["send"], "tool", tool_names),
    (&["call"], "tool", tool_names),
    (&["tools"], "name", tool_names),
    (&["history"], "tool", tool_names),
    (&["policy", "test"], "tool", tool_names),
    (&["policy", "allow"], "tool", tool_names),
    (&["policy", "deny"], "tool", tool_names),
    (&["policy", "allow"], "words", rule_names),
    (&["policy", "revoke"], "id", grant_ids),
    (&["history"], "request", request_ids),
    (&["undo"], "request", request_ids),
    (&["diff"], "request", request_ids),
    (&["trash", "restore"], "request", request_ids),
    (&["cancel"], "request", open_request_ids),
    (&["stop"], "id", open_request_ids),
    (&["approvals", "show"], "id", question_ids),
    (&["approvals", "allow"], "id", question_ids),
    (&["approvals", "deny"], "id", question_ids),
    (&["config", "get"], "key", config_keys),
    (&["config", "set"], "key", config_keys),
    (&["config", "explain"], "key", config_keys),
    (&["questions", "answer"], "id", question_ids),
    (&["questions", "refuse"], "id", question_ids),
    (&["skills", "show"], "id", skill_ids),
    (&["agents", "show"], "id", agent_ids),
    (&["secrets", "set"], "name", secret_names),
    (&["secrets", "remove"], "name", secret_names),
];

fn completed_command() -> Command {
    let command = command_groups::grouped_command();
    ARGUMENTS
        .iter()
        .fold(command, |command, (path, argument, list)| {
            add_candidates(command, path, argument, *list)
        })
}

fn add_candidates(
    command: Command,
    path: &[&'static str],
    argument: &'static str,
    list: ListCandidates,
) -> Command {
    match path {
        // `mut_arg` would move a positional argument behind the others.
        [] => command.mut_args(|found| {
            if found.get_id() == argument {
                found.add(ArgValueCandidates::new(list))
            } else {
                found
            }
        }),
        [first, rest @ ..] => {
            command.mut_subcommand(first, |below| add_candidates(below, rest, argument, list))
        }
    }
}

/// Returns the home of the environment, if there is one already: completing words creates none.
fn open_existing_home() -> Option<(CliContext, Config, Home)> {
    let flags = GlobalFlags {
        log: Some("off".to_owned()),
        ..GlobalFlags::default()
    };
    let context = CliContext::new(flags, ProcessEnvironment::from_process());
    let config = context.effective_config(WorkspaceRule::NotNeeded).ok()?;
    if !config.home.is_dir() {
        return None;
    }
    let home = CliContext::config_home(&config).ok()?;
    Some((context, config, home))
}

fn tool_names() -> Vec<CompletionCandidate> {
    let list = || {
        let (context, config, home) = open_existing_home()?;
        let runtime = command_runtime().ok()?;
        let _inside = runtime.enter();
        let host = wiring::assemble_lone_host(&config, &home, context.environment()).ok()?;
        let own = host.registry.device_specs();
        let own = own.filter(|spec| spec.offered && spec.same_as.is_none());
        Some(
            own.map(|spec| described(spec.name.as_ref(), &spec.summary()))
                .collect(),
        )
    };
    list().unwrap_or_default()
}

fn config_keys() -> Vec<CompletionCandidate> {
    let keys = list_keys().into_iter();
    let described_key = |key| Some(described(key, &KeyDescription::find_key(key).ok()?.about));
    keys.filter_map(described_key).collect()
}

fn rule_names() -> Vec<CompletionCandidate> {
    let list = || {
        let rules = load_rules()?.current_rules().rules;
        let candidates = rules.rules.iter().map(|rule| {
            let reason = rule.reason.as_deref().unwrap_or_default();
            described(&rule.name, &format!("{} {reason}", rule.decision.as_str()))
        });
        Some(candidates.collect())
    };
    list().unwrap_or_default()
}

fn grant_ids() -> Vec<CompletionCandidate> {
    let list = || {
        let grants = load_rules()?.grants_for(None);
        let candidates = grants
            .iter()
            .map(|grant| CompletionCandidate::new(table::short_id(&grant.id)));
        Some(candidates.collect())
    };
    list().unwrap_or_default()
}

fn load_rules() -> Option<ActiveRules> {
    let (_, config, home) = open_existing_home()?;
    // The names of tools in the file do not matter here.
    ActiveRules::load_from_home(&home, config.workspaces, Arc::new(|_: &str| true)).ok()
}

fn request_ids() -> Vec<CompletionCandidate> {
    list_requests(false)
}

fn open_request_ids() -> Vec<CompletionCandidate> {
    list_requests(true)
}

fn list_requests(open: bool) -> Vec<CompletionCandidate> {
    let list = || {
        let (_, _, home) = open_existing_home()?;
        let reader = JournalReader::find(&home.journal_file()).ok()??;
        let query = HistoryQuery {
            limit: MAX_REQUESTS,
            open,
            ..HistoryQuery::default()
        };
        let entries = reader.list_history(&query).ok()?;
        let what = |title: Option<&str>| title.unwrap_or_default().to_owned();
        let candidates = entries.iter().map(|entry| {
            let what = format!("{} {}", entry.tool, what(entry.title.as_deref()));
            described(table::short_id(&entry.id), &what)
        });
        Some(candidates.collect())
    };
    list().unwrap_or_default()
}

fn question_ids() -> Vec<CompletionCandidate> {
    let list = || {
        let (_, _, home) = open_existing_home()?;
        let open = list_open_questions(&home).ok()?;
        let calls = open.iter().filter(|question| question.input.is_none());
        let candidates = calls.map(|call| described(short_id(call), &call.title));
        Some(candidates.collect())
    };
    list().unwrap_or_default()
}

fn skill_ids() -> Vec<CompletionCandidate> {
    let list = || {
        let (_, _, home) = open_existing_home()?;
        let (skills, _) = load_skills(&home, CopyTexts::No);
        let candidates = skills
            .iter()
            .map(|skill| described(&skill.id, &skill.description));
        Some(candidates.collect())
    };
    list().unwrap_or_default()
}

fn agent_ids() -> Vec<CompletionCandidate> {
    let list = || {
        let (_, _, home) = open_existing_home()?;
        let (agents, _) = load_agents(&home, CopyTexts::No);
        let candidates = agents
            .iter()
            .map(|agent| described(&agent.id, &agent.description));
        Some(candidates.collect())
    };
    list().unwrap_or_default()
}

/// Lists the names that skills want. Those of the stored secrets are encrypted, and reading them may open the keychain.
fn secret_names() -> Vec<CompletionCandidate> {
    let list = || {
        let (_, _, home) = open_existing_home()?;
        let (skills, _) = load_skills(&home, CopyTexts::No);
        let mounts = skills.into_iter().flat_map(|skill| skill.secrets);
        let names: BTreeSet<String> = mounts.map(|mount| mount.provider).collect();
        Some(names.into_iter().map(CompletionCandidate::new).collect())
    };
    list().unwrap_or_default()
}

fn described(word: &str, what: &str) -> CompletionCandidate {
    CompletionCandidate::new(word).help(Some(console::cell_text(what, 60).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_with_words_of_the_home_exists() {
        let command = completed_command();
        command.clone().debug_assert();
        for (path, argument, _) in ARGUMENTS {
            let below = path
                .iter()
                .try_fold(&command, |command, name| command.find_subcommand(name));
            let mut arguments = below.expect("a command").get_arguments();
            assert!(
                arguments.any(|found| found.get_id() == *argument),
                "{path:?} {argument}"
            );
        }
    }
}
