//! What can be wrong with the configuration. Every text names the place and what to do. Not here: the home.

use std::io;
use std::path::{Path, PathBuf};

use super::raw::Fault;
use super::sources::Origin;

/// Why the runner cannot be set up as asked.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is there, or was named, and cannot be read.
    #[error("the configuration {} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file says things that it should not.
    #[error("{}", listed(path, faults))]
    File {
        /// The file.
        path: PathBuf,
        /// All that is wrong, in order of lines.
        faults: Vec<Fault>,
    },
    /// One value cannot be used.
    #[error("{origin}: {why}")]
    Value {
        /// Where it came from.
        origin: Origin,
        /// What is wrong and what to do.
        why: String,
    },
    /// Nobody knows this user's folder.
    #[error("there is no home directory to put .punie in. Name a folder with --home or PUNIE_HOME")]
    NoHome,
    /// The process has no working directory that a relative path could begin at.
    #[error("{origin}: {} is relative, and the current directory cannot be read. Give it in full", path.display())]
    NoCurrentDir {
        /// Where the path came from.
        origin: Origin,
        /// The path.
        path: PathBuf,
    },
    /// No folder to work in was named.
    #[error(
        "no workspace is set. Name the folder that the tools may use: --workspace DIR, PUNIE_WORKSPACE, or paths in \
         the [workspaces] table of {}",
        file.display()
    )]
    NoWorkspace {
        /// The configuration file.
        file: PathBuf,
    },
}

impl ConfigError {
    /// The exit code of a command that stops at this.
    pub fn exit_code(&self) -> u8 {
        78
    }
}

fn listed(path: &Path, faults: &[Fault]) -> String {
    let lines: Vec<String> = faults
        .iter()
        .map(|fault| {
            let line = fault.line.map_or_else(String::new, |line| format!(":{line}"));
            format!("{}{line}: {}", path.display(), fault.text)
        })
        .collect();
    lines.join("\n")
}
