//! What every measure stands on: an embedded backend in this process, a workspace with files, a home for the device.

use std::path::{Path, PathBuf};
use std::time::Duration;

use punie_dev_backend::{
    BackendClock, CallerPermission, DevBackend, DevBackendOptions, MAX_CONNECTIONS, PairingTerms,
};
use punie_home::{DeviceIdentity, Home};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The size of the file that is read.
pub const FILE_BYTES: usize = 40 << 10;

/// A backend, a workspace and a home, gone when it is dropped.
pub struct Stage {
    runtime: Runtime,
    backend: Option<DevBackend>,
    pub url: String,
    pub caller_token: String,
    pub pairing_code: String,
    pub device_id: String,
    root: TempDir,
}

impl Stage {
    /// Everything new and empty but for one file of [`FILE_BYTES`].
    pub fn set() -> Self {
        Self::with(true)
    }

    /// The same; the backend holds polls or answers each at once.
    pub fn with(holds: bool) -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let options = DevBackendOptions {
            db: root.path().join("backend.sqlite3"),
            port: 0,
            clock: BackendClock::from_system(),
            holds,
            max_connections: MAX_CONNECTIONS,
            faults: None,
        };
        let backend = runtime
            .block_on(DevBackend::start_server(options))
            .expect("a backend");
        let home = Home::open_home(&root.path().join("home")).expect("a home");
        let identity = DeviceIdentity::load_or_create(&home).expect("an identity");
        let workspace = root.path().join("workspace");
        std::fs::create_dir(&workspace).expect("a workspace");
        std::fs::write(workspace.join("file.txt"), lines(FILE_BYTES)).expect("a file");
        Self {
            url: backend.listen_url().to_owned(),
            caller_token: backend
                .mint_caller_token("bench", CallerPermission::Both)
                .expect("a token"),
            pairing_code: backend
                .renew_pairing_code(PairingTerms::LARGEST)
                .expect("a code"),
            device_id: identity.device_id().to_string(),
            runtime,
            backend: Some(backend),
            root,
        }
    }

    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    pub fn workspace(&self) -> PathBuf {
        self.root.path().join("workspace")
    }

    pub fn database(&self) -> PathBuf {
        self.root.path().join("backend.sqlite3")
    }

    pub fn log(&self) -> PathBuf {
        self.root.path().join("log")
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Until the device has opened its first session.
    pub fn wait_for_device(&self) {
        let db = Connection::open(self.database()).expect("the backend's database");
        let mut look = db.prepare("select 1 from devices").expect("the table");
        while !look.exists([]).expect("a look") {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(backend) = self.backend.take() {
            self.runtime.block_on(backend.stop_server());
        }
    }
}

/// Source-like lines of different lengths.
fn lines(bytes: usize) -> String {
    let mut text = String::new();
    for n in 0.. {
        let line = format!(
            "{:indent$}let value_{n} = compute(\"{n}\", {});\n",
            "",
            n * 7,
            indent = n % 5 * 4
        );
        if text.len() + line.len() > bytes {
            break;
        }
        text.push_str(&line);
    }
    text
}
