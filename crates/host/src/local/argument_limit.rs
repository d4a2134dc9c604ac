//! The length limit of one program argument.

use punie_tool::{ErrorCode, ToolError};

/// The longest single argument that the system accepts (MAX_ARG_STRLEN on Linux), including its final NUL.
const MAX_ARGUMENT_BYTES: usize = 128 << 10;

/// Rejects arguments of which one is longer than the system accepts.
pub(crate) fn check_argument_lengths<'a>(
    words: impl IntoIterator<Item = &'a str>,
) -> Result<(), ToolError> {
    match words.into_iter().map(str::len).max() {
        Some(longest) if longest >= MAX_ARGUMENT_BYTES => Err(argument_too_large_error(longest)),
        _ => Ok(()),
    }
}

fn argument_too_large_error(bytes: usize) -> ToolError {
    ToolError::new(
        ErrorCode::TooLarge,
        format!(
            "The command has {bytes} bytes; the system takes {} at most in one piece. Nothing was run. Pass the data \
             on stdin, or write it to a file and name the file.",
            MAX_ARGUMENT_BYTES - 1
        ),
    )
}
