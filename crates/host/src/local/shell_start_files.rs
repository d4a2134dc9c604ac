//! Reads the secrets that the start files of the user's shells assign, whatever guard stands before them. Debian's
//! `~/.bashrc` returns early when nobody types, so the login shell does not show what is assigned below.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use super::command_environment::withheld_values;
use punie_core::bounded_file::{FinalLink, read_regular_file};

/// The start files, below the user's home.
const START_FILES: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".config/fish/config.fish",
];

/// The largest start file that is read.
const MAX_START_FILE_BYTES: u64 = 1 << 20;

/// An assignment up to its value: `NAME=` at the beginning of a word, or fish's `set -x NAME `.
static ASSIGNMENT: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?mx) (?: ^ | [\x20\t;&|({] ) (?:
        set (?: [\x20\t]+ -[A-Za-z-]+ )+ [\x20\t]+ (?P<set> [A-Za-z_][A-Za-z0-9_]* ) [\x20\t]+
        | (?P<name> [A-Za-z_][A-Za-z0-9_]* ) =
    )";
    Regex::new(pattern).expect("a valid pattern")
});

/// Returns the secrets in the start files of a home. A file that cannot be read, or is too large, is passed over.
pub fn read_start_file_secrets(user_home: &Path) -> Vec<String> {
    START_FILES
        .iter()
        .filter_map(|name| read_start_file(&user_home.join(name)))
        .flat_map(|text| withheld_values(&find_assignments(&text)))
        .collect()
}

/// Reads a small regular file, also by a symlink. Never blocks on a FIFO.
fn read_start_file(path: &Path) -> Option<String> {
    let bytes = read_regular_file(path, FinalLink::Follow, MAX_START_FILE_BYTES).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Finds the names and values that a start file assigns literally.
fn find_assignments(text: &str) -> Vec<(String, String)> {
    let assigned = |found: regex::Captures<'_>| {
        let name = found.name("set").or_else(|| found.name("name"))?;
        let value = read_literal_word(&text[found.get(0)?.end()..])?;
        Some((name.as_str().to_owned(), value))
    };
    ASSIGNMENT
        .captures_iter(text)
        .filter_map(assigned)
        .collect()
}

/// Reads the word at the start of a text and removes its quotes. Returns `None` for a word that the shell would expand,
/// and for one whose quote is open at the end of the line, except a PEM block: the quote may belong to a comment.
fn read_literal_word(text: &str) -> Option<String> {
    let mut value = String::new();
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), '\n') if !value.starts_with("-----BEGIN ") => return None,
            (Some('\''), c) => value.push(c),
            (None, '\'' | '"') => quote = Some(c),
            (None, c) if c.is_whitespace() || ";&|<>)".contains(c) => break,
            (None, '(') | (_, '`') => return None,
            (_, '$') => {
                let next = chars.peek().copied();
                if next.is_some_and(|next| starts_expansion(next, quote.is_some())) {
                    return None;
                }
                value.push(c);
            }
            (_, '\\') => {
                let escaped = chars.next()?;
                if quote.is_some() && !"$`\"\\\n".contains(escaped) {
                    value.push(c);
                }
                if escaped != '\n' {
                    value.push(escaped);
                }
            }
            (_, c) => value.push(c),
        }
    }
    quote.is_none().then_some(value)
}

/// Returns whether this character after a `$` makes it an expansion.
fn starts_expansion(next: char, is_quoted: bool) -> bool {
    next.is_ascii_alphanumeric()
        || "_{([$@*#?!-".contains(next)
        || (!is_quoted && "'\"".contains(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_values_are_found_wherever_they_are_assigned() {
        for (line, value) in [
            ("export API_KEY=hunter2-0123", "hunter2-0123"),
            ("API_KEY=hunter2-0123", "hunter2-0123"),
            ("\tAPI_KEY='hunter2 0123' # mine", "hunter2 0123"),
            ("# export API_KEY=hunter2-0123", "hunter2-0123"),
            (
                "[ -t 0 ] && export API_KEY=\"hunter2-0123\"; ls",
                "hunter2-0123",
            ),
            (
                "if true; then export A=1 API_KEY=hunter2-0123; fi",
                "hunter2-0123",
            ),
            ("(API_KEY=hunter2-0123)", "hunter2-0123"),
            (
                r#"declare -x API_KEY="a\$b\"c\d"'$x'e\ f"#,
                r#"a$b"c\d$xe f"#,
            ),
            ("API_KEY=\"hunter2%$\"", "hunter2%$"),
            ("set -gx API_KEY hunter2-0123", "hunter2-0123"),
            (
                "set --export --global API_KEY 'hunter2-0123'",
                "hunter2-0123",
            ),
            (
                "API_KEY=\"-----BEGIN X-----\nabc\n\"\nls",
                "-----BEGIN X-----\nabc\n",
            ),
        ] {
            let found = find_assignments(&format!("ls\n{line}\nls\n"));
            let wanted = ("API_KEY".to_owned(), value.to_owned());
            assert!(found.contains(&wanted), "{line}: {found:?}");
        }
    }

    #[test]
    fn values_that_the_shell_makes_are_passed_over() {
        for line in [
            "export API_KEY=$(pass show api)",
            "API_KEY=`pass show api`",
            "API_KEY=\"prefix-$OTHER\"",
            "API_KEY=prefix-${OTHER:-default}",
            "API_KEY=$'hunter2'",
            "API_KEYS=(one two)",
            "# API_KEY=isn't here",
            "--api_key=hunter2-0123",
            "API_KEY = hunter2-0123",
            "set API_KEY",
        ] {
            let found = find_assignments(&format!("{line}\necho \"it's over\"\n"));
            assert!(found.is_empty(), "{line}: {found:?}");
        }
    }
}
