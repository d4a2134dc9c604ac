//! Unicode's normal forms (UAX #15): é is one character, or an e and an accent. macOS writes names the second way, most
//! programs write the first.

use unicode_normalization::UnicodeNormalization;

/// Returns the composed (NFC) and the decomposed (NFD) form of a text, without those that are the text itself.
pub fn other_forms(text: &str) -> Vec<String> {
    if text.is_ascii() {
        return Vec::new();
    }
    let mut forms: Vec<String> = vec![text.nfc().collect(), text.nfd().collect()];
    forms.retain(|form| form != text);
    forms
}

/// Returns a text in the form of another one, which is in one of the two.
pub fn in_form_of(other: &str, text: &str) -> String {
    if other.nfc().eq(other.chars()) {
        text.nfc().collect()
    } else {
        text.nfd().collect()
    }
}

/// Returns whether two texts are the same but for their forms.
pub fn is_same_text(one: &str, other: &str) -> bool {
    one == other || (!one.is_ascii() && one.nfc().eq(other.nfc()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_forms_that_it_is_not_in() {
        assert_eq!(other_forms("cafe"), [""; 0]);
        assert_eq!(other_forms("日本"), [""; 0]);
        assert_eq!(other_forms("caf\u{e9}"), ["cafe\u{301}"]);
        assert_eq!(other_forms("cafe\u{301}"), ["caf\u{e9}"]);
        assert_eq!(
            other_forms("\u{e9}e\u{301}"),
            ["\u{e9}\u{e9}", "e\u{301}e\u{301}"]
        );
        assert!(is_same_text("caf\u{e9}", "cafe\u{301}") && !is_same_text("caf\u{e9}", "cafe"));
    }
}
