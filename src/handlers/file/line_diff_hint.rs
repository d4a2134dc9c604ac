//! Describes the difference of two similar lines: the first visible one, or invisible ones if there are no others.

use memchr::memmem;

use super::match_tier::plain_spelling;

/// Longer lines are not examined, in bytes.
const MAX_LINE_BYTES: usize = 64 << 10;
/// The most characters that are searched for a difference, and shown of it.
const MAX_SEARCHED_CHARS: usize = 400;
const MAX_SHOWN_CHARS: usize = 60;

/// The parts of a line at which a quoted line may begin and end.
#[derive(Debug, Clone, Copy)]
pub(super) struct QuotedLinePart {
    /// True for the first quoted line, which may begin inside the line.
    pub begins_inside: bool,
    /// True for a last quoted line without an ending, which may end inside the line.
    pub ends_inside: bool,
}

impl QuotedLinePart {
    /// Returns whether this line contains the quoted one.
    pub(super) fn matches_in(self, line: &[u8], quoted: &[u8]) -> bool {
        match (self.begins_inside, self.ends_inside) {
            (true, true) => memmem::find(line, quoted).is_some(),
            (true, false) => line.ends_with(quoted),
            (false, true) => line.starts_with(quoted),
            (false, false) => line == quoted,
        }
    }
}

/// A difference that a reader cannot see, or reads as the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InvisibleDifference {
    Indentation,
    BlanksAtEnd,
    BlanksInside,
    SpecialBlank,
    Typography,
    Invisible,
    CarriageReturn,
    Case,
}

const INVISIBLE_DIFFERENCES: [InvisibleDifference; 8] = [
    InvisibleDifference::Indentation,
    InvisibleDifference::BlanksAtEnd,
    InvisibleDifference::BlanksInside,
    InvisibleDifference::SpecialBlank,
    InvisibleDifference::Typography,
    InvisibleDifference::Invisible,
    InvisibleDifference::CarriageReturn,
    InvisibleDifference::Case,
];

/// Describes the difference of a line of the file and a quoted one; empty if there is nothing to
/// say.
pub(super) fn explain_line_difference(file: &[u8], quoted: &str, part: QuotedLinePart) -> String {
    if file.len().max(quoted.len()) > MAX_LINE_BYTES {
        return String::new();
    }
    let line = String::from_utf8_lossy(file);
    let alike = |kept: Option<InvisibleDifference>| {
        part.matches_in(
            ignore_differences(&line, kept).as_bytes(),
            ignore_differences(quoted, kept).as_bytes(),
        )
    };
    if !alike(None) {
        return describe_visible_difference(file, &line, quoted, part);
    }
    let mut causes: Vec<String> = INVISIBLE_DIFFERENCES
        .into_iter()
        .filter(|slip| !alike(Some(*slip)))
        .map(|slip| describe_invisible_difference(slip, &line, quoted))
        .collect();
    if quoted.contains(char::REPLACEMENT_CHARACTER)
        && let Some(bytes) = describe_invalid_bytes(file)
    {
        causes.push(format!(
            "the file has {bytes} where U+FFFD is shown; quote only what is beside them"
        ));
    }
    if causes.is_empty() {
        causes.push("characters that do not show".to_owned());
    }
    format!(" Cause: {}.", causes.join("; "))
}

/// The line normalized for every invisible difference except `kept`.
fn ignore_differences(line: &str, kept: Option<InvisibleDifference>) -> String {
    let overlooked = |slip| kept != Some(slip);
    let mut text = String::with_capacity(line.len());
    for c in line.chars() {
        match plain_spelling(c) {
            Some(" ") if overlooked(InvisibleDifference::SpecialBlank) => text.push(' '),
            Some(spelling) if spelling != " " && overlooked(InvisibleDifference::Typography) => {
                text.push_str(spelling);
            }
            _ if c == '\r' && overlooked(InvisibleDifference::CarriageReturn) => {}
            _ if is_invisible_char(c) && overlooked(InvisibleDifference::Invisible) => {}
            _ if overlooked(InvisibleDifference::Case) => text.extend(c.to_lowercase()),
            _ => text.push(c),
        }
    }
    let bare = text.trim_start_matches(is_space_or_tab);
    let indent = &text[..text.len() - bare.len()];
    let core = bare.trim_end_matches(is_space_or_tab);
    let mut out = String::with_capacity(text.len());
    if !overlooked(InvisibleDifference::Indentation) {
        out.push_str(indent);
    }
    out.extend(
        core.chars()
            .filter(|c| !(is_space_or_tab(*c) && overlooked(InvisibleDifference::BlanksInside))),
    );
    if !overlooked(InvisibleDifference::BlanksAtEnd) {
        out.push_str(&bare[core.len()..]);
    }
    out
}

