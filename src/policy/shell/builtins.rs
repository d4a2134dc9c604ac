//! Builtins of a shell that run text, or change what later words mean. Not here: programs.

use super::interpreters::{NOT_WRITTEN_OUT, Program};
use super::names::{is_command_table, names_program};
use super::reader::{holds_substitution, is_name};
use super::{Simple, Word};

/// Builtins that may take the text of a name for code.
const NAME_TAKERS: &[&str] = &[
    "test",
    "[",
    "let",
    "unset",
    "printf",
    "read",
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
    "wait",
    "mapfile",
    "readarray",
];
/// Builtins whose words are variables, with a value or without.
const DECLARERS: &[&str] = &["declare", "typeset", "local", "export", "readonly"];
const RENAMES: &str = "it gives a command another name";

/// What this builtin does; nothing where it is none of them.
pub(super) fn builtin(name: &str, simple: &Simple) -> Program {
    let words = &simple.words[1..];
    // An option letter, alone or in a bundle; a word that is not written out may hold it.
    let option = |letter: char| words.iter().any(|word| may_hold(word, letter));
    match name {
        "eval" => joined(simple),
        "trap" => trap(simple),
        "source" | "." => sourced(words),
        "alias" if words.iter().any(|word| word.text.contains('=') || !word.literal) => {
            Program::Hidden(RENAMES)
        }
        "hash" if option('p') => Program::Hidden(RENAMES),
        "enable" if option('f') => Program::Hidden("it loads a builtin"),
        "mapfile" | "readarray" if option('C') => Program::Hidden("it runs a command for each line"),
        "jobs" if option('x') => Program::Hidden("it runs a command"),
        "fc" if !words.first().is_some_and(|word| word.text.starts_with("-l")) => {
            Program::Hidden("it runs what ran before")
        }
        "history"
            if words.iter().any(|word| !word.literal || word.text.starts_with('-') && word.text != "-c") =>
        {
            Program::Hidden("it says what ran before, which may run again")
        }
        "set" | "shopt" if option('H') || words.iter().any(|word| word.text.starts_with("hist")) => {
            Program::Hidden("it makes what ran before part of what runs")
        }
        "compgen" | "complete" if !words.is_empty() => Program::Hidden("it may run what completes a word"),
        _ if NAME_TAKERS.contains(&name) && words.iter().any(|word| holds_substitution(&word.text)) => {
            Program::Hidden("text that looks like a substitution is given to a builtin that may run it")
        }
        _ if takes_names(name) && words.iter().any(|word| is_sensitive(&word.text)) => {
            Program::Hidden("it sets a variable by which programs run others")
        }
        _ if DECLARERS.contains(&name) => declared(name, words),
        _ => Program::None,
    }
}

/// Those that set variables; `test` and `[` only look at them.
fn takes_names(name: &str) -> bool {
    NAME_TAKERS.contains(&name) && !matches!(name, "test" | "[" | "unset")
}

fn is_sensitive(text: &str) -> bool {
    let name = text.split(['=', '[', '+']).next().unwrap_or(text);
    is_command_table(text) || (!text.contains('=') && names_program(name))
}

/// Variables must be written out, and stand for themselves.
fn declared(name: &str, words: &[Word]) -> Program {
    let is_written_out =
        |word: &Word| word.literal || word.raw.split_once('=').is_some_and(|(name, _)| is_name(name));
    if !words.iter().all(is_written_out) {
        return Program::Hidden("which variables it sets is not written out");
    }
    let is_reference = |word: &Word| word.text.starts_with('-') && word.text.contains('n');
    if !matches!(name, "export" | "readonly") && words.iter().any(is_reference) {
        return Program::Hidden("it lets one variable stand for another");
    }
    Program::None
}

fn may_hold(word: &Word, letter: char) -> bool {
    !word.literal || (word.text.starts_with('-') && word.text.contains(letter))
}

/// All words as one line.
fn joined(simple: &Simple) -> Program {
    if simple.open_end || simple.words.iter().any(|word| !word.literal) {
        return Program::Opaque(NOT_WRITTEN_OUT);
    }
    let words = simple.words[1..].iter().map(|word| word.text.as_str()).filter(|text| *text != "--");
    Program::Script(words.collect::<Vec<_>>().join(" "), None)
}

fn trap(simple: &Simple) -> Program {
    let words = &simple.words[1..];
    let ends_options = words.first().is_some_and(|word| word.text == "--");
    match words.get(usize::from(ends_options)) {
        None => Program::None,
        Some(word) if !word.literal => Program::Opaque(NOT_WRITTEN_OUT),
        Some(word) if !ends_options && matches!(word.text.as_str(), "-l" | "-p" | "-lp" | "-pl") => {
            Program::None
        }
        Some(word) if word.text == "-" => Program::None,
        Some(word) => Program::Script(word.text.clone(), None),
    }
}

fn sourced(words: &[Word]) -> Program {
    match words.first() {
        Some(word) if word.literal && !word.text.starts_with("/dev/") && !word.text.starts_with("/proc/") => {
            Program::None
        }
        Some(_) => Program::Hidden("it reads commands from a file that is not named"),
        None => Program::None,
    }
}
