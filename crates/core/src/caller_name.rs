//! The names of callers: a token has one, and each request carries it to its device.

use crate::visible_text::is_invisible;

/// The caller of the commands of an embedded backend's home.
pub const COMMAND_LINE: &str = "command line";
/// The name in the configuration for all callers without rights of their own.
pub const ALL_OTHERS: &str = "default";

const MAX_CHARACTERS: usize = 64;

/// The reason why an operator cannot give a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCallerName {
    /// It is empty or long, or looks like another name.
    #[error("a caller's name must be 1 to 64 visible characters, with one blank between words")]
    Form,
    /// It has rights of its own on devices.
    #[error("the name {0:?} has a meaning of its own on devices; choose another")]
    Reserved(&'static str),
}

/// Checks a name that an operator gives to a caller. The hosted backend has the same rule.
///
/// # Errors
/// [`BadCallerName`].
pub fn check_caller_name(name: &str) -> Result<(), BadCallerName> {
    let words_are_visible = name
        .split(' ')
        .all(|word| !word.is_empty() && !word.chars().any(|c| c.is_whitespace() || is_blank(c)));
    if !words_are_visible || name.chars().count() > MAX_CHARACTERS {
        return Err(BadCallerName::Form);
    }
    let reserved = [COMMAND_LINE, ALL_OTHERS];
    match reserved
        .into_iter()
        .find(|own| name.eq_ignore_ascii_case(own))
    {
        Some(own) => Err(BadCallerName::Reserved(own)),
        None => Ok(()),
    }
}

/// Returns whether a character shows nothing: an invisible one, a filler, or a variation of the character before it.
fn is_blank(c: char) -> bool {
    is_invisible(c)
        || matches!(
            c,
            '\u{34f}'
                | '\u{115f}'
                | '\u{1160}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{ffa0}'
                | '\u{e0100}'..='\u{e01ef}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_seen_and_is_nobody_else_s() {
        let long = "ä".repeat(64);
        for good in [
            "ci",
            "my agent",
            "Jürgen's laptop (2)",
            "エージェント",
            &long,
        ] {
            assert_eq!(check_caller_name(good), Ok(()), "{good}");
        }
        let too_long = "x".repeat(65);
        for bad in [
            "",
            " ",
            " ci",
            "ci ",
            "my  agent",
            "x\ny",
            "ci\t",
            "a\u{a0}b",
            "\u{202e}ic",
            "ci\u{200b}",
            "ci\u{fe0f}",
            "\u{3164}",
            &too_long,
        ] {
            assert_eq!(check_caller_name(bad), Err(BadCallerName::Form), "{bad:?}");
        }
        for taken in ["command line", "Command Line", "default"] {
            assert!(
                matches!(check_caller_name(taken), Err(BadCallerName::Reserved(_))),
                "{taken}"
            );
        }
    }
}
