//! Secrets and people in output: exact values in results, patterns in logs.
//!
//! A result is rewritten only where it contains a value that is known to be secret. A pattern that merely looks like a
//! secret never rewrites a result: that would falsify file contents which the model then edits. Patterns apply only to
//! the log, which is never edited.

mod encodings;
mod masker;
mod multi_pattern_search;
mod patterns;
pub mod people;
mod redactor;
mod secret;
mod secret_set;
mod unescaped;

pub use masker::Masker;
pub use patterns::{SecretLookalike, find_lookalikes, mask_log_line};
pub use redactor::Redactor;
pub use secret::Secret;

/// The exact replacement for a secret value. A tool that writes text refuses this in its arguments, because it would
/// be written literally.
pub const MASK: &str = "[REDACTED:secret]";
