//! The only error type of tools. Its text is for the model, its code for programs.

use std::fmt;
use std::io;

use crate::request::{CallFailure, ErrorCode, ResultMeta};

/// The reason of a failed call, with the next step.
#[derive(Debug, Clone)]
pub struct ToolError {
    code: ErrorCode,
    text: String,
    meta: Box<ResultMeta>,
}

impl ToolError {
    /// Creates an error with this code. The text gives the reason and the next step, in one or a few lines.
    pub fn new(code: ErrorCode, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            meta: Box::default(),
        }
    }

    /// Creates an error for unusable arguments.
    pub fn invalid_args(text: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArgs, text)
    }

    /// Creates an error for something that does not exist.
    pub fn not_found(text: impl Into<String>) -> Self {
        Self::new(ErrorCode::NotFound, text)
    }

    /// Creates an error for a cancelled call; the text says what was done before.
    pub fn call_cancelled(text: impl Into<String>) -> Self {
        Self::new(ErrorCode::Cancelled, text)
    }

    /// Creates an error for a bug of the runner.
    pub fn internal(text: impl Into<String>) -> Self {
        Self::new(ErrorCode::Internal, text)
    }

    /// Creates an error for a failed system operation on `what` (a path or a program, as the model named it).
    pub fn from_io(what: impl fmt::Display, cause: &io::Error) -> Self {
        let code = match cause.kind() {
            io::ErrorKind::NotFound => ErrorCode::NotFound,
            io::ErrorKind::PermissionDenied => ErrorCode::PermissionDenied,
            io::ErrorKind::IsADirectory => ErrorCode::IsDirectory,
            _ => ErrorCode::Io,
        };
        // The error number at the end of the system's text is of no use to a reader.
        let text = cause.to_string();
        let words = text
            .rsplit_once(" (os error")
            .map_or(text.as_str(), |(words, _)| words);
        Self::new(code, format!("{what}: {words}"))
    }

    /// Returns the error with these facts.
    #[must_use]
    pub fn with_meta(mut self, meta: ResultMeta) -> Self {
        self.meta = Box::new(meta);
        self
    }

    /// Returns the stable code.
    pub fn stable_code(&self) -> ErrorCode {
        self.code
    }

    /// Returns the facts about the error.
    pub fn error_meta(&self) -> &ResultMeta {
        &self.meta
    }

    /// Returns the text for the model.
    pub fn model_text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.text)
    }
}

impl std::error::Error for ToolError {}

impl From<ToolError> for CallFailure {
    fn from(error: ToolError) -> Self {
        Self {
            code: error.code,
            text: error.text,
            meta: *error.meta,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_system_is_said_in_words() {
        let error = ToolError::from_io("a.txt", &io::Error::from_raw_os_error(28));
        assert!(
            error.model_text().starts_with("a.txt: ") && !error.model_text().contains("os error"),
            "{error}"
        );
        assert_eq!(error.stable_code(), ErrorCode::Io);
    }
}
