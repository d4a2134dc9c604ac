//! Libraries that change the answers of the system to one program (`LD_PRELOAD`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a C file of this folder, and returns the path of the library.
pub fn compile_library(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let draft = folder.join(format!("{name}-{}.so", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/faults/{name}.c"));
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&draft)
        .arg(source);
    let status = cc
        .args(["-ldl", "-lpthread"])
        .status()
        .expect("a C compiler, as SQLite needs one");
    assert!(status.success(), "the library compiles");
    let library = folder.join(format!("{name}.so"));
    fs::rename(&draft, &library).expect("renamed");
    library
}
