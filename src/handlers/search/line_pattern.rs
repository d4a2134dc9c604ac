//! A regular expression or literal text for lines, compiled within limits.

use std::borrow::Cow;

use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Capture, Hir, HirKind, Literal, Repetition};

use punie_text::normal_forms::other_forms;
use punie_tool::ToolError;

/// No real pattern is longer.
const MAX_PATTERN_BYTES: usize = 64 << 10;
/// The largest compiled size. Matching is linear in the text, and this bounds the other factor.
const MAX_COMPILED_BYTES: usize = 10 << 20;

/// The characters with a special meaning in a pattern.
const META_CHARS: [char; 14] = [
    '\\', '.', '+', '*', '?', '(', ')', '|', '[', ']', '{', '}', '^', '$',
];

const ESCAPE_HINT: &str = "Escape the characters that are meant literally, or use literal=true to search for the text as it is.";

/// The interpretation of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PatternOptions {
    /// Every character stands for itself.
    pub(super) literal: bool,
    /// `a` matches `A`.
    pub(super) case_insensitive: bool,
    /// A match may span lines, and `.` matches a line end.
    pub(super) multiline: bool,
}

/// Compiles the pattern for any case, so that an answer can say where only the case differs. It matches wherever the
/// pattern does. Returns `None` if it is too large.
pub(super) fn compile_for_any_case(pattern: &str, reading: PatternOptions) -> Option<RegexMatcher> {
    let (forms, reading) = with_other_forms(pattern, reading);
    let any_case = PatternOptions {
        case_insensitive: true,
        ..reading
    };
    let mut builder = matcher_builder(&forms, any_case);
    if is_plain_ascii(pattern, reading.literal) {
        // For ASCII text, matching non-ASCII letters that are another case of an ASCII one, such as the Kelvin sign,
        // is not worth the time.
        builder.unicode(false);
    }
    build_matcher(&builder, &forms, reading).ok()
}

/// Returns a pattern that also matches its letters in Unicode's other normal form. Within brackets a letter of that form
/// would be several.
fn with_other_forms(pattern: &str, reading: PatternOptions) -> (Cow<'_, str>, PatternOptions) {
    let forms = other_forms(pattern);
    if forms.is_empty() || (!reading.literal && pattern.contains('[')) {
        return (Cow::Borrowed(pattern), reading);
    }
    let group = |form: &str| {
        if reading.literal {
            regex_syntax::escape(form)
        } else {
            format!("(?:{form})")
        }
    };
    let all: Vec<String> = std::iter::once(pattern)
        .chain(forms.iter().map(String::as_str))
        .map(group)
        .collect();
    let reading = PatternOptions {
        literal: false,
        ..reading
    };
    (Cow::Owned(all.join("|")), reading)
}

/// Returns whether the pattern is literal ASCII text.
pub(super) fn is_plain_ascii(pattern: &str, literal: bool) -> bool {
    pattern.is_ascii() && (literal || !pattern.contains(META_CHARS))
}

/// Checks and compiles a pattern.
pub(super) fn compile_pattern(
    pattern: &str,
    reading: PatternOptions,
) -> Result<RegexMatcher, ToolError> {
    let why = if pattern.is_empty() {
        Some("is empty, which matches every line. Use Read for a whole file.".to_owned())
    } else if pattern.len() > MAX_PATTERN_BYTES {
        Some(format!(
            "is {} bytes long; the limit is {MAX_PATTERN_BYTES}. Search for a shorter part of it.",
            pattern.len()
        ))
    } else if !reading.multiline && pattern.contains('\n') {
        Some(
            "contains a line break, and lines are searched one by one. Use multiline=true."
                .to_owned(),
        )
    } else {
        None
    };
    if let Some(why) = why {
        return Err(ToolError::invalid_args(format!("The pattern {why}")));
    }
    if !reading.literal {
        // Parsed alone first, because the builder wraps the pattern in a group that the caller did not write.
        let parsed = ParserBuilder::new().utf8(false).build().parse(pattern);
        parsed.map_err(|error| pattern_error(&error.to_string(), pattern, ESCAPE_HINT))?;
    }
    let (forms, reading) = with_other_forms(pattern, reading);
    build_matcher(&matcher_builder(&forms, reading), &forms, reading).map_err(|error| {
        let next = match error.kind() {
            ErrorKind::NotAllowed(_) => {
                "Lines are searched one by one; use multiline=true to match a line break."
            }
            _ if error.to_string().contains("size limit") => {
                "Use a smaller repetition count or search for less at a time."
            }
            _ => ESCAPE_HINT,
        };
        pattern_error(&error.to_string(), pattern, next)
    })
}

