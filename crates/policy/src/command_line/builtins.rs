//! Shell builtins that run text, change the meaning of later words, or set variables.

use super::command::{CommandWord, NOT_WRITTEN_OUT, is_device};
use super::options::has_short_option;
use super::parse_state::{ParseState, Reason};
use super::variables::names_program_variable;
use super::wrappers::sets_variables_by_words;
use punie_core::variable_name::is_variable_name;

/// Builtins that change the meaning of commands, or run one, with the option letter by which they
/// do, if not always.
const CHANGING: &[(&str, &str)] = &[
    ("eval", ""),
    ("alias", ""),
    ("fc", ""),
    ("history", ""),
    ("compgen", ""),
    ("complete", ""),
    ("hash", "p"),
    ("enable", "f"),
    ("mapfile", "C"),
    ("readarray", "C"),
    ("jobs", "x"),
    ("set", "H"),
];
/// Builtins whose arguments are variables, with or without a value.
const DECLARERS: &[&str] = &["declare", "typeset", "local", "export", "readonly"];
/// Builtins that set the variables named by their arguments.
const SETTERS: &[&str] = &[
    "let",
    "getopts",
    "unset",
    "read",
    "mapfile",
    "readarray",
    "set",
    "shopt",
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
];

/// The text that a builtin runs as a command line; `None` if it runs none.
///
/// # Errors
/// The commands that it runs, or the meaning of later words, are unknown.
pub(super) fn builtin_text(name: &str, words: &[CommandWord]) -> Result<Option<String>, Reason> {
    let letters = CHANGING
        .iter()
        .find(|(builtin, _)| *builtin == name)
        .map(|(_, letters)| *letters);
    let changes = |letters: &str| {
        let may_be_it =
            |word: &CommandWord| !word.is_literal || has_short_option(&word.text, letters);
        !words.is_empty() && (letters.is_empty() || words.iter().any(may_be_it))
    };
    if letters.is_some_and(changes)
        || (name == "shopt" || name == "set")
            && words.iter().any(|word| word.text.starts_with("hist"))
    {
        return Err("it may run a text, or change which command a name stands for");
    }
    if DECLARERS.contains(&name) {
        let is_open = |word: &CommandWord| {
            !word.is_literal
                && !word
                    .raw
                    .split_once('=')
                    .is_some_and(|(name, _)| is_variable_name(name))
        };
        let is_reference = |word: &CommandWord| {
            !matches!(name, "export" | "readonly") && has_short_option(&word.text, "n")
        };
        if words.iter().any(|word| is_open(word) || is_reference(word)) {
            return Err("which variables it sets is not written out");
        }
    }
    let ends_options = words.first().is_some_and(|word| word.text == "--");
    let Some(word) = words.get(usize::from(ends_options)) else {
        return Ok(None);
    };
    let is_option = !ends_options && word.text.starts_with('-');
    match name {
        "trap" | "source" | "." if !word.is_literal => Err(NOT_WRITTEN_OUT),
        "trap" => Ok((!is_option).then(|| word.text.clone())),
        "source" | "." if is_option || is_device(&word.text) => {
            Err("it reads commands from no file that is named")
        }
        _ => Ok(None),
    }
}

/// Records the variables that a command sets by its arguments, and those whose names it evaluates
/// as arithmetic.
pub(super) fn record_builtin(name: &str, words: &[CommandWord], state: &mut ParseState) {
    let has = |option: &str| words.iter().any(|word| word.text.starts_with(option));
    // An unknown first word of `printf` may be `-v`.
    let is_unknown = words
        .first()
        .is_some_and(|word| !word.is_literal && word.text.is_empty());
    let names_variable = match name {
        "printf" => has("-v") || is_unknown,
        "test" | "[" => has("-v") || has("-R"),
        "wait" => has("-p"),
        _ => SETTERS.contains(&name),
    };
    let is_declaration = DECLARERS.contains(&name);
    let names = words.iter().map(|word| {
        if is_declaration {
            word.text.split('=').next().unwrap_or("")
        } else {
            &word.text
        }
    });
    let is_open = |word: &CommandWord| !word.is_literal && !is_declaration && name != "set";
    state.evaluates_variables |= names_variable
        && (name == "let"
            || words.iter().any(is_open)
            || names
                .into_iter()
                .any(|name| name.contains('[') || is_declaration && has_short_option(name, "i")));
    let by_words = sets_variables_by_words(name);
    let sets = names_variable && !words.is_empty()
        || by_words && (has("-") || words.iter().any(|word| word.text.contains('=')));
    state.line.sets_variables |= sets;
    let clears =
        name == "env" && (has("-i") || has("--i") || words.iter().any(|word| word.text == "-"));
    state.line.sets_path |= clears
        || matches!(name, "source" | ".")
        || (name == "command" && has("-p"))
        || (sets && words.iter().any(|word| word.text.contains("PATH")));
    let quoted = words.iter().filter(|word| sets && !word.is_assignment);
    for word in quoted {
        let bare = word.raw.replace(['"', '\''], "");
        if let Some((variable, value)) = bare.split_once('=') {
            state.line.values.push(value.to_owned());
            if variable == "PATH" {
                state.line.search_paths.push(value.to_owned());
            }
        }
    }
    // It expands the text of an array once more.
    let holds_code = |word: &CommandWord| word.is_literal && word.text.contains(['`', '$']);
    if is_declaration && words.iter().any(holds_code) {
        state.add_reason("it may run what the text of a variable names".to_owned());
    }
    if names_variable && words.iter().any(names_program_variable) {
        state.add_reason("it sets a variable by which programs run others".to_owned());
    }
}
