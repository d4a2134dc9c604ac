//! The texts of aliases: `Person-k7q2mxa`, `person-k7q2mxa@example.invalid`, `+999` and twelve digits. All aliases of a
//! person share a code; the last letter or the last two digits are the number of the identifier. Each has a fixed
//! length, so that text right after an alias is never taken for a part of it.

use super::IdentifierKind;

/// Without the letters that are easily confused.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
const CODE_LETTERS: u32 = 6;

/// The number of codes.
pub const ALIAS_CODES: u32 = 1 << 30;

/// Returns the alias of the identifier with this number below 32 of the person with this code; `None` if the code has no
/// digit, because such a code could be a word.
pub fn make_alias(kind: IdentifierKind, code: u32, number: u8) -> Option<String> {
    let letter = |bits: u32| char::from(LETTERS[(bits & 31) as usize]);
    let mut text: String = (0..CODE_LETTERS)
        .map(|at| letter(code >> (5 * at)))
        .collect();
    if !text.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    text.push(letter(number.into()));
    Some(match kind {
        IdentifierKind::Name => format!("Person-{text}"),
        IdentifierKind::Mail => format!("person-{text}@example.invalid"),
        IdentifierKind::Phone => format!("+999{:010}{number:02}", code % ALIAS_CODES),
    })
}
