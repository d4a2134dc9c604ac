//! A backend that a script can restart, wipe, or make lose an answer.

use punie_dev_backend::{
    BackendClock, CallerPermission, DevBackend, DevBackendOptions, FaultInjector, InjectedFault,
    MAX_CONNECTIONS,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::dev_backend::server::{BackendWire, pair_device};

pub struct ConformanceHost {
    home: TempDir,
    faults: FaultInjector,
    backend: Option<DevBackend>,
    pub url: String,
}

impl ConformanceHost {
    pub async fn start() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let mut host = Self {
            home,
            faults: FaultInjector::new(),
            backend: None,
            url: String::new(),
        };
        host.begin(0).await;
        host
    }

    fn backend(&self) -> &DevBackend {
        self.backend
            .as_ref()
            .expect("the backend runs between two requests")
    }

    async fn begin(&mut self, port: u16) {
        let options = DevBackendOptions {
            db: self.home.path().join("backend.sqlite3"),
            port,
            clock: BackendClock::from_system(),
            holds: true,
            max_connections: MAX_CONNECTIONS,
            faults: Some(self.faults.clone()),
        };
        let backend = DevBackend::start_server(options).await.expect("started");
        backend.listen_url().clone_into(&mut self.url);
        self.backend = Some(backend);
    }

    async fn end(&mut self) -> u16 {
        self.backend.take().expect("it runs").stop_server().await;
        self.url
            .rsplit(':')
            .next()
            .and_then(|port| port.parse().ok())
            .expect("a port")
    }

    /// Creates a caller and pairs a device. Returns their tokens and the owner's admin key.
    pub async fn who(&self) -> Value {
        let backend = self.backend();
        let caller = backend
            .mint_caller_token("conformance", CallerPermission::Both)
            .expect("a token");
        let wire = BackendWire::at(&self.url);
        let code = backend
            .pairing_code()
            .expect("readable")
            .expect("a pairing code is open");
        let device = pair_device(&wire, &code, BackendClock::from_system().now_ms(), "dev-1").await;
        json!({
            "callerToken": caller, "deviceId": device.id, "deviceToken": device.token, "adminKey": backend.admin_key(),
        })
    }

    /// Carries out a command of a script and returns the answer to it.
    pub async fn answer(&mut self, asked: &str) -> Value {
        let (verb, function) = asked.split_once(' ').unwrap_or((asked, ""));
        match verb {
            "restart" => {
                let port = self.end().await;
                self.begin(port).await;
                Value::Null
            }
            "wipe" => {
                let port = self.end().await;
                for file in std::fs::read_dir(self.home.path()).expect("the folder") {
                    std::fs::remove_file(file.expect("a file").path()).expect("removed");
                }
                self.begin(port).await;
                self.who().await
            }
            "drop" => {
                self.faults.plan(function, 1, InjectedFault::Drop);
                Value::Null
            }
            "calls" => self.faults.calls(function).into(),
            other => panic!("a script asks for {other:?}"),
        }
    }
}
