//! Tests that a machine may not be able to try.

use std::io::Write as _;

/// Whether this can be tried: nothing is missing. Says so where something is, and fails where it must be tried.
pub fn can_be_tried(what: &str, missing: Option<&str>) -> bool {
    can_be_tried_with("PUNIE_REQUIRE_CLIENTS", what, missing)
}

/// The same, where another variable says that it must be tried.
pub fn can_be_tried_with(variable: &str, what: &str, missing: Option<&str>) -> bool {
    let Some(why) = missing else { return true };
    let required = std::env::var_os(variable).is_some_and(|value| value == "1");
    assert!(!required, "{what} must be tried: {why}");
    tell_left_out(what, why);
    false
}

/// Says that this is not tried, past the capture of a test that passes.
pub fn tell_left_out(what: &str, why: &str) {
    let note = format!("SKIPPED: {what} is not tried: {why}\n");
    std::io::stderr()
        .write_all(note.as_bytes())
        .expect("stderr");
}
