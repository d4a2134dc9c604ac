//! Options of programs, read as getopt does by a list of those that are known.

use super::command::{CommandWord, NOT_WRITTEN_OUT};
use super::parse_state::Reason;

pub(super) const UNKNOWN_OPTIONS: Reason = "its options are not known here";

/// The options of a command with their values, and the place of the first word behind them.
pub(super) struct ParsedOptions<'w> {
    pub given: Vec<(&'w str, &'w str)>,
    pub operands: usize,
}

impl ParsedOptions<'_> {
    pub fn has_any(&self, names: &[&str]) -> bool {
        self.given.iter().any(|(name, _)| names.contains(name))
    }
}

/// Parses the options of a program's arguments. In the list of those that are known, `x` stands alone, `x:` has a
/// value, `x?` may have one in the same word, and `x!` has one that ends the options. Names of one letter are short.
///
/// # Errors
/// An option is not known, or not written out.
pub(super) fn parse_options<'w>(
    known: &str,
    words: &'w [CommandWord],
) -> Result<ParsedOptions<'w>, Reason> {
    let mut parsed = ParsedOptions {
        given: Vec::new(),
        operands: 0,
    };
    let kind_of = |name: &str| {
        let mut each = known.split_whitespace();
        let found = each
            .find(|one| one.trim_end_matches([':', '?', '!']) == name)
            .ok_or(UNKNOWN_OPTIONS)?;
        Ok::<_, Reason>(
            found
                .chars()
                .next_back()
                .filter(|kind| ":?!".contains(*kind)),
        )
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
        let Some(long) = text.strip_prefix("--") else {
            let mut letters = &text[1..];
            while let Some(letter) = letters.chars().next() {
                let (name, rest) = letters.split_at(letter.len_utf8());
                let kind = kind_of(name)?;
                let takes_next = rest.is_empty() && matches!(kind, Some(':' | '!'));
                let value = if takes_next {
                    take_option_value(words, &mut parsed.operands)?
                } else {
                    rest
                };
                parsed
                    .given
                    .push((name, if kind.is_some() { value } else { "" }));
                if kind == Some('!') {
                    return Ok(parsed);
                }
                letters = if kind.is_some() { "" } else { rest };
            }
            continue;
        };
        if long.is_empty() {
            break;
        }
        let (name, attached) = long.split_once('=').unwrap_or((long, ""));
        let takes_next = kind_of(name)? == Some(':') && name == long;
        let value = if takes_next {
            take_option_value(words, &mut parsed.operands)?
        } else {
            attached
        };
        parsed.given.push((name, value));
    }
    Ok(parsed)
}

/// The value in the word at this place, which is then gone past.
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

/// Returns whether a word is this long option, whole or by its beginning, with a value or without.
pub(super) fn is_long_option(text: &str, option: &str) -> bool {
    let name = text
        .strip_prefix("--")
        .map_or("", |rest| rest.split('=').next().unwrap_or(rest));
    !name.is_empty() && option.starts_with(name)
}

/// Returns whether a bundle of short options may hold one of these letters.
pub(super) fn has_short_option(text: &str, letters: &str) -> bool {
    text.strip_prefix('-')
        .is_some_and(|rest| !rest.starts_with('-') && rest.contains(|c| letters.contains(c)))
}
