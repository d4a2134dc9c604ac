//! Programs in other languages that belong to tests, as far as they are installed here. Not here: what they are asked.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::PROGRAM;

/// Their sources.
pub fn foreign_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/conformance")
        .join(name)
}

/// Where what is built and installed for them lies.
pub fn find_installed(path: &str) -> PathBuf {
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
