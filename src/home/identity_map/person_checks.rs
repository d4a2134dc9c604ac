//! Checks identifiers before they are stored: one that is found in ordinary text would be replaced there. An error is a
//! sentence.

use punie_text::redact::people::{IdentifierKind, fold_text, is_unspaced, normalized_digits};

const MAX_TEXT: usize = 200;
/// The fewest letters of a name of one word.
const MIN_LETTERS: usize = 3;
pub(super) const MIN_PHONE_DIGITS: usize = 6;
const MAX_PHONE_DIGITS: usize = 15;

/// Returns the text without needless space.
///
/// # Errors
/// It cannot be used as an identifier of this kind.
pub(super) fn check_identifier(kind: IdentifierKind, text: &str) -> Result<String, String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.len() > MAX_TEXT || text.chars().any(char::is_control) {
        return Err(format!(
            "{text:?} is longer than {MAX_TEXT} bytes or has control characters"
        ));
    }
    match kind {
        IdentifierKind::Name => check_name(&text)?,
        IdentifierKind::Mail => check_mail(&text)?,
        IdentifierKind::Phone => check_phone(&text)?,
    }
    Ok(text)
}

/// Returns the form in which two identifiers are compared.
pub(super) fn comparable_form(kind: IdentifierKind, text: &str) -> String {
    match kind {
        IdentifierKind::Phone => normalized_digits(text),
        IdentifierKind::Name | IdentifierKind::Mail => fold_text(text),
    }
}

fn check_name(text: &str) -> Result<(), String> {
    let letters = text.chars().filter(|c| c.is_alphabetic()).count();
    let enough = if text.chars().any(is_unspaced) {
        2
    } else {
        MIN_LETTERS
    };
    if letters < enough {
        return Err(format!(
            "{text:?} is too short: it would be replaced in ordinary text. Add the full name"
        ));
    }
    if fold_text(text) == "person" {
        return Err(format!("{text:?} is a part of every alias"));
    }
    if text.contains('@') {
        return Err(format!(
            "{text:?} is no name. Add a mail address with --mail"
        ));
    }
    Ok(())
}

fn check_mail(text: &str) -> Result<(), String> {
    let is_mail = text
        .split_once('@')
        .is_some_and(|(user, host)| !user.is_empty() && host.contains('.') && !host.contains('@'))
        && !text.contains(char::is_whitespace);
    if !is_mail {
        return Err(format!(
            "{text:?} is no mail address: it needs the form user@host.tld"
        ));
    }
    if fold_text(text).ends_with("@example.invalid") {
        return Err(format!("{text:?} looks like an alias"));
    }
    Ok(())
}

fn check_phone(text: &str) -> Result<(), String> {
    let is_written = text
        .chars()
        .all(|c| c.is_ascii_digit() || c.is_whitespace() || "+-./()\u{2011}\u{2013}".contains(c));
    let normalized = normalized_digits(text);
    let digits = normalized.trim_start_matches('+').len();
    if !is_written || !(MIN_PHONE_DIGITS..=MAX_PHONE_DIGITS).contains(&digits) {
        return Err(format!(
            "{text:?} is no phone number: write {MIN_PHONE_DIGITS} to {MAX_PHONE_DIGITS} digits, best with the country \
             code, as in +49 30 1234567"
        ));
    }
    if normalized.starts_with("+999") {
        return Err(format!(
            "{text:?} looks like an alias: no country has the code 999"
        ));
    }
    Ok(())
}
