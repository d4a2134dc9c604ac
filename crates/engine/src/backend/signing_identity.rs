//! This device's identity at the backend: its key, its token, its signatures.

use sha2::{Digest, Sha256};

use punie_core::ids::{DeviceId, to_hex};
use punie_home::{BackendTokens, DeviceIdentity, HomeError, TokenName, random_token};
use punie_text::redact::{Redactor, Secret};

/// The identity that signs for the device, and the store of its session's token.
pub struct DeviceCredentials {
    /// The identity with the key.
    pub identity: DeviceIdentity,
    /// The owner's name for this device.
    pub name: String,
    /// The files of the backend's tokens. That of the session stays there between two runs of the runner.
    pub tokens: BackendTokens,
    /// Masks every token of a session in results before its first use.
    pub redactor: Redactor,
}

impl DeviceCredentials {
    /// Returns the session's token, if there is one.
    pub(super) fn load_token(&self) -> Option<Secret<String>> {
        self.tokens.read(TokenName::Device).ok().flatten()
    }

    /// Creates a token and stores it before it is used.
    pub(super) fn renew_token(&self) -> Result<Secret<String>, HomeError> {
        let token = random_token();
        self.redactor.add_secret(&token);
        self.tokens.write(TokenName::Device, &token)?;
        Ok(token)
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
