//! The form of an environment variable's name.

/// Returns whether a text is a name that shells accept: letters, digits and `_`, not beginning with a digit.
pub fn is_variable_name(text: &str) -> bool {
    let is_first = |c: char| c == '_' || c.is_ascii_alphabetic();
    text.starts_with(is_first) && text.chars().all(|c| is_first(c) || c.is_ascii_digit())
}
