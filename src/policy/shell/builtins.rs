//! Builtins of a shell that run text, or change what later words mean. Not here: programs.

use super::files::is_device;
use super::found::{holds_substitution, may_set};
use super::interpreters::{NOT_WRITTEN_OUT, Program};
use super::names::{is_command_table, names_program, sets_program, word_sets_program};
use super::reader::is_name;
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
    "getopts",
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
        _ if NAME_TAKERS.contains(&name)
            && (name != "printf" || may_set_by_option(words))
            && words.iter().any(|word| holds_substitution(&word.text)) =>
        {
            Program::Hidden("text that looks like a substitution is given to a builtin that may run it")
        }
        "printf" if sets_by_option(words) && words.iter().any(|word| word.text.contains('(')) => {
            Program::Hidden("it puts a text with a bracket into a variable, which a shell may run")
        }
        _ if takes_names(name, words)
            && words.iter().any(|word| is_sensitive(&word.text) || word_sets_program(word)) =>
        {
            Program::Hidden("it sets a variable by which programs run others")
        }
        _ if DECLARERS.contains(&name) => declared(name, words),
        _ => Program::None,
    }
}

/// Whether `printf` with these words puts what it says into a variable.
fn sets_by_option(words: &[Word]) -> bool {
    words.iter().any(|word| word.text.starts_with("-v"))
}

/// Whether it may, for its first word may be that option.
pub(super) fn may_set_by_option(words: &[Word]) -> bool {
    sets_by_option(words) || words.first().is_some_and(|word| !word.literal && word.text.is_empty())
}

/// Those that set variables; `test` and `[` only look at them, and `printf` mostly prints.
fn takes_names(name: &str, words: &[Word]) -> bool {
    let prints = || name == "printf" && !sets_by_option(words);
    NAME_TAKERS.contains(&name) && !matches!(name, "test" | "[" | "unset") && !prints()
}

/// Whether this builtin sets variables by its words; and whether one of these may say where programs are looked for.
pub(super) fn sets_variables(name: &str, simple: &Simple) -> (bool, bool) {
    let words = &simple.words[1..];
    let has = |option: &str| words.iter().any(|word| word.text.starts_with(option));
    let sets = match name {
        "printf" => has("-v"),
        "wait" => has("-p"),
        // The index of a variable that is looked for is arithmetic.
        "test" | "[" => words.iter().any(|word| word.text.contains('[') && may_set(&word.text)),
        "let" | "getopts" | "set" | "shopt" => !words.is_empty(),
        // Nobody reads what it sets.
        "source" | "." => false,
        "read" | "mapfile" | "readarray" => true,
        _ => (DECLARERS.contains(&name) || name == "unset") && !words.is_empty(),
    };
    let clears = name == "env" && (has("-i") || has("--i") || words.iter().any(|word| word.text == "-"));
    let is_meant = sets || name == "env" || name == "sudo" || name == "doas";
    let paths = matches!(name, "source" | ".")
        || (name == "command" && has("-p"))
        || clears
        || (is_meant && words.iter().any(|word| word.text.contains("PATH")));
    (sets, paths)
}

/// Whether a word sets a variable that matters, or may be followed by its value; a name may stand right behind an option.
fn is_sensitive(text: &str) -> bool {
    const BUNDLE: usize = 8;
    let is_it = |text: &str| {
        let name = text.split(['=', '[', '+']).next().unwrap_or(text);
        (!text.contains('=') && names_program(name)) || sets_program(text)
    };
    let behind_option = || (1..BUNDLE).filter_map(|at| text.get(at..)).any(is_it);
    is_command_table(text) || is_it(text) || (text.starts_with('-') && behind_option())
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
    let ends_options = words.first().is_some_and(|word| word.text == "--");
    match words.get(usize::from(ends_options)) {
        Some(word)
            if word.literal && (ends_options || !word.text.starts_with('-')) && !is_device(&word.text) =>
        {
            Program::None
        }
        Some(_) => Program::Hidden("it reads commands from a file that is not named"),
        None => Program::None,
    }
}
