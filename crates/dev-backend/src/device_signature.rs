//! Ed25519 signatures of devices: the checks of keys, signatures and signing times.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, VerifyingKey};

use super::failure::{FailureCode, FunctionFailure, FunctionResult};

/// The largest difference between a signature's time and the server's.
const SKEW_MS: f64 = 5.0 * 60.0 * 1000.0;

/// Parses a public key: 32 raw bytes in standard base64.
pub(super) fn parse_public_key(text: &str) -> FunctionResult<VerifyingKey> {
    STANDARD
        .decode(text)
        .ok()
        .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
        .and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok())
        .ok_or_else(|| {
            FunctionFailure::invalid_argument(
                "publicKey must be an Ed25519 key: 32 bytes in base64",
            )
        })
}

/// Returns a stored key, which was checked when it was pinned.
pub(super) fn pinned_key(bytes: &[u8; 32]) -> FunctionResult<VerifyingKey> {
    VerifyingKey::from_bytes(bytes)
        .map_err(|_| FunctionFailure::invalid_argument("the pinned key of this device is damaged"))
}

/// Checks a signature (64 raw bytes in standard base64) of a text. The strict check also refuses weak keys, for which
/// one signature fits many texts.
pub(super) fn verify_text(key: &VerifyingKey, text: &str, signature: &str) -> FunctionResult<()> {
    let bad = || {
        FunctionFailure::with_code(
            FailureCode::BadSignature,
            "the signature does not fit the key and the signed text",
        )
    };
    let bytes: [u8; 64] = STANDARD
        .decode(signature)
        .ok()
        .and_then(|b| b.try_into().ok())
        .ok_or_else(bad)?;
    key.verify_strict(text.as_bytes(), &Signature::from_bytes(&bytes))
        .map_err(|_| bad())
}

/// Refuses a signature that is too old, or made by a clock that is ahead. The error carries the server's time, so that
/// the device can correct its clock.
pub(super) fn check_freshness(signed_at_ms: i64, server_now_ms: f64) -> FunctionResult<()> {
    #[expect(clippy::cast_precision_loss, reason = "signed times are within 2^53")]
    let skew = (signed_at_ms as f64 - server_now_ms).abs();
    if skew <= SKEW_MS {
        Ok(())
    } else {
        Err(FunctionFailure::stale_signature(server_now_ms))
    }
}
