//! The device for the backend: its identity signs, and its token file stores the session.

use std::io;

use crate::backend::{Signer, TokenStore};
use crate::home::{DeviceIdentity, TokenName, Tokens, fresh_token};
use crate::ids::DeviceId;
use crate::redact::{Redactor, Secret};

/// The home's identity with the machine's host name.
pub struct Device {
    identity: DeviceIdentity,
    name: String,
}

impl Device {
    /// Creates the device from this identity.
    pub fn new(identity: DeviceIdentity) -> Self {
        Self { identity, name: host_name() }
    }
}

#[cfg(unix)]
fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "unnamed".to_owned() } else { name.chars().take(100).collect() }
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::consts::OS.to_owned()
}

impl Signer for Device {
    fn device_id(&self) -> &DeviceId {
        self.identity.id()
    }
    fn public_key(&self) -> String {
        self.identity.public_key_base64().to_owned()
    }
    fn sign(&self, text: &str) -> String {
        self.identity.sign(text)
    }
    fn name(&self) -> String {
        self.name.clone()
    }
}

/// The session's token in its file. Every token is masked in results before its first use.
pub struct StoredToken {
    tokens: Tokens,
    redactor: Redactor,
}

impl StoredToken {
    /// Creates a store for these tokens, masked by this redactor.
    pub fn new(tokens: Tokens, redactor: Redactor) -> Self {
        Self { tokens, redactor }
    }
}

impl TokenStore for StoredToken {
    fn load(&self) -> Option<Secret<String>> {
        self.tokens.read(TokenName::Device).ok().flatten()
    }

    fn renew(&self) -> io::Result<Secret<String>> {
        let token = fresh_token();
        self.redactor.add(&token);
        self.tokens.write(TokenName::Device, &token).map_err(io::Error::other)?;
        Ok(token)
    }

    fn keep_backend_id(&self, id: &str) -> io::Result<()> {
        self.tokens.keep_backend_id(id).map_err(io::Error::other)
    }
}
