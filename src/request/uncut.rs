//! The positions of secrets in a text, so that text is not cut inside a secret before it is masked.
//! Not here: the masking (`seal`).

use crate::output::{MaskedTexts, Standing, Uncut};
use crate::redact::{MASK, Redactor};

/// Returns the positions of the secrets that this redactor knows, now and later.
pub fn uncut(redactor: &Redactor) -> Uncut {
    Uncut::new(Known(redactor.clone()))
}

struct Known(Redactor);

impl MaskedTexts for Known {
    fn standing(&self, bytes: &[u8], at_end: bool) -> Standing {
        let (places, decided) = self.0.places(bytes, at_end);
        Standing { places, decided }
    }
    fn longest(&self) -> usize {
        self.0.longest()
    }
    fn mask(&self) -> &'static str {
        MASK
    }
}
