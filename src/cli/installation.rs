//! The files of this program's installation, and what installed them.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// The installer of a program, which also updates and removes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstalledBy {
    /// install.sh, or a person who unpacked an archive.
    Archive,
    Cargo,
    Homebrew,
    /// The package manager of the system.
    SystemPackage,
}

/// Returns the file of this program, without links.
///
/// # Errors
/// It was replaced or removed since it started.
pub fn find_own_program() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?;
    std::fs::canonicalize(&program)
        .with_context(|| format!("the file of this program is gone: {}", program.display()))
}

/// Tells the installer from the program's path.
pub fn find_installer(program: &Path) -> InstalledBy {
    let is_below = |folder: &str| program.ancestors().any(|above| above.ends_with(folder));
    if is_below(".cargo/bin") {
        InstalledBy::Cargo
    } else if is_below("Cellar") {
        InstalledBy::Homebrew
    } else if program.starts_with("/usr") && !program.starts_with("/usr/local") {
        InstalledBy::SystemPackage
    } else {
        InstalledBy::Archive
    }
}

/// Returns the place beside the program where an update keeps the one before.
pub fn previous_program(program: &Path) -> PathBuf {
    program.with_file_name(format!(
        "punie-runner.previous{}",
        std::env::consts::EXE_SUFFIX
    ))
}

/// Returns the folder `share` of the program's prefix, if install.sh put manual pages there.
pub fn find_documents(program: &Path) -> Option<PathBuf> {
    let share = program.parent()?.parent()?.join("share");
    share
        .join("man/man1/punie-runner.1")
        .is_file()
        .then_some(share)
}
