//! The grammars of names that become paths: ids of what is installed in the home, and npm packages.

/// The most bytes of an id.
pub(super) const MAX_ID: usize = 64;
/// The most bytes of a package's name, as npm has it.
const MAX_NPM_NAME: usize = 214;

/// Returns whether a text is an id: lower-case letters, digits, `-` and `_`, a letter or digit first.
pub(super) fn is_item_id(text: &str) -> bool {
    text.len() <= MAX_ID && is_word(text, "-_")
}

/// Returns whether a text is the name of an npm package, with or without a scope.
pub(super) fn is_npm_name(name: &str) -> bool {
    let is_part = |part: &str| is_word(part, "-_.");
    let parts_fit = match name.strip_prefix('@') {
        Some(scoped) => scoped
            .split_once('/')
            .is_some_and(|(scope, name)| is_part(scope) && is_part(name)),
        None => is_part(name),
    };
    name.len() <= MAX_NPM_NAME && parts_fit
}

/// Returns whether a text is lower-case letters, digits and these marks, a letter or digit first.
fn is_word(text: &str, marks: &str) -> bool {
    let is_first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(is_first) && text.chars().all(|c| is_first(c) || marks.contains(c))
}
