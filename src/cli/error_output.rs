//! The error of a command on stderr: a sentence, or one JSON object with `--json`.

use serde::Serialize;

use super::console;
use super::exit::Exit;

/// An error, as `--json` shows it.
#[derive(Serialize)]
struct ErrorLine<'a> {
    error: ErrorFacts<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorFacts<'a> {
    code: Exit,
    message: &'a str,
    exit_code: u8,
}

/// Prints the error that ends a command.
pub fn print_failure(exit: Exit, message: &str, as_json: bool) {
    if as_json {
        let error = ErrorFacts {
            code: exit,
            message,
            exit_code: exit.code(),
        };
        let line = console::json_line(&ErrorLine { error });
        console::print_stderr_unwrapped(&format!("{line}\n"));
    } else {
        console::print_error(&format!("punie-runner: {message}"));
    }
}
