//! Writes what packages carry beside the program: a manual page for each command, and the completion scripts.
//!
//! `cargo run --example package_documents -- DIR` fills `DIR/man` and `DIR/completions`. It is no command of the program,
//! because nobody needs it after the packages are made.

#![expect(
    clippy::disallowed_methods,
    reason = "writes files that belong to no home"
)]

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use punie_runner::cli::command_groups::grouped_command;
use punie_runner::cli::completion_script;

/// The scripts under the names by which each shell finds them.
const SCRIPTS: &[(&str, &str)] = &[
    ("bash", "punie-runner"),
    ("elvish", "punie-runner.elv"),
    ("fish", "punie-runner.fish"),
    ("powershell", "_punie-runner.ps1"),
    ("zsh", "_punie-runner"),
];

fn main() -> anyhow::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    write_documents(&folder.context("the folder to write to is missing")?)
}

/// Writes the pages and the scripts into two folders below this one.
///
/// # Errors
/// A file cannot be written.
pub fn write_documents(folder: &Path) -> anyhow::Result<()> {
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    for created in [&man, &completions] {
        fs::create_dir_all(created)
            .with_context(|| format!("cannot make {}", created.display()))?;
    }
    clap_mangen::generate_to(grouped_command(), &man)?;
    for (shell, file) in SCRIPTS {
        fs::write(completions.join(file), completion_script(shell)?)?;
    }
    Ok(())
}
