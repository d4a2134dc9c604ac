//! Programs in other languages that belong to tests, as far as they are installed here. Not here: what they are asked.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::PROGRAM;

/// Their sources.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/conformance")
        .join(name)
}

/// Where what is built and installed for them lies.
pub fn installed(path: &str) -> PathBuf {
    let target = Path::new(PROGRAM)
        .ancestors()
        .nth(2)
        .expect("the program lies two below the target folder");
    target.join("conformance").join(path)
}

/// Whether there is Node.
pub fn has_node() -> bool {
    Command::new("node")
        .arg("--version")
        .output()
        .is_ok_and(|said| said.status.success())
}

/// Whether this can be tried: nothing is missing. Says so where something is, and fails where it must be tried.
pub fn can_be_tried(what: &str, missing: Option<&str>) -> bool {
    let Some(why) = missing else { return true };
    let required = std::env::var_os("PUNIE_REQUIRE_CLIENTS").is_some_and(|value| value == "1");
    assert!(!required, "{what} must be tried: {why}");
    // Past the capture of a test that passes.
    let note = format!("SKIPPED: {what} is not tried: {why}\n");
    std::io::stderr()
        .write_all(note.as_bytes())
        .expect("stderr");
    false
}