fn describe_invisible_difference(slip: InvisibleDifference, file: &str, quoted: &str) -> String {
    let who = |test: fn(char) -> bool| {
        let only = |text: &str, other: &str| text.chars().find(|c| test(*c) && !other.contains(*c));
        match (only(file, quoted), only(quoted, file)) {
            (Some(c), _) => format!("the file has {} (U+{:04X})", "{}", u32::from(c)),
            (None, Some(c)) => format!("old_string has {} (U+{:04X})", "{}", u32::from(c)),
            (None, None) => "they have {} at different places".to_owned(),
        }
    };
    match slip {
        InvisibleDifference::Indentation => {
            format!(
                "the file is indented by {}, old_string by {}",
                describe_indentation(file),
                describe_indentation(quoted)
            )
        }
        InvisibleDifference::BlanksAtEnd => "blanks at the line's end".to_owned(),
        InvisibleDifference::BlanksInside => "blanks or tabs inside the line".to_owned(),
        InvisibleDifference::SpecialBlank => who(|c| plain_spelling(c) == Some(" "))
            .replace("{}", "a special blank, such as a no-break space,"),
        InvisibleDifference::Typography => {
            who(|c| plain_spelling(c).is_some_and(|plain| plain != " "))
                .replace("{}", "a typographic character")
        }
        InvisibleDifference::Invisible => {
            who(is_invisible_char).replace("{}", "an invisible character")
        }
        InvisibleDifference::CarriageReturn => {
            who(|c| c == '\r').replace("{}", "a carriage return inside the line")
        }
        InvisibleDifference::Case => "upper and lower case".to_owned(),
    }
}

fn describe_indentation(line: &str) -> String {
    let indent = &line[..line.len() - line.trim_start_matches(is_space_or_tab).len()];
    match (indent.contains('\t'), indent.contains(' ')) {
        (true, true) => format!("{} tabs and blanks", indent.len()),
        (true, false) => format!("{} tab(s)", indent.len()),
        (false, _) => format!("{} blank(s)", indent.len()),
    }
}

/// Describes the first visible difference of the lines.
fn describe_visible_difference(
    file: &[u8],
    line: &str,
    quoted: &str,
    part: QuotedLinePart,
) -> String {
    let of_file = visible_chars(line);
    let of_quote = visible_chars(quoted);
    let common = |from: usize| {
        of_file[from..]
            .iter()
            .zip(&of_quote)
            .take_while(|((a, _), (b, _))| a == b)
            .count()
    };
    let starts = if part.begins_inside {
        of_file.len()
    } else {
        1.min(of_file.len())
    };
    // The first of the best matches: a later one is not nearer.
    let Some((from, same)) = (0..starts)
        .map(|from| (from, common(from)))
        .max_by_key(|(from, same)| (*same, usize::MAX - from))
    else {
        return String::new();
    };
    let is_cut = |chars: &[(char, usize)], at: usize| at == chars.len() && at >= MAX_SEARCHED_CHARS;
    if (part.begins_inside && same == 0) || is_cut(&of_file, from + same) || is_cut(&of_quote, same)
    {
        return String::new();
    }
    let rest = |text: &str, chars: &[(char, usize)], at: usize| {
        chars.get(at).map(|(_, offset)| {
            text[*offset..]
                .chars()
                .take(MAX_SHOWN_CHARS)
                .collect::<String>()
        })
    };
    let says = |rest: &Option<String>, ends: &str| {
        rest.as_ref()
            .map_or_else(|| ends.to_owned(), |rest| format!("has {rest:?}"))
    };
    let there = rest(line, &of_file, from + same);
    let here = rest(quoted, &of_quote, same);
    let mut text = format!(
        " They part where the file {} and old_string {}.",
        says(&there, "ends the line"),
        says(&here, "ends the line")
    );
    if there.is_some_and(|there| there.starts_with(char::REPLACEMENT_CHARACTER))
        && let Some(bytes) = describe_invalid_bytes(file)
    {
        text = format!("{text} U+FFFD stands for {bytes}.");
    }
    text
}

