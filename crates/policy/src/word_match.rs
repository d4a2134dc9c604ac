//! The comparison of a command's words with those of a rule. Not here: how well a rule fits (rule).

use super::command_line::{CommandWord, FOLDS_CASE, SimpleCommand, base_name};

pub(super) fn equals_ignoring_case(a: &str, b: &str) -> bool {
    if FOLDS_CASE {
        a.eq_ignore_ascii_case(b)
    } else {
        a == b
    }
}

/// Returns the name of the program that a word names.
pub(super) fn program_name(text: &str) -> &str {
    let name = base_name(text);
    if cfg!(windows) {
        name.strip_suffix(".exe").unwrap_or(name)
    } else {
        name
    }
}

/// Returns whether a word is this option, alone, with a value or in a bundle.
pub(super) fn has_option(word: &str, option: &str) -> bool {
    let with_value = word
        .strip_prefix(option)
        .is_some_and(|rest| rest.starts_with('='));
    word == option || with_value
}

/// Returns whether all letters of a short option are given somewhere.
pub(super) fn has_all_letters(words: &[CommandWord], option: &str) -> bool {
    let short = |text: &str| text.starts_with('-') && !text.starts_with("--");
    let given = |letter: char| {
        words
            .iter()
            .any(|word| short(&word.text) && word.text[1..].contains(letter))
    };
    short(option) && option.len() > 1 && option[1..].chars().all(given)
}

/// Returns whether a command begins with exactly these words.
pub(super) fn begins_with_words(simple: &SimpleCommand, words: &[Vec<String>]) -> bool {
    let fits = |(word, element): (&CommandWord, &Vec<String>)| {
        word.is_literal && element.contains(&word.text)
    };
    simple.words.len() >= words.len() && simple.words.iter().zip(words).all(fits)
}
