//! Tokens and the pairing code: their creation and comparison. Tokens are stored as SHA-256 only. The pairing code is
//! stored in plain text, because every start shows it.

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use punie_core::ids::to_hex;

/// Letters and digits without the look-alikes I, L, O and U.
const READABLE: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// A SHA-256.
pub(super) type Sha256Hash = [u8; 32];

pub(super) fn hash_text(text: &str) -> Sha256Hash {
    Sha256::digest(text.as_bytes()).into()
}

/// Returns the hash of several fields. Lengths separate them, and absent fields are marked.
pub(super) fn hash_fields(fields: &[Option<&str>]) -> Sha256Hash {
    let mut hasher = Sha256::new();
    for field in fields {
        match field {
            Some(text) => {
                hasher.update([1]);
                hasher.update((text.len() as u64).to_be_bytes());
                hasher.update(text.as_bytes());
            }
            None => hasher.update([0]),
        }
    }
    hasher.finalize().into()
}

/// Parses a hash from 64 hexadecimal digits.
pub(super) fn hash_from_hex(text: &str) -> Option<Sha256Hash> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |d: u8| {
            char::from(d)
                .to_digit(16)
                .and_then(|d| u8::try_from(d).ok())
        };
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(hash)
}

/// Compares two secrets in constant time.
pub(super) fn equals_in_constant_time(left: &[u8], right: &[u8]) -> bool {
    left.ct_eq(right).into()
}

/// Returns a new token of 256 random bits.
pub(super) fn new_token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(to_hex(&bytes))
}

/// Returns a new admin key in the form of hosted ones: a name and 256 random bits.
pub(super) fn new_admin_key() -> Result<String, getrandom::Error> {
    Ok(format!("punie-dev|{}", new_token()?))
}

/// Returns a new pairing code: 40 random bits in 8 characters that can be read aloud.
pub(super) fn new_pairing_code() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)?;
    Ok(bytes
        .iter()
        .map(|b| char::from(READABLE[usize::from(b & 31)]))
        .collect())
}

/// Compares a typed pairing code; case, blanks, dashes and look-alikes do not matter.
pub(super) fn matches_pairing_code(typed: &str, code: &str) -> bool {
    let typed: String = typed
        .chars()
        .filter(|c| !matches!(c, '-' | ' '))
        .map(|c| match c.to_ascii_uppercase() {
            'O' => '0',
            'I' | 'L' => '1',
            other => other,
        })
        .collect();
    equals_in_constant_time(typed.as_bytes(), code.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_goes_both_ways() {
        let hash = hash_text("x");
        assert_eq!(hash_from_hex(&to_hex(&hash)), Some(hash));
        assert_eq!(hash_from_hex("zz"), None);
        assert_eq!(hash_from_hex(&"g".repeat(64)), None);
    }

    #[test]
    fn moving_text_between_fields_changes_the_hash() {
        assert_ne!(
            hash_fields(&[Some("ab"), Some("c")]),
            hash_fields(&[Some("a"), Some("bc")])
        );
        assert_ne!(hash_fields(&[Some("")]), hash_fields(&[None]));
        assert_ne!(
            hash_fields(&[Some("a"), None]),
            hash_fields(&[None, Some("a")])
        );
    }

    #[test]
    fn a_code_can_be_typed_carelessly() {
        let code = new_pairing_code().expect("random bytes");
        assert_eq!(code.len(), 8);
        assert!(matches_pairing_code(
            &format!("{}-{}", &code[..4], code[4..].to_lowercase()),
            &code
        ));
        assert!(matches_pairing_code("O1l4-7777", "01147777"));
        assert!(!matches_pairing_code("", &code));
    }
}
