//! Tables of cases, and assertions about texts and errors. A failure shows what was expected, and the whole text that
//! came. What follows a semicolon names the case: `assert_contains!(answer, words; "{tool}")`.

use std::fmt::Arguments;

use punie_tool::{ErrorCode, ToolError};

/// An array of cases. Between braces, rustfmt leaves each case on its line.
macro_rules! cases {
    ($($case:expr),+ $(,)?) => { [$($case),+] };
}

/// Fails unless the text contains each of these.
macro_rules! assert_contains {
    ($($args:tt)+) => { assert_text!(contains, $($args)+) };
}

/// Fails if the text contains one of these.
macro_rules! assert_lacks {
    ($($args:tt)+) => { assert_text!(lacks, $($args)+) };
}

/// Fails unless the text starts with this.
macro_rules! assert_starts_with {
    ($($args:tt)+) => { assert_text!(starts_with, $($args)+) };
}

/// Fails unless the text ends with this.
macro_rules! assert_ends_with {
    ($($args:tt)+) => { assert_text!(ends_with, $($args)+) };
}

/// Fails unless a `ToolError` has this code, and its text for the model contains each of these:
/// `assert_error!(refused, NotFound: "no such file")`.
macro_rules! assert_error {
    ($error:expr, $code:ident $(: $($expected:expr),+)? $(,)?) => {
        assert_error!($error, $code $(: $($expected),+)?; "the error")
    };
    ($error:expr, $code:ident $(: $($expected:expr),+)?; $($case:tt)+) => {
        $crate::harness::expect::error(
            &$error,
            ::punie_tool::ErrorCode::$code,
            &[$($(AsRef::<str>::as_ref($expected)),+)?],
            format_args!($($case)+),
        )
    };
}

/// Passes the text, what is expected of it and the name of the case to one of the functions below.
macro_rules! assert_text {
    ($check:ident, $text:expr, $($expected:expr),+ $(,)?) => {
        assert_text!($check, $text, $($expected),+; "the text")
    };
    ($check:ident, $text:expr, $($expected:expr),+; $($case:tt)+) => {
        $crate::harness::expect::$check(
            AsRef::<str>::as_ref(&$text),
            &[$(AsRef::<str>::as_ref($expected)),+],
            format_args!($($case)+),
        )
    };
}

#[track_caller]
pub fn contains(text: &str, expected: &[&str], case: Arguments<'_>) {
    for part in expected {
        assert!(text.contains(part), "{case}: expected {part:?} in:\n{text}");
    }
}

#[track_caller]
pub fn lacks(text: &str, unexpected: &[&str], case: Arguments<'_>) {
    for part in unexpected {
        assert!(
            !text.contains(part),
            "{case}: expected no {part:?} in:\n{text}"
        );
    }
}

#[track_caller]
pub fn starts_with(text: &str, expected: &[&str], case: Arguments<'_>) {
    for part in expected {
        assert!(
            text.starts_with(part),
            "{case}: expected {part:?} at the start of:\n{text}"
        );
    }
}

#[track_caller]
pub fn ends_with(text: &str, expected: &[&str], case: Arguments<'_>) {
    for part in expected {
        assert!(
            text.ends_with(part),
            "{case}: expected {part:?} at the end of:\n{text}"
        );
    }
}

#[track_caller]
pub fn error(error: &ToolError, code: ErrorCode, expected: &[&str], case: Arguments<'_>) {
    assert_eq!(error.stable_code(), code, "{case}: {error}");
    contains(error.model_text(), expected, case);
}
