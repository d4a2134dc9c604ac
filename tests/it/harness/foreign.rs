//! Finds the programs in other languages that tests run, as far as they are installed here.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::PROGRAM;

/// The folder with the sources of such a program.
pub fn foreign_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/conformance")
        .join(name)
}

/// The path of a file that was built or installed for such a program.
pub fn find_installed(path: &str) -> PathBuf {
    let target = Path::new(PROGRAM)
        .ancestors()
        .nth(2)
        .expect("the program lies two below the target folder");
    target.join("conformance").join(path)
}

/// Returns true if Node is installed.
pub fn has_node() -> bool {
    Command::new("node")
        .arg("--version")
        .output()
        .is_ok_and(|said| said.status.success())
}
