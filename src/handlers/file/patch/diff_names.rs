//! Parses the file names in a unified diff: quoted, prefixed, followed by a time.

use punie_text::output::path_text::unescape_byte;

/// The name by which git says that there is no file.
pub(super) const DEV_NULL: &str = "/dev/null";

/// A name as written after `---`, `+++`, `rename from` and the like. `None` if it is quoted and not
/// UTF-8.
pub(super) fn unquote_name(text: &str) -> Option<String> {
    let text = text.trim_end_matches('\r');
    match text.strip_prefix('"') {
        Some(quoted) => unescape_quoted(quoted).map(|(name, _)| name),
        // A time may follow after a tab, as `diff -u` writes it.
        None => Some(
            text.split('\t')
                .next()
                .unwrap_or_default()
                .trim_end()
                .to_owned(),
        ),
    }
}

/// The text up to the closing quote, and the rest after it.
fn unescape_quoted(quoted: &str) -> Option<(String, &str)> {
    let bytes = quoted.as_bytes();
    let mut name = Vec::new();
    let mut at = 0;
    loop {
        match *bytes.get(at)? {
            b'"' => return Some((String::from_utf8(name).ok()?, &quoted[at + 1..])),
            b'\\' => {
                let (value, length) = unescape_byte(bytes.get(at + 1..)?)?;
                name.push(value);
                at += length;
            }
            byte => name.push(byte),
        }
        at += 1;
    }
}

/// The two names of `diff --git a/x b/x`, as far as they can be separated.
pub(super) fn split_git_names(rest: &str) -> Option<(String, String)> {
    let rest = rest.trim_end_matches('\r');
    if let Some(quoted) = rest.strip_prefix('"') {
        let (first, behind) = unescape_quoted(quoted)?;
        return Some((first, unquote_name(behind.trim_start())?));
    }
    if let Some((first, second)) = rest.split_once(" \"") {
        return Some((first.to_owned(), unescape_quoted(second)?.0));
    }
    // Names with blanks: both are equal except for the prefix, so the blank between them is the
    // middle one.
    let same = rest
        .match_indices(' ')
        .map(|(at, _)| (&rest[..at], &rest[at + 1..]))
        .find(|(first, second)| strip_git_prefix(first) == strip_git_prefix(second));
    let (first, second) = same.or_else(|| rest.split_once(' '))?;
    Some((first.to_owned(), second.to_owned()))
}

/// The name without the letter and slash that git puts before it.
fn strip_git_prefix(name: &str) -> &str {
    split_git_prefix(name).map_or(name, |(_, bare)| bare)
}

fn split_git_prefix(name: &str) -> Option<(u8, &str)> {
    let bytes = name.as_bytes();
    // a and b; with `diff.mnemonicPrefix` also i(ndex), w(ork tree), c(ommit), o(bject).
    let letter = *bytes
        .first()
        .filter(|letter| matches!(letter, b'a' | b'b' | b'c' | b'i' | b'o' | b'w'))?;
    name[1..]
        .strip_prefix('/')
        .filter(|bare| !bare.is_empty())
        .map(|bare| (letter, bare))
}

/// The possible paths of a section's two names, the likeliest first: of the old side, of the new
/// one.
pub(super) fn possible_paths(old: &str, new: &str) -> (Vec<String>, Vec<String>) {
    let has_prefixes = match (split_git_prefix(old), split_git_prefix(new)) {
        (Some((a, _)), Some((b, _))) => a != b,
        (Some(_), None) => new == DEV_NULL,
        (None, Some(_)) => old == DEV_NULL,
        (None, None) => false,
    };
    let readings = |name: &str| {
        let given = name.to_owned();
        let without = strip_git_prefix(name).to_owned();
        let mut both = if has_prefixes {
            vec![without, given]
        } else {
            vec![given, without]
        };
        both.dedup();
        both
    };
    (readings(old), readings(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_git_and_diff_write_them() {
        for (text, expect) in [
            ("a/x y.rs", Some("a/x y.rs")),
            ("x.c\t2024-01-01 10:00:00 +0100", Some("x.c")),
            ("\"a/\\303\\244 \\\"q\\\"\\t.txt\"", Some("a/ä \"q\"\t.txt")),
            ("\"a/\\377\"", None),
            ("\"a/open", None),
            ("\"\\q\"", None),
        ] {
            assert_eq!(unquote_name(text).as_deref(), expect, "{text}");
        }
        for (text, first, second) in [
            ("a/x b/x", "a/x", "b/x"),
            ("a/x y b/x y", "a/x y", "b/x y"),
            ("\"a/\\303\\244\" \"b/\\303\\244\"", "a/ä", "b/ä"),
            ("a/x \"b/\\303\\244\"", "a/x", "b/ä"),
            ("x x", "x", "x"),
            ("a/x b/y", "a/x", "b/y"),
        ] {
            assert_eq!(
                split_git_names(text),
                Some((first.to_owned(), second.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn a_prefix_is_one_only_where_both_sides_have_theirs() {
        let first = |old: &str, new: &str| {
            let (old, new) = possible_paths(old, new);
            (old[0].clone(), new[0].clone())
        };
        let pair = |old: &str, new: &str| (old.to_owned(), new.to_owned());
        assert_eq!(first("a/x", "b/x"), pair("x", "x"));
        assert_eq!(first("i/x", "w/x"), pair("x", "x"));
        assert_eq!(first("a/x", "a/x"), pair("a/x", "a/x"));
        assert_eq!(first("src/x", "src/x"), pair("src/x", "src/x"));
        assert_eq!(first("/dev/null", "b/x").1, "x");
        assert_eq!(possible_paths("a/x", "a/x").0, ["a/x", "x"]);
    }
}
