//! The comparison of a command's words with those of a rule.

use std::borrow::Cow;

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

/// Splits a word where a program may take it apart, and takes these names from the letters of options before them.
/// `unquotes`: without the quotes of a shell in it.
pub(super) fn split_word(text: &str, names: &[String], unquotes: bool) -> Vec<CommandWord> {
    const QUOTES: [char; 3] = ['\'', '"', '\\'];
    let ends = |c: char| {
        c.is_whitespace() || ";|&(){}[]<>!`=:,+".contains(c) || (!unquotes && QUOTES.contains(&c))
    };
    let text = if unquotes {
        Cow::Owned(text.replace(QUOTES, ""))
    } else {
        Cow::Borrowed(text)
    };
    let pieces = text.split(ends).filter(|piece| !piece.is_empty());
    let piece = |piece: &str| CommandWord::from_literal(without_letters(piece, names));
    pieces.map(piece).collect()
}

/// Returns the one of these names that is glued to letters of options, as in `-oCMD`; else the whole piece.
fn without_letters<'p>(piece: &'p str, names: &[String]) -> &'p str {
    /// In a longer word such as `-perm` a shorter name is no program.
    const SHORTEST: usize = 3;
    let bundle = piece.strip_prefix('-').unwrap_or_default();
    let glued = |name: &String| {
        let before = bundle.strip_suffix(name.as_str())?;
        let are_letters = !before.is_empty() && before.chars().all(char::is_alphanumeric);
        let may_be = are_letters && (before.len() == 1 || name.len() >= SHORTEST);
        may_be.then(|| &bundle[before.len()..])
    };
    names.iter().find_map(glued).unwrap_or(piece)
}
