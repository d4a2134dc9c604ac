//! A backend for one test, with a clock that the test can move, and the clients that call it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signer as _, SigningKey};
use punie_dev_backend::{
    BackendClock, CallerPermission, DevBackend, DevBackendOptions, MAX_CONNECTIONS, PairingTerms,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

pub use crate::harness::caller::BackendWire;

/// Milliseconds since 1970, moved by the test.
#[derive(Clone)]
pub struct TestClock(Arc<AtomicU64>);

impl TestClock {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1_763_000_000_000_f64.to_bits())))
    }

    pub fn now_ms(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::SeqCst))
    }

    pub fn advance(&self, ms: f64) {
        self.0
            .store((self.now_ms() + ms).to_bits(), Ordering::SeqCst);
    }
}

pub struct TestBackend {
    pub backend: DevBackend,
    pub clock: TestClock,
    pub caller_token: String,
    /// Valid for more devices, and for longer, than a test needs.
    pub pairing_code: String,
    pub wire: BackendWire,
    home: TempDir,
}

impl TestBackend {
    pub async fn start() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let clock = TestClock::new();
        let backend = DevBackend::start_server(backend_options(&home, &clock))
            .await
            .expect("started");
        let caller_token = backend
            .mint_caller_token("test", CallerPermission::Both)
            .expect("a token");
        let pairing_code = backend
            .renew_pairing_code(PairingTerms::LARGEST)
            .expect("a code");
        let wire = BackendWire::at(backend.listen_url());
        Self {
            backend,
            clock,
            caller_token,
            pairing_code,
            wire,
            home,
        }
    }

    pub fn options(&self) -> DevBackendOptions {
        backend_options(&self.home, &self.clock)
    }

    /// Stops the backend and starts another on the same file.
    pub async fn restart(self) -> Self {
        let options = self.options();
        self.restart_with(options).await
    }

    /// The same, with these options.
    pub async fn restart_with(self, options: DevBackendOptions) -> Self {
        let Self {
            backend,
            clock,
            caller_token,
            pairing_code,
            wire,
            home,
        } = self;
        backend.stop_server().await;
        let backend = DevBackend::start_server(options)
            .await
            .expect("started again");
        let wire = BackendWire {
            url: backend.listen_url().to_owned(),
            ..wire
        };
        Self {
            backend,
            clock,
            caller_token,
            pairing_code,
            wire,
            home,
        }
    }

    pub fn caller(&self) -> CallerClient {
        CallerClient {
            wire: self.wire.clone(),
            token: self.caller_token.clone(),
        }
    }

    /// Pairs a device, which opens its first session.
    pub async fn pair(&self, id: &str) -> DeviceClient {
        pair_device(&self.wire, &self.pairing_code, self.clock.now_ms(), id).await
    }

    /// Returns a client for the same device at this backend's address.
    pub fn reconnect_device(&self, device: &DeviceClient) -> DeviceClient {
        DeviceClient {
            wire: self.wire.clone(),
            id: device.id.clone(),
            token: device.token.clone(),
        }
    }
}

/// Opens a device's first session.
pub async fn pair_device(
    wire: &BackendWire,
    pairing_code: &str,
    signed_at: f64,
    id: &str,
) -> DeviceClient {
    let keys = DeviceKeys::new();
    let text = format!("punie-session:v1:{id}:{signed_at}:{}", keys.token_hash());
    let args = json!({
        "deviceId": id, "publicKey": keys.public_key(), "name": id, "platform": "test",
        "signedAtMs": signed_at, "tokenHash": keys.token_hash(), "signature": keys.sign(&text),
        "pairingCode": pairing_code,
    });
    wire.value("mutation", "devices:openSession", &args).await;
    DeviceClient {
        wire: wire.clone(),
        id: id.to_owned(),
        token: keys.token,
    }
}

fn backend_options(home: &TempDir, clock: &TestClock) -> DevBackendOptions {
    let clock = clock.clone();
    DevBackendOptions {
        db: home.path().join("backend.sqlite3"),
        port: 0,
        clock: BackendClock::new(move || clock.now_ms()),
        holds: true,
        max_connections: MAX_CONNECTIONS,
        faults: None,
    }
}

/// A device's key and session token.
pub struct DeviceKeys {
    key: SigningKey,
    pub token: String,
}

impl DeviceKeys {
    pub fn new() -> Self {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).expect("random bytes");
        let mut token = [0; 16];
        getrandom::fill(&mut token).expect("random bytes");
        Self {
            key: SigningKey::from_bytes(&secret),
            token: STANDARD.encode(token),
        }
    }

    pub fn public_key(&self) -> String {
        STANDARD.encode(self.key.verifying_key().as_bytes())
    }

    pub fn token_hash(&self) -> String {
        let nibbles = Sha256::digest(&self.token)
            .into_iter()
            .flat_map(|byte| [byte >> 4, byte & 15]);
        nibbles
            .map(|nibble| char::from_digit(nibble.into(), 16).expect("below 16"))
            .collect()
    }

    pub fn sign(&self, text: &str) -> String {
        STANDARD.encode(self.key.sign(text.as_bytes()).to_bytes())
    }
}

/// The client that sends requests.
#[derive(Clone)]
pub struct CallerClient {
    pub wire: BackendWire,
    pub token: String,
}

impl CallerClient {
    pub async fn append(&self, request: &str, device: &str, args: &str) -> Value {
        let args = json!({
            "callerToken": self.token, "requestId": request, "deviceId": device, "toolName": "Read", "args": args,
        });
        self.wire
            .value("mutation", "events:appendRequest", &args)
            .await
    }

    pub async fn cancel(&self, request: &str) -> Value {
        let args = json!({ "callerToken": self.token, "requestId": request });
        self.wire.value("mutation", "events:cancel", &args).await
    }

    pub async fn result(&self, request: &str) -> Value {
        let args = json!({ "callerToken": self.token, "requestId": request });
        self.wire.value("query", "events:getResult", &args).await
    }
}

/// The client that answers requests.
pub struct DeviceClient {
    pub wire: BackendWire,
    pub id: String,
    pub token: String,
}

impl DeviceClient {
    pub async fn poll(&self, cursor: Value, wait_ms: u32) -> Value {
        let args = json!({ "deviceId": self.id, "token": self.token, "cursor": cursor, "waitMs": wait_ms });
        self.wire
            .value("query", "events:listForDevice", &args)
            .await
    }

    pub async fn claim(&self, request: &str, lease: &str) -> Value {
        let args = json!({ "deviceId": self.id, "token": self.token, "requestId": request, "leaseId": lease });
        self.wire.value("mutation", "events:claim", &args).await
    }

    pub async fn post(&self, request: &str, lease: &str, payload: &str) -> Value {
        let args = json!({
            "deviceId": self.id, "token": self.token, "requestId": request, "leaseId": lease,
            "outcome": "ok", "payload": payload,
        });
        self.wire
            .value("mutation", "events:appendResult", &args)
            .await
    }
}
