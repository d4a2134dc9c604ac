//! The device for the backend: its identity signs, and its token file stores the session.

use std::io;

use punie_core::ids::DeviceId;
use punie_engine::backend::{DeviceSigner, TokenStore};
use punie_home::{BackendTokens, DeviceIdentity, TokenName, random_token};
use punie_text::redact::{Redactor, Secret};

/// The home's identity with the machine's host name.
pub struct IdentitySigner {
    identity: DeviceIdentity,
    name: String,
}

impl IdentitySigner {
    /// Creates the device from this identity.
    pub fn new(identity: DeviceIdentity) -> Self {
        Self {
            identity,
            name: host_name(),
        }
    }
}

#[cfg(unix)]
fn host_name() -> String {
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    if name.is_empty() {
        "unnamed".to_owned()
    } else {
        name.chars().take(100).collect()
    }
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::consts::OS.to_owned()
}

impl DeviceSigner for IdentitySigner {
    fn device_id(&self) -> &DeviceId {
        self.identity.device_id()
    }
    fn signing_public_key(&self) -> String {
        self.identity.public_key_base64().to_owned()
    }
    fn sign_text(&self, text: &str) -> String {
        self.identity.sign_base64(text)
    }
    fn device_name(&self) -> String {
        self.name.clone()
    }
}

/// The session's token in its file. Every token is masked in results before its first use.
pub struct StoredToken {
    tokens: BackendTokens,
    redactor: Redactor,
}

impl StoredToken {
    /// Creates a store for these tokens, masked by this redactor.
    pub fn new(tokens: BackendTokens, redactor: Redactor) -> Self {
        Self { tokens, redactor }
    }
}

impl TokenStore for StoredToken {
    fn load_token(&self) -> Option<Secret<String>> {
        self.tokens.read(TokenName::Device).ok().flatten()
    }

    fn renew_token(&self) -> io::Result<Secret<String>> {
        let token = random_token();
        self.redactor.add_secret(&token);
        self.tokens
            .write(TokenName::Device, &token)
            .map_err(io::Error::other)?;
        Ok(token)
    }

    fn store_backend_id(&self, id: &str) -> io::Result<()> {
        self.tokens.write_id(id).map_err(io::Error::other)
    }
}
