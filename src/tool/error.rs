//! The one error that a tool may return. Its text speaks to the model, its code to programs.

use std::fmt;
use std::io;

use crate::request::{ErrorCode, Failure, Meta};

/// Why a call failed and what to do next.
#[derive(Debug, Clone)]
pub struct ToolError {
    code: ErrorCode,
    text: String,
    meta: Box<Meta>,
}

impl ToolError {
    /// An error with this code. The text names the cause and the next step, and is one or a few lines.
    pub fn new(code: ErrorCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), meta: Box::default() }
    }

    /// The arguments cannot be used.
    pub fn invalid_args(text: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArgs, text)
    }

    /// What was named does not exist.
    pub fn not_found(text: impl Into<String>) -> Self {
        Self::new(ErrorCode::NotFound, text)
    }

    /// The call was taken back; the text says what had been done.
    pub fn cancelled(text: impl Into<String>) -> Self {
        Self::new(ErrorCode::Cancelled, text)
    }

    /// The fault is ours.
    pub fn internal(text: impl Into<String>) -> Self {
        Self::new(ErrorCode::Internal, text)
    }

    /// An operation of the system failed on `what` (a path or a program, as the model named it).
    pub fn io(what: impl fmt::Display, cause: &io::Error) -> Self {
        let code = match cause.kind() {
            io::ErrorKind::NotFound => ErrorCode::NotFound,
            io::ErrorKind::PermissionDenied => ErrorCode::PermissionDenied,
            io::ErrorKind::IsADirectory => ErrorCode::IsDirectory,
            _ => ErrorCode::Io,
        };
        // The number behind the system's text tells a reader nothing.
        let text = cause.to_string();
        let words = text.rsplit_once(" (os error").map_or(text.as_str(), |(words, _)| words);
        Self::new(code, format!("{what}: {words}"))
    }

    /// The same error with these facts.
    #[must_use]
    pub fn with_meta(mut self, meta: Meta) -> Self {
        self.meta = Box::new(meta);
        self
    }

    /// The stable code.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The facts beside it.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The text for the model.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.text)
    }
}

impl std::error::Error for ToolError {}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Self { code: error.code, text: error.text, meta: *error.meta }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_system_is_said_in_words() {
        let error = ToolError::io("a.txt", &io::Error::from_raw_os_error(28));
        assert!(error.text().starts_with("a.txt: ") && !error.text().contains("os error"), "{error}");
        assert_eq!(error.code(), ErrorCode::Io);
    }
}
