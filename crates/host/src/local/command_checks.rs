//! Checks a command before it is started, and resolves its program.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::argument_limit::check_argument_lengths;
use super::descriptor_limit::no_descriptors_error;
use crate::terminals::CommandLaunch;
use punie_tool::{ErrorCode, ToolError};

/// Rejects a folder in which no command can run.
pub(super) fn check_working_folder(cwd: &Path) -> Result<(), ToolError> {
    if cwd.is_dir() {
        return Ok(());
    }
    let what = if cwd.exists() {
        "is not a folder"
    } else {
        "does not exist"
    };
    let text = format!(
        "The working directory {} {what}. Nothing was run.",
        cwd.display()
    );
    Err(if cwd.exists() {
        ToolError::invalid_args(text)
    } else {
        ToolError::not_found(text)
    })
}

/// Rejects a command that the system could not start.
pub(super) fn check_command(launch: &CommandLaunch) -> Result<(), ToolError> {
    let words: Vec<&str> = match launch {
        CommandLaunch::Shell(line) => vec![line],
        CommandLaunch::Program { command, args } => std::iter::once(command)
            .chain(args)
            .map(String::as_str)
            .collect(),
    };
    if words[0].trim().is_empty() {
        return Err(ToolError::invalid_args(
            "The command is empty; nothing was run.",
        ));
    }
    if words.iter().any(|word| word.contains('\0')) {
        return Err(ToolError::invalid_args(
            "The command contains a NUL byte, which no program can be given.",
        ));
    }
    check_argument_lengths(words)
}

/// Returns the program to start, with its arguments.
pub(super) fn resolve_program(launch: &CommandLaunch) -> Result<(PathBuf, Vec<String>), ToolError> {
    match launch {
        CommandLaunch::Program { command, args } => Ok((PathBuf::from(command), args.clone())),
        CommandLaunch::Shell(line) => {
            let args = ["--noprofile", "--norc", "-c", line]
                .map(str::to_owned)
                .to_vec();
            Ok((find_bash()?.to_owned(), args))
        }
    }
}

/// Finds bash, once, and not on the PATH of the call.
pub fn bash_path() -> Option<&'static Path> {
    const BASH_PATHS: &[&str] = &[
        "/bin/bash",
        "/usr/bin/bash",
        "/usr/local/bin/bash",
        "/opt/homebrew/bin/bash",
        "/run/current-system/sw/bin/bash",
    ];
    static FOUND_BASH: OnceLock<Option<&'static Path>> = OnceLock::new();
    *FOUND_BASH.get_or_init(|| {
        BASH_PATHS
            .iter()
            .map(Path::new)
            .find(|place| place.is_file())
    })
}

fn find_bash() -> Result<&'static Path, ToolError> {
    bash_path().ok_or_else(|| {
        ToolError::not_found(
            "There is no bash on this machine; run a program with its arguments instead (run_command).",
        )
    })
}

/// Explains an error that the device has no room for another process or open file.
pub(super) fn explain_shortage(program: &str, cause: &io::Error) -> Option<ToolError> {
    match cause.raw_os_error() {
        Some(libc::EAGAIN) => {
            let text = format!(
                "{program} could not be started: this device has no room for another process (a limit of their number \
                 is reached). Nothing was run. End something that runs, or ask again later."
            );
            Some(ToolError::new(ErrorCode::Io, text))
        }
        Some(libc::EMFILE | libc::ENFILE) => Some(no_descriptors_error()),
        _ => None,
    }
}

/// Explains to the caller why the system refused to start a command.
pub(super) fn explain_start_failure(
    launch: &CommandLaunch,
    cwd: &Path,
    cause: &io::Error,
) -> ToolError {
    // The folder may have been removed since the check. The system reports that with the same error as a missing
    // program.
    if let Err(gone) = check_working_folder(cwd) {
        return gone;
    }
    let program = match launch {
        CommandLaunch::Shell(_) => "bash",
        CommandLaunch::Program { command, .. } => command,
    };
    let named = program.contains('/').then(|| cwd.join(program));
    if cause.raw_os_error() == Some(libc::ENOEXEC) {
        return ToolError::new(
            ErrorCode::Io,
            format!(
                "{program} is no program for this machine, and no script that names its interpreter (#!) in its first \
                 line. Nothing was run. For a script, run its interpreter with the script as an argument."
            ),
        );
    }
    if let Some(shortage) = explain_shortage(program, cause) {
        return shortage;
    }
    match cause.kind() {
        io::ErrorKind::ArgumentListTooLong => ToolError::new(
            ErrorCode::TooLarge,
            "The command with its arguments and environment is larger than the system takes. Nothing was run. Pass \
             the data on stdin, or write it to a file and name the file.",
        ),
        io::ErrorKind::NotFound if named.is_some_and(|file| file.exists()) => {
            ToolError::not_found(format!(
                "{program} is there, but the interpreter that it needs is not: see its first line (#!), or its loader. \
             Nothing was run."
            ))
        }
        io::ErrorKind::PermissionDenied => ToolError::new(
            ErrorCode::PermissionDenied,
            format!(
                "{program} may not be executed (no execute permission, or not a file), or the folder {} may not be \
                 entered. Nothing was run.",
                cwd.display()
            ),
        ),
        io::ErrorKind::NotFound => ToolError::not_found(format!(
            "There is no program {program:?} on this machine's PATH. Nothing was run. A command line with blanks, \
             pipes or variables needs a shell: leave args out."
        )),
        _ => ToolError::from_io(program, cause),
    }
}
