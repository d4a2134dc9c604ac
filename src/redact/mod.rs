//! Secrets on their way out: exact values in results, patterns in logs. Not here: where secrets are kept.
//!
//! A result is only ever rewritten where it holds a value that is known to be secret. A pattern that looks like a
//! secret rewrites nothing in a result: it would falsify file contents that the model goes on to edit. Patterns are
//! for the log, where nobody edits.

mod finder;
mod forms;
mod known;
mod masker;
mod patterns;
mod redactor;
mod secret;
mod unescaped;

pub use masker::Masker;
pub use patterns::{Lookalike, log_line, lookalikes};
pub use redactor::Redactor;
pub use secret::Secret;

/// What stands where a secret value was, exactly. A tool that writes text refuses it in its arguments, since it
/// would be written literally.
pub const MASK: &str = "[REDACTED:secret]";
