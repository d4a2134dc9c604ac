//! The Ed25519 public key of the configuration.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::VerifyingKey;

/// The bytes before an Ed25519 key in DER: RFC 8410, section 4.
const DER_HEAD: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// A public key for checking signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Reads 32 bytes as base64 or as 64 hexadecimal digits, or the middle line of a PEM file (RFC 8410).
    ///
    /// # Errors
    /// A sentence for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let bytes = decode_hex(text).or_else(|| {
            let decoded = STANDARD.decode(text).ok()?;
            let bytes = decoded.strip_prefix(&DER_HEAD).unwrap_or(&decoded);
            bytes.try_into().ok()
        });
        let bytes =
            bytes.ok_or("it is not 32 bytes as base64 (44 characters) or in hex (64 digits)")?;
        match VerifyingKey::from_bytes(&bytes) {
            Ok(key) if !key.is_weak() => Ok(Self(bytes)),
            _ => Err(
                "its 32 bytes are no Ed25519 public key. `punie-runner keygen FILE` prints one"
                    .to_owned(),
            ),
        }
    }

    /// Returns the key's bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Encodes the key as base64.
    pub fn encode_base64(&self) -> String {
        STANDARD.encode(self.0)
    }
}

fn decode_hex(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> = text
        .chars()
        .map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok()))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
        .collect();
    (digits.len() == 64)
        .then(|| bytes.try_into().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_in_either_spelling_and_nothing_else_is() {
        // The first test vector of RFC 8032, section 7.1.
        let hex = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        let key = PublicKey::parse(hex).expect("hex");
        assert_eq!(
            key.encode_base64(),
            "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
        );
        assert_eq!(PublicKey::parse(&key.encode_base64()), Ok(key));
        assert_eq!(PublicKey::parse(&format!(" {hex}\n")), Ok(key));
        let pem_line = STANDARD.encode([&DER_HEAD[..], key.as_bytes()].concat());
        assert!(pem_line.starts_with("MCowBQYDK2VwAyEA"), "{pem_line}");
        assert_eq!(PublicKey::parse(&pem_line), Ok(key));
        for bad in [
            "",
            "abc",
            &hex[1..],
            &"0".repeat(64),
            &format!("{hex}00"),
            "not a key at all",
        ] {
            assert!(PublicKey::parse(bad).is_err(), "{bad}");
        }
    }
}
