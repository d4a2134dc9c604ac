//! Pairs a device in this process, in the same way as the command `pair`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use punie_engine::backend::{
    Backend as _, ConvexBackend, HttpFunctions, TokenStore, TransportOptions,
};
use punie_home::{BackendTokens, DeviceIdentity, Home, TokenName, random_token};
use punie_text::redact::Secret;

use super::inside::IdentitySigner;
use super::process::ProcessSetting;

/// Pairs the home of this setting with its backend and returns the device's id.
pub async fn pair_home(setting: &ProcessSetting, code: &str) -> String {
    let home = Home::open_home(&setting.home).expect("a home");
    let identity = DeviceIdentity::load_or_create(&home).expect("an identity");
    let device = identity.device_id().to_string();
    let functions =
        HttpFunctions::new(&setting.url, TransportOptions::default()).expect("an address");
    let tokens = TokenFile(BackendTokens::for_backend(&home, &setting.url));
    let backend = ConvexBackend::new(
        functions,
        Arc::new(IdentitySigner(identity)),
        Arc::new(tokens),
        Some(code.to_owned()),
        Duration::from_mins(1),
    );
    backend.open_session().await.expect("a paired device");
    device
}

/// The session's token in its file of the home.
struct TokenFile(BackendTokens);

impl TokenStore for TokenFile {
    fn load_token(&self) -> Option<Secret<String>> {
        self.0.read(TokenName::Device).ok().flatten()
    }
    fn renew_token(&self) -> io::Result<Secret<String>> {
        let token = random_token();
        self.0
            .write(TokenName::Device, &token)
            .map_err(io::Error::other)?;
        Ok(token)
    }
    fn store_backend_id(&self, id: &str) -> io::Result<()> {
        self.0.write_id(id).map_err(io::Error::other)
    }
}
