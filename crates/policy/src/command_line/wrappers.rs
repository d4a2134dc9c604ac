//! Programs and builtins that start the command given in their arguments.

use super::command::{CommandWord, NOT_WRITTEN_OUT, SimpleCommand};
use super::options::parse_options;
use super::parse_state::Reason;
use punie_core::variable_name::is_variable_name;

/// Wrappers and their known options. Options that give a program another name are missing: under
/// that name it may behave differently.
const WRAPPERS: &[(&str, &str)] = &[
    ("builtin", ""),
    ("command", "p v V"),
    ("exec", "c l"),
    ("nohup", ""),
    (
        "time",
        "a p v f: o: portability verbose append format: output:",
    ),
    ("nice", "0 1 2 3 4 5 6 7 8 9 n: adjustment:"),
    ("ionice", "t c: n: ignore class: classdata:"),
    ("stdbuf", "i: o: e: input: output: error:"),
    ("setsid", "c f w ctty fork wait"),
    (
        "timeout",
        "f p v k: s: foreground preserve-status verbose kill-after: signal:",
    ),
    (
        "env",
        "i 0 v u: C: P: ignore-environment null debug block-signal? ignore-signal? default-signal? unset: chdir:",
    ),
    (
        "xargs",
        "0 r t p x o e? i? l? d: E: I: L: n: P: s: a: null no-run-if-empty verbose exit open-tty interactive \
         show-limits arg-file: delimiter: eof? replace? max-lines? max-args: max-procs: max-chars: process-slot-var:",
    ),
    (
        "sudo",
        "E H n P S b k B N u: g: p: h: C: r: t: T: D: R: U: non-interactive preserve-env? set-home background \
         reset-timestamp user: group: prompt: host: chdir: other-user:",
    ),
    ("doas", "n L u: C:"),
    ("busybox", ""),
    ("toybox", ""),
    ("chronic", "e v"),
    ("caffeinate", "d i s u m t: w:"),
    ("arch", "d: e:"),
];
/// Wrappers that change more than the way in which a command is started.
const NOT_TRANSPARENT: &[&str] = &[
    "sudo",
    "doas",
    "busybox",
    "toybox",
    "chronic",
    "caffeinate",
    "arch",
];

/// Returns whether this wrapper changes only the way in which a command is started.
pub(super) fn is_transparent_wrapper(name: &str) -> bool {
    !NOT_TRANSPARENT.contains(&name)
}

/// Returns whether words `NAME=VALUE` before the command of this program set variables for it.
pub(super) fn sets_variables_by_words(name: &str) -> bool {
    matches!(name, "env" | "sudo" | "doas")
}

/// The commands that a wrapper of this name starts; `None` if it is none.
///
/// # Errors
/// It starts a command that its arguments do not determine.
pub(super) fn wrapped_commands(
    name: &str,
    command: &SimpleCommand,
) -> Result<Option<Vec<SimpleCommand>>, Reason> {
    if name == "find" {
        return find_actions(command).map(Some);
    }
    let Some((_, known)) = WRAPPERS.iter().find(|(wrapper, _)| *wrapper == name) else {
        return Ok(None);
    };
    let words = &command.words[1..];
    let options = parse_options(known, words)?;
    if name == "command" && options.has_any(&["v", "V"]) {
        return Ok(Some(Vec::new()));
    }
    let (before, mut rest) = words.split_at(options.operands);
    if name == "xargs" && before.iter().any(|word| !word.is_literal) {
        return Err(NOT_WRITTEN_OUT);
    }
    if sets_variables_by_words(name) {
        rest = skip_assignments(rest)?;
    }
    if let ("timeout", [duration, behind @ ..]) = (name, rest) {
        rest = behind;
        if !duration.is_literal {
            return Err(NOT_WRITTEN_OUT);
        }
    }
    if rest.is_empty() {
        return if command.is_open_ended {
            Err("its command comes when it runs")
        } else {
            Ok(Some(Vec::new()))
        };
    }
    let mut inner = SimpleCommand::from_words(rest.to_vec());
    inner.is_open_ended = command.is_open_ended || name == "xargs";
    inner.has_input = command.has_input && name != "xargs";
    for (option, value) in options.given.iter().filter(|_| name == "xargs") {
        match *option {
            "I" => mark_placeholders(&mut inner, value),
            "i" | "replace" => {
                mark_placeholders(&mut inner, if value.is_empty() { "{}" } else { value });
            }
            _ => {}
        }
    }
    Ok(Some(vec![inner]))
}

/// Skips the words `NAME=VALUE` before a command.
///
/// # Errors
/// The variables are not literal.
fn skip_assignments(words: &[CommandWord]) -> Result<&[CommandWord], Reason> {
    let words = match words {
        [dash, rest @ ..] if dash.text == "-" => rest,
        _ => words,
    };
    let is_assignment = |word: &&CommandWord| word.text.contains('=');
    let (assignments, rest) = words.split_at(words.iter().take_while(is_assignment).count());
    let is_open = |word: &CommandWord| {
        let name = word.raw.split('=').next().unwrap_or_default();
        word.may_split || !(word.is_literal || is_variable_name(name))
    };
    if assignments.iter().any(is_open) {
        return Err("what it sets is not written out");
    }
    Ok(rest)
}

/// Marks the words as unknown in which other text will replace this placeholder.
fn mark_placeholders(command: &mut SimpleCommand, text: &str) {
    let words = command
        .words
        .iter_mut()
        .filter(|word| word.text.contains(text));
    words.for_each(|word| word.is_literal = false);
}

/// The commands that `find` starts for its matches.
fn find_actions(command: &SimpleCommand) -> Result<Vec<SimpleCommand>, Reason> {
    let mut words = &command.words[1..];
    let are_unknown = |pair: &[CommandWord]| pair.iter().all(|word| !word.is_literal);
    if command.is_open_ended
        || words.iter().any(|word| word.may_split)
        || words.windows(2).any(are_unknown)
    {
        return Err(NOT_WRITTEN_OUT);
    }
    let is_action =
        |word: &CommandWord| matches!(word.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
    let mut actions = Vec::new();
    while let Some(begin) = words.iter().position(is_action) {
        let rest = &words[begin + 1..];
        let end = rest
            .iter()
            .position(|word| matches!(word.text.as_str(), ";" | "+"))
            .unwrap_or(rest.len());
        let mut action = SimpleCommand::from_words(rest[..end].to_vec());
        mark_placeholders(&mut action, "{}");
        actions.push(action);
        words = &rest[end..];
    }
    Ok(actions)
}