/// The characters that a reader can distinguish, each with its offset.
fn visible_chars(line: &str) -> Vec<(char, usize)> {
    line.char_indices()
        .filter(|(_, c)| !is_invisible_char(*c) && !c.is_whitespace())
        .flat_map(|(at, c)| {
            let spelling =
                plain_spelling(c).map_or_else(|| c.to_lowercase().collect(), str::to_owned);
            spelling.chars().map(|c| (c, at)).collect::<Vec<_>>()
        })
        .take(MAX_SEARCHED_CHARS)
        .collect()
}

/// Describes the bytes of a line that are not UTF-8.
fn describe_invalid_bytes(line: &[u8]) -> Option<String> {
    let bytes: Vec<String> = line
        .utf8_chunks()
        .flat_map(|chunk| chunk.invalid().iter())
        .take(8)
        .map(|byte| format!("{byte:02X}"))
        .collect();
    (!bytes.is_empty()).then(|| format!("bytes that are not UTF-8 ({})", bytes.join(" ")))
}

fn is_space_or_tab(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

/// Returns whether a character has no width.
pub(super) fn is_invisible_char(c: char) -> bool {
    matches!(c, '\u{00AD}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: QuotedLinePart = QuotedLinePart {
        begins_inside: false,
        ends_inside: false,
    };
    const INSIDE: QuotedLinePart = QuotedLinePart {
        begins_inside: true,
        ends_inside: true,
    };

    #[test]
    fn what_does_not_show_is_named_only_where_nothing_else_differs() {
        for (file, quoted, expect) in [
            (
                "\tx();",
                "    x();",
                vec!["indented by 1 tab(s), old_string by 4 blank(s)"],
            ),
            ("x();  ", "x();", vec!["blanks at the line's end"]),
            ("a\tb", "a b", vec!["blanks or tabs inside"]),
            (
                "let name\u{200B} = 1;",
                "let name = 1;",
                vec!["the file", "invisible", "U+200B"],
            ),
            ("price: 10", "price:\u{A0}10", vec!["old_string", "U+00A0"]),
            ("“hi”", "\"hi\"", vec!["the file", "typographic", "U+201C"]),
            ("a\rb", "ab", vec!["carriage return"]),
            ("Hello", "hello", vec!["upper and lower case"]),
            (
                "\tsay “hi”",
                "say \"HI\"",
                vec!["indented", "typographic", "case"],
            ),
        ] {
            let said = explain_line_difference(file.as_bytes(), quoted, WHOLE);
            assert!(said.starts_with(" Cause: "), "{file:?}: {said}");
            assert_eq!(
                said.matches(';').count(),
                said.matches("; ").count(),
                "{said}"
            );
            assert!(
                expect.iter().all(|words| said.contains(words)),
                "{file:?}: {said}"
            );
        }
        assert_eq!(
            explain_line_difference(b"\tx", "  x", WHOLE)
                .matches(';')
                .count(),
            0
        );
    }

    #[test]
    fn what_shows_is_shown_and_nothing_else_blamed() {
        for (file, quoted, part, expect) in [
            (
                "\tlet x = 1;",
                "let y = 1;",
                INSIDE,
                "the file has \"x = 1;\" and old_string has \"y = 1;\"",
            ),
            (
                "\tx();",
                "    x();!",
                WHOLE,
                "the file ends the line and old_string has \"!\"",
            ),
            (
                "say “hi” now",
                "say \"hi\"",
                WHOLE,
                "the file has \"now\" and old_string ends the line",
            ),
            (
                "a = f(one, two);",
                "f(one, three)",
                INSIDE,
                "the file has \"wo);\" and old_string has \"hree)\"",
            ),
        ] {
            let said = explain_line_difference(file.as_bytes(), quoted, part);
            assert!(
                said.contains(expect) && !said.contains("Cause"),
                "{file:?}: {said}"
            );
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_named() {
        assert!(
            explain_line_difference(b"caf\xe9", "caf\u{FFFD}", WHOLE).contains("not UTF-8 (E9)")
        );
        let said = explain_line_difference(b"caf\xe9 noir", "café noir", WHOLE);
        assert!(
            said.contains("old_string has \"é noir\"") && said.contains("(E9)"),
            "{said}"
        );
    }
}
