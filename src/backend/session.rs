//! Who this device is to the backend: its key, its token, its signatures. Not here: where they are kept (home).

use sha2::{Digest, Sha256};

use crate::ids::{DeviceId, hex};
use crate::redact::Secret;

/// The device's identity, as far as the wire needs it.
pub trait Signer: Send + Sync + 'static {
    /// The device's id.
    fn device_id(&self) -> &DeviceId;
    /// The Ed25519 public key (RFC 8032), raw, in base64.
    fn public_key(&self) -> String;
    /// The signature of a text, raw, in base64.
    fn sign(&self, text: &str) -> String;
    /// What the owner calls this device.
    fn name(&self) -> String;
}

/// Where the session's token is kept between two lives of the runner.
pub trait TokenStore: Send + Sync + 'static {
    /// The token, if there is one.
    fn load(&self) -> Option<Secret<String>>;
    /// A new token, kept before it is used.
    fn renew(&self) -> std::io::Result<Secret<String>>;
    /// Keeps the id of the deployment that took the token.
    fn keep_backend_id(&self, _id: &str) -> std::io::Result<()> {
        Ok(())
    }
}

/// What a session's signature covers.
pub(super) fn session_text(device: &DeviceId, signed_at_ms: i64, token_hash: &str) -> String {
    format!("punie-session:v1:{device}:{signed_at_ms}:{token_hash}")
}

/// What a heartbeat's signature covers.
pub(super) fn beat_text(device: &DeviceId, signed_at_ms: i64) -> String {
    format!("{device}:{signed_at_ms}")
}

/// SHA-256 of the token, in hex: all that the backend ever stores of it.
pub(super) fn token_hash(token: &Secret<String>) -> String {
    hex(&Sha256::digest(token.expose()))
}
