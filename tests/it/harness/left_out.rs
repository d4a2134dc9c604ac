//! Skips tests that this machine cannot run.

use std::io::Write as _;

/// Returns true if nothing is missing. Otherwise prints that the test is skipped. Fails instead where
/// `PUNIE_REQUIRE_CLIENTS=1` requires the test.
pub fn can_be_tried(what: &str, missing: Option<&str>) -> bool {
    can_be_tried_with("PUNIE_REQUIRE_CLIENTS", what, missing)
}

/// Does the same, with another variable that requires the test.
pub fn can_be_tried_with(variable: &str, what: &str, missing: Option<&str>) -> bool {
    let Some(why) = missing else { return true };
    let required = std::env::var_os(variable).is_some_and(|value| value == "1");
    assert!(!required, "{what} must be tested: {why}");
    tell_left_out(what, why);
    false
}

/// Prints that a test is skipped to stderr directly: the test harness hides the captured output of a test that passes.
pub fn tell_left_out(what: &str, why: &str) {
    let note = format!("SKIPPED: {what} is not tried: {why}\n");
    std::io::stderr()
        .write_all(note.as_bytes())
        .expect("stderr");
}
