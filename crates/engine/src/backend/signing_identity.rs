//! This device's identity at the backend: its key, its token, its signatures.

use sha2::{Digest, Sha256};

use punie_core::ids::{DeviceId, to_hex};
use punie_text::redact::Secret;

/// The device's identity, as far as backend calls need it.
pub trait DeviceSigner: Send + Sync + 'static {
    /// The device's id.
    fn device_id(&self) -> &DeviceId;
    /// The raw Ed25519 public key (RFC 8032), in base64.
    fn signing_public_key(&self) -> String;
    /// The raw signature of a text, in base64.
    fn sign_text(&self, text: &str) -> String;
    /// The owner's name for this device.
    fn device_name(&self) -> String;
}

/// The storage of the session's token between two runs of the runner.
pub trait TokenStore: Send + Sync + 'static {
    /// Returns the token, if there is one.
    fn load_token(&self) -> Option<Secret<String>>;
    /// Creates a token and stores it before it is used.
    fn renew_token(&self) -> std::io::Result<Secret<String>>;
    /// Stores the id of the deployment that accepted the token.
    fn store_backend_id(&self, _id: &str) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the text that a session's signature covers.
pub(super) fn session_signing_text(
    device: &DeviceId,
    signed_at_ms: i64,
    token_hash: &str,
) -> String {
    format!("punie-session:v1:{device}:{signed_at_ms}:{token_hash}")
}

/// Returns the text that a heartbeat's signature covers.
pub(super) fn heartbeat_signing_text(device: &DeviceId, signed_at_ms: i64) -> String {
    format!("{device}:{signed_at_ms}")
}

/// Returns the SHA-256 of the token in hex. The backend stores only this.
pub(super) fn hash_token(token: &Secret<String>) -> String {
    to_hex(&Sha256::digest(token.expose()))
}
