//! Errors of services, each with its remedy.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// An error of the service manager, or of its file.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A program of the service manager does not start.
    #[error(
        "`{program}` does not start: {source}. Without it, start `punie-runner` from a program that keeps it running"
    )]
    NoManager {
        /// The program.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// The service manager refused a command.
    #[error("`{command}` failed: {answer}")]
    Refused {
        /// The command.
        command: String,
        /// The output on stderr.
        answer: String,
    },
    /// A file of the same name was written by something else.
    #[error(
        "{} was not written by `punie-runner service install`. To replace it: `punie-runner service install --force`",
        .0.display()
    )]
    OtherAuthor(PathBuf),
    /// A path or an argument that the file cannot hold.
    #[error(
        "{0:?} has a line's end in it or is not UTF-8 text, which the service's file cannot hold"
    )]
    Unwritable(OsString),
    /// systemd starts no program with such a path.
    #[error(
        "systemd starts no program with a quote, a backslash or a control character in its path, as {} has. Move it, \
         then install it again",
        .0.display()
    )]
    ProgramPath(PathBuf),
}
