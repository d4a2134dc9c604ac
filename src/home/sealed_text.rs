//! Authenticated encryption of a text: ChaCha20-Poly1305 with a fresh nonce.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};

use super::tokens::random_bytes;

/// The type of the file and its encryption. It is authenticated too, so that another type of file is not accepted.
const FORMAT: &str = "punie-secrets-1 chacha20-poly1305";

/// The key: 32 random bytes.
pub(super) type SealingKey = [u8; 32];

/// The encrypted text in its file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SealedEnvelope {
    format: String,
    nonce: String,
    sealed: String,
}

/// Encrypts bytes. The nonce has 96 random bits, so two would only be equal after billions of writes under one key.
pub(super) fn seal_bytes(key: &SealingKey, plain: &[u8]) -> String {
    let random = random_bytes();
    let mut nonce = [0; NONCE_LEN];
    nonce.copy_from_slice(&random[..NONCE_LEN]);
    let mut bytes = plain.to_vec();
    secret_cipher(key)
        .seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(FORMAT),
            &mut bytes,
        )
        .expect("a few megabytes are far below what the cipher takes");
    let envelope = SealedEnvelope {
        format: FORMAT.to_owned(),
        nonce: STANDARD.encode(nonce),
        sealed: STANDARD.encode(&bytes),
    };
    serde_json::to_string(&envelope).expect("three texts are JSON") + "\n"
}

/// Decrypts a text.
///
/// # Errors
/// The reason, as part of a sentence, without any of the content.
pub(super) fn open_sealed(key: &SealingKey, text: &str) -> Result<Vec<u8>, &'static str> {
    let envelope: SealedEnvelope =
        serde_json::from_str(text).map_err(|_| "it is cut short, or no such file")?;
    if envelope.format != FORMAT {
        return Err("it is of a format that this version does not know");
    }
    let nonce = STANDARD
        .decode(&envelope.nonce)
        .ok()
        .and_then(|bytes| <[u8; NONCE_LEN]>::try_from(bytes).ok());
    let (Some(nonce), Ok(mut bytes)) = (nonce, STANDARD.decode(&envelope.sealed)) else {
        return Err("what is sealed in it is not base64");
    };
    let opened = secret_cipher(key)
        .open_in_place(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(FORMAT),
            &mut bytes,
        )
        .map_err(|_| "it was changed, or sealed with another key")?
        .len();
    bytes.truncate(opened);
    Ok(bytes)
}

fn secret_cipher(key: &SealingKey) -> LessSafeKey {
    LessSafeKey::new(
        UnboundKey::new(&CHACHA20_POLY1305, key).expect("the key has the cipher's length"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_is_opened_with_its_key_and_no_other() {
        let sealed = seal_bytes(&[1; 32], b"hunter2hunter2");
        assert!(!sealed.contains("hunter"));
        assert_eq!(
            open_sealed(&[1; 32], &sealed).expect("opened"),
            b"hunter2hunter2"
        );
        assert_eq!(
            open_sealed(&[2; 32], &sealed).expect_err("another key"),
            "it was changed, or sealed with another key"
        );
        assert_ne!(
            sealed,
            seal_bytes(&[1; 32], b"hunter2hunter2"),
            "each time under another nonce"
        );
    }

    #[test]
    fn no_changed_byte_and_no_missing_end_goes_unnoticed() {
        let sealed = seal_bytes(&[1; 32], b"value");
        for at in 0..sealed.len() - 1 {
            let mut bytes = sealed.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let text = String::from_utf8(bytes).expect("text");
            assert!(open_sealed(&[1; 32], &text).is_err(), "byte {at}");
            assert!(open_sealed(&[1; 32], &sealed[..at]).is_err(), "cut at {at}");
        }
    }
}
