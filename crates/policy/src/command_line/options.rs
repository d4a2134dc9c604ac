//! Parses a program's options as getopt does, from a list of known options.

use super::command::{CommandWord, NOT_WRITTEN_OUT};
use super::parse_state::Reason;

pub(super) const UNKNOWN_OPTIONS: Reason = "its options are not known here";

/// The options of a command with their values, and the index of the first word after them.
pub(super) struct ParsedOptions<'w> {
    pub given: Vec<(&'w str, &'w str)>,
    pub operands: usize,
}

impl ParsedOptions<'_> {
    pub fn has_any(&self, names: &[&str]) -> bool {
        self.given.iter().any(|(name, _)| names.contains(name))
    }
}

/// Parses the options among a program's arguments. In the list of known options, `x` takes no value
/// and `x:` has one. `x?` may have one in the same word; the value of `x!` ends the options.
/// One-letter names are short.
///
/// # Errors
/// An option is unknown, or not literal.
pub(super) fn parse_options<'w>(
    known: &str,
    words: &'w [CommandWord],
) -> Result<ParsedOptions<'w>, Reason> {
    let mut parsed = ParsedOptions {
        given: Vec::new(),
        operands: 0,
    };
    while let Some(word) = words.get(parsed.operands) {
        let text = word.text.as_str();
        let is_option = text.len() > 1 && text.starts_with('-');
        if !word.is_literal && (text.is_empty() || is_option || word.may_split) {
            return Err(NOT_WRITTEN_OUT);
        }
        if !is_option {
            break;
        }
        parsed.operands += 1;
        match text.strip_prefix("--") {
            Some("") => break,
            Some(long) => parsed.add_long(known, words, long)?,
            None if parsed.add_short(known, words, &text[1..])? => break,
            None => {}
        }
    }
    Ok(parsed)
}

impl<'w> ParsedOptions<'w> {
    fn add_long(
        &mut self,
        known: &str,
        words: &'w [CommandWord],
        long: &'w str,
    ) -> Result<(), Reason> {
        let (name, attached) = long.split_once('=').unwrap_or((long, ""));
        let value = if option_kind(known, name)? == Some(':') && name == long {
            take_option_value(words, &mut self.operands)?
        } else {
            attached
        };
        self.given.push((name, value));
        Ok(())
    }

    /// Adds a bundle of short options. Returns whether its last one ends the options.
    fn add_short(
        &mut self,
        known: &str,
        words: &'w [CommandWord],
        mut letters: &'w str,
    ) -> Result<bool, Reason> {
        while let Some(letter) = letters.chars().next() {
            let (name, rest) = letters.split_at(letter.len_utf8());
            let Some(kind) = option_kind(known, name)? else {
                self.given.push((name, ""));
                letters = rest;
                continue;
            };
            let value = if rest.is_empty() && kind != '?' {
                take_option_value(words, &mut self.operands)?
            } else {
                rest
            };
            self.given.push((name, value));
            return Ok(kind == '!');
        }
        Ok(false)
    }
}

/// Returns the suffix of an option in the list of known options.
fn option_kind(known: &str, name: &str) -> Result<Option<char>, Reason> {
    let is_it = |option: &&str| option.trim_end_matches([':', '?', '!']) == name;
    let option = known.split_whitespace().find(is_it);
    let sign = option.ok_or(UNKNOWN_OPTIONS)?.chars().next_back();
    Ok(sign.filter(|sign| ":?!".contains(*sign)))
}

/// Returns the value in the word at this index, and advances past it.
fn take_option_value<'w>(words: &'w [CommandWord], at: &mut usize) -> Result<&'w str, Reason> {
    let Some(word) = words.get(*at) else {
        return Ok("");
    };
    *at += 1;
    if word.may_split {
        Err(NOT_WRITTEN_OUT)
    } else {
        Ok(&word.text)
    }
}

/// Returns whether a word is this long option, whole or abbreviated, with or without a value.
pub(super) fn is_long_option(text: &str, option: &str) -> bool {
    let name = text
        .strip_prefix("--")
        .map_or("", |rest| rest.split('=').next().unwrap_or(rest));
    !name.is_empty() && option.starts_with(name)
}

/// Returns whether a bundle of short options may contain one of these letters.
pub(super) fn has_short_option(text: &str, letters: &str) -> bool {
    text.strip_prefix('-')
        .is_some_and(|rest| !rest.starts_with('-') && rest.contains(|c| letters.contains(c)))
}
