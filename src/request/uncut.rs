//! What sealing will mask, for whoever cuts a text before that. Not here: the masking (seal).

use crate::output::{MaskedTexts, Standing, Uncut};
use crate::redact::{MASK, Redactor};

/// The values that this redactor knows, now and later.
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
