//! Pairs a device in this process, in the same way as the command `pair`.

use std::time::Duration;

use punie_engine::backend::{
    Backend as _, ConvexBackend, DeviceCredentials, HttpFunctions, TransportOptions,
};
use punie_home::{BackendTokens, DeviceIdentity, Home};
use punie_text::redact::Redactor;

use super::process::ProcessSetting;

/// Pairs the home of this setting with its backend and returns the device's id.
pub async fn pair_home(setting: &ProcessSetting, code: &str) -> String {
    let home = Home::open_home(&setting.home).expect("a home");
    let identity = DeviceIdentity::load_or_create(&home).expect("an identity");
    let device = identity.device_id().to_string();
    let functions =
        HttpFunctions::new(&setting.url, TransportOptions::default()).expect("an address");
    let credentials = DeviceCredentials {
        identity,
        name: "inside".to_owned(),
        tokens: BackendTokens::for_backend(&home, &setting.url),
        redactor: Redactor::default(),
    };
    let backend = ConvexBackend::new(
        functions,
        credentials,
        Some(code.to_owned()),
        Duration::from_mins(1),
    );
    backend.open_session().await.expect("a paired device");
    device
}