fn build_matcher(
    builder: &RegexMatcherBuilder,
    pattern: &str,
    reading: PatternOptions,
) -> Result<RegexMatcher, grep_regex::Error> {
    let pattern = with_any_line_ends(pattern, reading);
    let built = builder.build(&pattern);
    if built.is_err() && !reading.literal && pattern.contains('#') {
        // With `(?x)`, a comment at the end would swallow the parenthesis that the builder adds.
        return builder.build(&format!("{pattern}\n")).or(built);
    }
    built
}

/// Rewrites a multiline pattern so that a line feed also matches CRLF.
fn with_any_line_ends(pattern: &str, reading: PatternOptions) -> Cow<'_, str> {
    if !reading.multiline {
        return Cow::Borrowed(pattern);
    }
    let escaped = if reading.literal {
        regex_syntax::escape(pattern)
    } else {
        pattern.to_owned()
    };
    let mut parser = ParserBuilder::new();
    parser
        .utf8(false)
        .multi_line(true)
        .dot_matches_new_line(true)
        .crlf(has_end_anchor(pattern, reading));
    // An invalid pattern is reported as the caller wrote it.
    let changed = parser
        .build()
        .parse(&escaped)
        .ok()
        .and_then(|hir| allow_carriage_returns(&hir));
    changed.map_or(Cow::Borrowed(pattern), |hir| Cow::Owned(hir.to_string()))
}

/// Returns whether the pattern can test for a line end.
fn has_end_anchor(pattern: &str, reading: PatternOptions) -> bool {
    !reading.literal && pattern.contains('$')
}

/// Puts an optional carriage return before each line feed. Returns `None` if there is no line feed.
fn allow_carriage_returns(hir: &Hir) -> Option<Hir> {
    let all = |parts: &[Hir]| {
        let changed: Vec<Option<Hir>> = parts.iter().map(allow_carriage_returns).collect();
        let any = changed.iter().any(Option::is_some);
        any.then(|| {
            changed
                .into_iter()
                .zip(parts)
                .map(|(new, old)| new.unwrap_or_else(|| old.clone()))
                .collect()
        })
    };
    match hir.kind() {
        HirKind::Literal(Literal(bytes)) if bytes.contains(&b'\n') => {
            let optional = Repetition {
                min: 0,
                max: Some(1),
                greedy: true,
                sub: Box::new(Hir::literal(*b"\r")),
            };
            let mut parts = Vec::new();
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                match line.strip_suffix(b"\n") {
                    Some(body) if !body.ends_with(b"\r") => {
                        parts.push(Hir::literal(body));
                        parts.push(Hir::repetition(optional.clone()));
                        parts.push(Hir::literal(*b"\n"));
                    }
                    _ => parts.push(Hir::literal(line)),
                }
            }
            Some(Hir::concat(parts))
        }
        HirKind::Repetition(repetition) => {
            let sub = Box::new(allow_carriage_returns(&repetition.sub)?);
            Some(Hir::repetition(Repetition {
                sub,
                ..repetition.clone()
            }))
        }
        HirKind::Capture(capture) => {
            let sub = Box::new(allow_carriage_returns(&capture.sub)?);
            Some(Hir::capture(Capture {
                sub,
                ..capture.clone()
            }))
        }
        HirKind::Concat(parts) => all(parts).map(Hir::concat),
        HirKind::Alternation(parts) => all(parts).map(Hir::alternation),
        _ => None,
    }
}

fn matcher_builder(pattern: &str, reading: PatternOptions) -> RegexMatcherBuilder {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(reading.case_insensitive)
        .fixed_strings(reading.literal && !pattern.contains('\n'))
        .multi_line(true)
        // One more than the parser's default, for the group that the builder adds.
        .nest_limit(251)
        // A line may end with CRLF. Without `$`, a carriage return is an ordinary character.
        .crlf(has_end_anchor(pattern, reading))
        .dot_matches_new_line(reading.multiline)
        .size_limit(MAX_COMPILED_BYTES)
        .dfa_size_limit(MAX_COMPILED_BYTES);
    builder.line_terminator((!reading.multiline).then_some(b'\n'));
    builder
}

