//! A rule's own examples: what it must fit and what it must not.

use std::path::{Path, PathBuf};

use super::call::TouchedPath;
use super::command_line::{CommandLine, read_command_line};
use super::decision::PolicyDecision;
use super::host::matches_example;
use super::rule::{CallPart, PolicyRule, RuleFit};

/// Holds a rule against its examples.
pub(super) fn check_examples(
    rule: &PolicyRule,
    matches: &[String],
    no_match: &[String],
) -> Result<(), String> {
    if let Some(missed) = matches
        .iter()
        .find(|example| !fits_example(rule, example, false))
    {
        return Err(format!("it does not fit its example {missed:?} of `match`"));
    }
    if let Some(fitted) = no_match
        .iter()
        .find(|example| fits_example(rule, example, true))
    {
        return Err(format!(
            "it fits, or may fit, its example {fitted:?} of `no_match`"
        ));
    }
    Ok(())
}

/// Returns whether a rule fits an example: a host, a folder, a command line, a path, or a tool's name, by what the rule is about.
fn fits_example(rule: &PolicyRule, example: &str, also_perhaps: bool) -> bool {
    if !rule.hosts.is_empty() {
        return matches_example(rule, example);
    }
    if !rule.folders.is_empty() {
        let is_below = |folder: &PathBuf| Path::new(example).starts_with(folder);
        return rule.folders.iter().any(is_below);
    }
    if !rule.command.is_empty() {
        let script = read_command_line(example);
        return parts_of_line(&script).any(|part| fits_part(rule, part, also_perhaps));
    }
    if !rule.paths.is_empty() {
        let place = TouchedPath {
            shown: example.to_owned(),
            relative: vec![example.to_owned()],
            absolute: vec![example.to_owned()],
            known: true,
            is_folder: false,
        };
        return fits_part(rule, CallPart::Place(&place), also_perhaps);
    }
    rule.tools.iter().any(|word| word == example)
}

fn parts_of_line(script: &CommandLine) -> impl Iterator<Item = CallPart<'_>> {
    let commands = script
        .commands
        .iter()
        .map(|simple| CallPart::Command(simple, script.sets_variables));
    commands.chain(script.unanalysed.iter().map(|why| CallPart::Hidden(why)))
}

fn fits_part(rule: &PolicyRule, part: CallPart<'_>, also_perhaps: bool) -> bool {
    if rule.decision == PolicyDecision::Allow {
        return rule.allows_part(part);
    }
    match rule.fit_part(part, "") {
        RuleFit::Yes(_) => true,
        RuleFit::Maybe => also_perhaps,
        RuleFit::No => false,
    }
}
