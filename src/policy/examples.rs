//! A rule's own examples: what it must fit and what it must not. Not here: the rule.

use super::command_line::{CommandLine, read_command_line};
use super::rule::{Fit, Part, Rule};
use super::{Decision, Place};

/// Holds a rule against its examples.
pub(super) fn check(rule: &Rule, matches: &[String], no_match: &[String]) -> Result<(), String> {
    if let Some(missed) = matches.iter().find(|example| !fits(rule, example, false)) {
        return Err(format!("it does not fit its example {missed:?} of `match`"));
    }
    if let Some(fitted) = no_match.iter().find(|example| fits(rule, example, true)) {
        return Err(format!("it fits, or may fit, its example {fitted:?} of `no_match`"));
    }
    Ok(())
}

/// Returns whether a rule fits an example: a command line, a path, or a tool's name, by what the rule is about.
fn fits(rule: &Rule, example: &str, also_perhaps: bool) -> bool {
    if !rule.command.is_empty() {
        let script = read_command_line(example);
        return parts(&script).any(|part| fits_part(rule, part, also_perhaps));
    }
    if !rule.paths.is_empty() {
        let place = Place {
            shown: example.to_owned(),
            relative: vec![example.to_owned()],
            absolute: vec![example.to_owned()],
            known: true,
            is_folder: false,
        };
        return fits_part(rule, Part::Place(&place), also_perhaps);
    }
    rule.tools.iter().any(|word| word == example)
}

fn parts(script: &CommandLine) -> impl Iterator<Item = Part<'_>> {
    let commands = script.commands.iter().map(|simple| Part::Command(simple, script.sets_variables));
    commands.chain(script.unanalysed.iter().map(|why| Part::Hidden(why)))
}

fn fits_part(rule: &Rule, part: Part<'_>, also_perhaps: bool) -> bool {
    if rule.decision == Decision::Allow {
        return rule.allows(part);
    }
    match rule.fit(part, "") {
        Fit::Yes(_) => true,
        Fit::Maybe => also_perhaps,
        Fit::No => false,
    }
}
