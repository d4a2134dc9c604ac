//! Errors in the configuration. Every message names the place and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use super::sources::ValueOrigin;
use super::toml_document::ConfigFault;

/// An error that keeps the runner from being set up as asked.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file exists, or was named, and cannot be read.
    #[error("the configuration {} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file has invalid entries.
    #[error("{}", format_faults(path, faults))]
    File {
        /// The file.
        path: PathBuf,
        /// All faults, in order of lines.
        faults: Vec<ConfigFault>,
    },
    /// One value cannot be used.
    #[error("{origin}: {why}")]
    Value {
        /// The value's origin.
        origin: ValueOrigin,
        /// The reason and the remedy.
        why: String,
    },
    /// A workspace cannot be used.
    #[error("{origin}: {why}")]
    Workspace {
        /// The place that names it.
        origin: ValueOrigin,
        /// The reason and the remedy.
        why: String,
    },
    /// The user's home directory is unknown.
    #[error("there is no home directory to put .punie in. Name a folder with --home or PUNIE_HOME")]
    NoHome,
    /// A relative path was given and the process has no current directory.
    #[error("{origin}: {} is relative, and the current directory cannot be read. Give it in full", path.display())]
    NoCurrentDir {
        /// The path's origin.
        origin: ValueOrigin,
        /// The path.
        path: PathBuf,
    },
    /// No workspace was named.
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
    /// The exit code of a command that stops with this error.
    pub fn exit_code(&self) -> u8 {
        78
    }
}

fn format_faults(path: &Path, faults: &[ConfigFault]) -> String {
    let lines: Vec<String> = faults
        .iter()
        .map(|fault| {
            let line = fault
                .line
                .map_or_else(String::new, |line| format!(":{line}"));
            format!("{}{line}: {}", path.display(), fault.text)
        })
        .collect();
    lines.join("\n")
}
