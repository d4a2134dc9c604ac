//! The positions of secrets in a text, so that text is not cut inside a secret before it is masked.

use std::borrow::Cow;

use punie_text::output::{MaskedRanges, MaskedTexts, SecretBoundaries};
use punie_text::redact::{MASK, Redactor};

/// Returns the positions of the secrets that this redactor knows, now and later.
pub fn redactor_boundaries(redactor: &Redactor) -> SecretBoundaries {
    SecretBoundaries::new(RedactorSecrets(redactor.clone()))
}

struct RedactorSecrets(Redactor);

impl MaskedTexts for RedactorSecrets {
    fn find_masked_ranges(&self, bytes: &[u8], at_end: bool) -> MaskedRanges {
        let (places, decided) = self.0.secret_ranges(bytes, at_end);
        MaskedRanges {
            ranges: places,
            decided_bytes: decided,
        }
    }
    fn longest_bytes(&self) -> usize {
        self.0.longest_secret()
    }
    fn replacement_text(&self, matched: &[u8]) -> String {
        let text = String::from_utf8_lossy(matched);
        match self.0.mask(&text).0 {
            Cow::Owned(replaced) => replaced,
            Cow::Borrowed(_) => MASK.to_owned(),
        }
    }
}