fn pattern_error(cause: &str, pattern: &str, next: &str) -> ToolError {
    // The message repeats the pattern, which may be long.
    let long = format!("the pattern of {} bytes is refused", pattern.len());
    let cause = if cause.len() > 2_000 { &long } else { cause };
    ToolError::invalid_args(format!(
        "The pattern is not a usable regular expression:\n{cause}\n{next}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use grep_matcher::Matcher;
    use punie_tool::ErrorCode;

    const PLAIN: PatternOptions = PatternOptions {
        literal: false,
        case_insensitive: false,
        multiline: false,
    };

    #[test]
    fn a_bad_pattern_shows_the_place_and_the_way_out() {
        let refused = compile_pattern("foo(bar", PLAIN).expect_err("unclosed");
        assert_eq!(refused.stable_code(), ErrorCode::InvalidArgs);
        assert!(
            refused.model_text().contains("\n    foo(bar\n       ^\n"),
            "{refused}"
        );
        assert!(
            refused.model_text().contains('^') && refused.model_text().contains("literal=true"),
            "{refused}"
        );
        assert!(
            compile_pattern(
                "foo(bar",
                PatternOptions {
                    literal: true,
                    ..PLAIN
                }
            )
            .is_ok()
        );
    }

    #[test]
    fn lines_may_end_with_a_carriage_return_too() {
        let hit = |pattern: &str, reading, text: &str| {
            compile_pattern(pattern, reading)
                .expect(pattern)
                .is_match(text.as_bytes())
                .expect("an answer")
        };
        let multiline = PatternOptions {
            multiline: true,
            ..PLAIN
        };
        let text = "one\r\ntwo\r\nthree;\r\n";
        for pattern in ["^two$", "o$", "(one|x)$", r"[^;]$"] {
            assert!(hit(pattern, PLAIN, text), "{pattern}");
            assert!(hit(pattern, PLAIN, &text.replace('\r', "")), "{pattern}");
        }
        assert!(
            !hit(r"[^;]$", PLAIN, "three;\r\n"),
            "the carriage return is no character of the line"
        );
        for pattern in [
            "two\nthree",
            r"two\nthree",
            r"(?:one\n|x)two",
            r"(\w+\n){2}three",
            r"one\r\ntwo",
            "^two$\n",
        ] {
            assert!(hit(pattern, multiline, text), "{pattern}");
        }
        assert!(hit(r"two\nthree", multiline, "two\nthree"));
        assert!(hit(
            "e;\n",
            PatternOptions {
                literal: true,
                ..multiline
            },
            text
        ));
        assert!(
            hit("1.*2", PLAIN, "1\r2"),
            "a carriage return within a line is a character"
        );
    }

    #[test]
    fn a_line_break_asks_for_multiline() {
        for pattern in ["a\nb", r"a\nb"] {
            let refused = compile_pattern(pattern, PLAIN).expect_err("a line break");
            assert!(refused.model_text().contains("multiline=true"), "{refused}");
            assert!(
                compile_pattern(
                    pattern,
                    PatternOptions {
                        multiline: true,
                        ..PLAIN
                    }
                )
                .is_ok()
            );
        }
    }

    #[test]
    fn what_matches_in_its_own_case_matches_in_any_case() {
        for (pattern, text) in [
            ("Kelvin", "Kelvin"),
            ("a.b", "aéb"),
            (r"\w+é", "xé"),
            ("ſ", "ſ"),
            (r"\.rs", "x.rs"),
        ] {
            for literal in [false, true] {
                let reading = PatternOptions { literal, ..PLAIN };
                let any_case = compile_for_any_case(pattern, reading).expect("a pattern");
                let exact = compile_pattern(pattern, reading).expect("a pattern");
                let hit =
                    |matcher: &RegexMatcher| matcher.is_match(text.as_bytes()).expect("an answer");
                assert!(!hit(&exact) || hit(&any_case), "{pattern} {literal}");
            }
        }
        let kelvin = compile_for_any_case("KELVIN", PLAIN).expect("a pattern");
        assert!(kelvin.is_match(b"kelvin").expect("an answer"));
    }

    #[test]
    fn programs_and_patterns_out_of_bounds_are_refused() {
        for bomb in [
            "(?:a{1000}){1000}".to_owned(),
            "a".repeat(MAX_PATTERN_BYTES + 1),
            "(".repeat(5_000),
            String::new(),
        ] {
            let refused = compile_pattern(&bomb, PLAIN).expect_err("a bomb");
            assert_eq!(refused.stable_code(), ErrorCode::InvalidArgs);
            assert!(refused.model_text().len() < 4_000);
        }
    }
}
